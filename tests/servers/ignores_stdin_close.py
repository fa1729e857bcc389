"""P01: a thread keeps the process alive after stdin has closed; SIGTERM ends it."""

import threading
import time

from raw import serve

threading.Thread(target=time.sleep, args=(300,)).start()
serve()
