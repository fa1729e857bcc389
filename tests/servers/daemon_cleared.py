"""P03: a daemon by the book: forks twice, has a session of its own, no environment and no pipe of ours."""

import os

from raw import serve

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.execve("/bin/sleep", ["sleep", "403"], {})
    os._exit(0)
os.wait()
serve()
