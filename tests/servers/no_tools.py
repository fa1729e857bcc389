"""Declares the tools capability and lists no tool."""

from raw import serve

serve(tools=[])
