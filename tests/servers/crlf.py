"""Lines end in CR LF."""

import json

import raw

raw.send = lambda message: raw.write(json.dumps(message).encode() + b"\r\n")
raw.serve()
