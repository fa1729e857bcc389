"""P03: starts a child in a session of its own (a daemon), which no signal to the group reaches."""

import subprocess
import sys

from raw import serve

subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(300)"],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,
)
serve()
