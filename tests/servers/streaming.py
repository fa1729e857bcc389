"""S21: reads stdin as one stream of JSON values (as Go's decoder does): waits on a beginning, ends at anything else."""

import json
import os

from raw import answer

text, scan = "", json.JSONDecoder().raw_decode
while data := os.read(0, 65536).decode():
    text = (text + data).lstrip()
    while text:
        if text[0] not in '{["':
            raise SystemExit(1)
        try:
            value, end = scan(text)
        except ValueError:
            break
        text = text[end:].lstrip()
        answer(value)
