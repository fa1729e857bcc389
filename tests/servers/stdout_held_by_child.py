"""The tool `leave` starts a child that holds stdout and stderr open, and exits with code 3."""

import os
import subprocess
import sys

from raw import ECHO, echo, serve, tool


def call(name, arguments, message):
    if name == "leave":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], stdin=subprocess.DEVNULL)
        os._exit(3)
    return echo(name, arguments, message)


serve(call, tools=[ECHO, tool("leave")])
