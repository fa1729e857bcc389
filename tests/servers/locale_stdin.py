"""S07: decodes stdin as Latin-1 whatever comes, so that text which is not ASCII comes back wrong."""

import sys
import types

import raw

text = (line.decode("latin-1").encode() for line in sys.stdin.buffer)
raw.sys = types.SimpleNamespace(stdin=types.SimpleNamespace(buffer=text), stdout=sys.stdout)
raw.serve()
