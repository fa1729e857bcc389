"""A reply in which one object has the same key twice."""

import json

from raw import serve, write


def call(name, arguments, message):
    write(
        b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"result":""},"content":[]}}\n'
        % json.dumps(message["id"]).encode()
    )


serve(call)
