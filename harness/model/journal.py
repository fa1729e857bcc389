"""The journal that a recording proxy writes and its recorder reads: entries of kind, time, size and bytes.

Nothing but the standard library's `struct` is imported: who writes it has no time.
"""

import struct

__all__ = ["BEGAN", "CLIENT_CLOSED", "ENDED", "ENTRY", "FROM_CLIENT", "FROM_SERVER", "STDERR"]

ENTRY = struct.Struct("<BdI")  # kind, time by `time.monotonic()`, size of what follows
BEGAN, FROM_CLIENT, FROM_SERVER, STDERR, CLIENT_CLOSED, ENDED = range(6)
