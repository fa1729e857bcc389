"""The journal that a recording proxy writes and its recorder reads: entries of kind, time, size and bytes.

Nothing but the standard library's `struct` is imported: who writes it has no time.
"""

import struct

__all__ = ["BEGAN", "CLIENT_CLOSED", "ENDED", "ENTRY", "FROM_CLIENT", "FROM_SERVER", "STDERR"]

ENTRY = struct.Struct("<BdI")  # kind, time by `time.monotonic()`, size of what follows
BEGAN = 0  # JSON: pid, argv, cwd, names of the variables
FROM_CLIENT = 1
FROM_SERVER = 2
STDERR = 3
CLIENT_CLOSED = 4
ENDED = 5  # JSON: code, ended_by
