"""S15: the tool runs a child that inherits stdin, and so waits for bytes that are meant for the server."""

import subprocess
import sys

from raw import serve, text


def call(name, arguments, message):
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.stdin.readline(); print('child done')"], stdout=subprocess.PIPE
    )
    return text(done.stdout.decode())


serve(call)
