"""S12: the tool writes bytes for ever and never a newline."""

import os

from raw import serve


def call(name, arguments, message):
    while True:
        os.write(1, b"x" * 65536)


serve(call)
