"""Lists its tools in the order of a set of their names, which differs from process to process."""

from raw import ECHO, serve, tool

TOOLS = {f"tool_{number}": tool(f"tool_{number}") for number in range(11)}
serve(tools=[ECHO, *(TOOLS[name] for name in set(TOOLS))])
