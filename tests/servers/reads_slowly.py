"""Broken: it takes seconds to read a long request; an answer to a line that is cut is what JSON-RPC asks for."""

import io
import sys
import time

from raw import serve, text, tool

BLOCK = 16 * 1024


class Slow(io.RawIOBase):
    """stdin, a block at a time."""

    def readable(self):
        return True

    def readinto(self, buffer):
        data = sys.__stdin__.buffer.raw.read(min(len(buffer), BLOCK))
        if len(data) == BLOCK:
            time.sleep(0.02)
        buffer[: len(data)] = data
        return len(data)


sys.stdin = io.TextIOWrapper(io.BufferedReader(Slow(), BLOCK), encoding="utf-8")
serve(lambda name, arguments, message: text(arguments["text"]), tools=[tool("echo", text="string")])
