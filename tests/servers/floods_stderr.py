"""S13: 300 kB on stderr before every reply, much of it without newlines. Nothing is wrong with that."""

import sys

from raw import serve


def on(message):
    sys.stderr.buffer.write(b"progress\r" * 20000 + b"line of a log\n" * 10000)
    sys.stderr.buffer.flush()


serve(on=on)
