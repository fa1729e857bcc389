"""A server as most are: one tool, made with the official SDK."""

from mcp.server.mcpserver import MCPServer

app = MCPServer("real")


@app.tool()
def echo(text: str) -> str:
    """Gives the text back."""
    return text


if __name__ == "__main__":
    app.run()
