"""P03: a launcher (sh -c) that ends when stdin closes, while the server's own helper, its grandchild, lives on."""

import subprocess
import sys

from raw import serve

subprocess.Popen(
    ["sh", "-c", f"exec {sys.executable} -c 'import time; time.sleep(300)'"],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
serve()
