"""S15: the tool runs a child that inherits stdin and reads it to its end."""

import subprocess

from raw import serve, text


def call(name, arguments, message):
    return text(subprocess.run(["cat"], stdout=subprocess.PIPE).stdout.decode())


serve(call)
