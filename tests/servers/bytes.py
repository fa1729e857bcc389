"""Any bytes at all in both directions at once, as the JSON in its first argument says; and what it was given.

writes: sizes of the chunks that go to stdout, of bytes that follow from `seed`; errors: text for stderr;
reads: how many bytes of stdin it reads before it closes it, null for all; report: the file for what those were;
shuts: whether it closes stdout before it reads; code: the exit code, negative for a signal.
"""

import hashlib
import json
import os
import random
import sys
import threading

spec = json.loads(sys.argv[1])


def read():
    digest, size = hashlib.sha256(), 0
    while spec["reads"] is None or size < spec["reads"]:
        data = os.read(0, 65536 if spec["reads"] is None else min(65536, spec["reads"] - size))
        if not data:
            break
        digest.update(data)
        size += len(data)
    os.close(0)
    with open(spec["report"], "w") as file:
        file.write(f"{size} {digest.hexdigest()}")


def write():
    source = random.Random(spec["seed"])
    for size in spec["writes"]:
        data = source.randbytes(size)
        while data:
            try:
                data = data[os.write(1, data) :]
            except BrokenPipeError:
                return
    if spec["shuts"]:
        os.close(1)


os.write(2, spec["errors"].encode())
thread = threading.Thread(target=read)
thread.start()
write()
thread.join()
if spec["code"] < 0:
    os.kill(os.getpid(), -spec["code"])
os._exit(spec["code"])
