"""S05: replies are framed as LSP does, with Content-Length and without a newline at the end."""

import json

import raw


def send(message):
    body = json.dumps(message).encode()
    raw.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


raw.send = send
raw.serve()
