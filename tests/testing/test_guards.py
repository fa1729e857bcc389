"""Guards and pollers: loopback by its number, and waits that end and say what was seen. Ours."""

import http.server
import socket
import threading

import pytest

from harness.errors import StackError
from harness.testing import (
    NotLoopback,
    assert_loopback,
    assert_loopback_host,
    wait_for_http,
    wait_for_tcp,
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1"])
def test_this_machine_is_taken(host):
    assert_loopback_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "localhost", "LOCALHOST.", "a.localhost", "127.0.0.1.example.com", "example.com", "0.0.0.0", "::"),
        *("0177.0.0.1", "0x7f.1", "2130706433", "127.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "fe80::1%lo"),
        *("::1%lo", "::2", "metadata.google.internal", "127.0.0.1.", "１２７.0.0.1", "127.0.0.1 "),
    ],
)
def test_everything_else_is_refused(host):
    with pytest.raises(NotLoopback):
        assert_loopback_host(host)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/x", "https://[::1]:1/", "redis://:secret@127.0.0.1:6379/0"])
def test_a_url_to_this_machine_is_taken(url):
    assert_loopback(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:3000", "no '://'"),
        ("http://127.0.0.1/", "names no port"),
        ("http://localhost:3000/", "a name is whatever it resolves to"),
        ("http://127.0.0.1:1@evil.example:2/", "a user name in it"),
        ("http://127.0.0.1\\@evil.example:80/", "differ about what a backslash"),
        ("http://127.0.0.1:80 /", "differ about"),
        ("http://127。0.0.1:80/", "differ about"),
        ("http://10.0.0.1:80/", "not this machine's own"),
        ("http://127.0.0.1:99999/", "is no URL"),
        ("redis://:secret@10.0.0.1:6379/0", "not this machine's own"),
    ],
)
def test_a_url_that_leads_elsewhere_is_refused_without_telling_its_password(url, why):
    with pytest.raises(NotLoopback, match=why) as caught:
        assert_loopback(url)
    assert "secret" not in str(caught.value)


@pytest.fixture
def web():
    """An HTTP server whose first answers are 503."""
    left = [2]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status = 503 if left[0] > 0 else 200
            left[0] -= 1
            self.send_response(status)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"ready")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_an_http_server_is_waited_for(web):
    wait_for_http(web, body="ready", timeout_s=60)


def test_a_wait_for_http_that_ends_says_what_was_seen_last(web):
    with pytest.raises(StackError, match=r"was not ready within 2 s .*status \d+, expected 204"):
        wait_for_http(web, status=[204], timeout_s=2)


def test_only_this_machine_is_waited_for():
    with pytest.raises(NotLoopback):
        wait_for_http("http://example.com:80/")
    with pytest.raises(NotLoopback):
        wait_for_tcp("example.com", 80)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_port_at_which_nobody_listens_is_given_up():
    with pytest.raises(StackError, match=r"seen last: .*connect"):
        wait_for_tcp("127.0.0.1", free_port(), timeout_s=2)


def test_a_banner_is_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.sendall(b"* OK IMAP ready\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        host, port = server.getsockname()
        wait_for_tcp(host, port, expect=b"* OK", timeout_s=60)
        with pytest.raises(StackError, match=r"answered '\* OK IMAP ready.*expected '220'"):
            wait_for_tcp(host, port, expect=b"220", timeout_s=2)
        server.shutdown(socket.SHUT_RDWR)
    thread.join(30)


def test_a_port_that_closes_at_once_is_not_ready():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(StackError, match="closed again at once"):
            wait_for_tcp(*server.getsockname(), timeout_s=2)
        server.shutdown(socket.SHUT_RDWR)
    thread.join(30)
