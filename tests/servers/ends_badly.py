"""Broken: it answers everything, and crashes when its stdin is closed; `code` or `signal` as the first argument."""

import os
import signal
import sys

from raw import serve

serve()
print("something was not flushed", file=sys.stderr, flush=True)
if sys.argv[1:] == ["signal"]:
    os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(3)
