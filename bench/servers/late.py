"""A service that answers from a known instant on, which it prints: `late.py tcp|http PORT SECONDS`."""

import socket
import sys
import time

HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def main(kind: str, port: int, seconds: float) -> None:
    """Serves until it is killed."""
    time.sleep(seconds)
    with socket.create_server(("127.0.0.1", port), backlog=16) as listener:
        print(time.monotonic(), flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                asked = connection.recv(65536)
                connection.sendall(HTTP if kind == "http" else b"+PONG\r\n" if asked else b"")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
