"""Leaves a line without its newline on stdout when it ends."""

from raw import serve, write

serve()
write(b"bye")
