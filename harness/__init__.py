"""mcp-rollcall: fails the build unless every tool of an MCP server answered, or is excused in writing."""

__all__ = ["__version__"]

__version__ = "0.1.0"
