"""S21: dies of a line that is no JSON, as most small servers do; with "thread" it does not end when stdin closes, either."""

import json
import sys
import threading
import time

from raw import answer

if "thread" in sys.argv:
    threading.Thread(target=time.sleep, args=(600,)).start()
for line in sys.stdin.buffer:
    answer(json.loads(line))
