"""A server of the official SDK that asks its client for everything, in both eras, and tells it of logs and progress."""

from typing import Annotated, Literal

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

app = MCPServer("sdk-asks")
HINTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)


class Order(BaseModel):
    name: str = Field(min_length=2, max_length=20)
    size: Literal["small", "large"]
    count: int = Field(default=1, ge=1, le=9)
    gift: bool = False
    note: str | None = None


def order():
    return Elicit("What will it be?", Order)


@app.tool(annotations=HINTS)
async def buy(order: Annotated[Order, Resolve(order)]) -> str:
    """Buys what the client says, in both eras."""
    return f"{order.count} {order.size} for {order.name}"


@app.tool(annotations=HINTS)
async def push(ctx: Context) -> str:
    """Asks by a request of its own, as only the handshake era has it."""
    found = await ctx.elicit("And now?", schema=Order)
    return f"{found.action} {found.data.size if found.action == 'accept' else ''}"


@app.tool(annotations=HINTS)
async def work(ctx: Context) -> str:
    """Tells how it gets on."""
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3)
    return "done"


app.run()
