"""Fault: tool names that do not survive on their way to a model."""

from raw import ECHO, serve, tool

NAMES = ("Image layer report", "GET:/items", "items.list", "2fast", "x" * 65, "y" * 55, "Echo", "twice", "twice", "")
MANY = [f"tool_{number:02}" for number in range(32)]

if __name__ == "__main__":
    serve(tools=[ECHO, *map(tool, NAMES), *map(tool, MANY)])
