"""Blank lines between the replies."""

from raw import serve, write

serve(on=lambda message: write(b"\n  \n"))
