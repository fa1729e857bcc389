"""P01: lives on after stdin has closed, and ignores SIGTERM as well."""

import signal
import time

from raw import serve

signal.signal(signal.SIGTERM, signal.SIG_IGN)
serve()
time.sleep(300)
