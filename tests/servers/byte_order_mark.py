"""A byte order mark before the first reply."""

import raw

raw.write(b"\xef\xbb\xbf")
raw.serve()
