"""Calls a second, one after the other and 32 at once, of every client on a fast server and on one of the SDK's."""

from __future__ import annotations

from collections import defaultdict

from bench.driver import CLIENTS, Driver, Missing, drivers, server_command
from bench.table import Table, ratios, spread

__all__ = ["run"]

AT_ONCE = (1, 32)
DOORS = {"api": "ours, `harness.testing`", "api-async": "ours, `harness.testing_async`"}
HTTP = {
    "http-api": "ours, `harness.testing`",
    "http-api-async": "ours, `harness.testing_async`",
    "http-bare": "bare asyncio loop",
    "http-sdk": "Python SDK",
}
SERVERS = {"fast": "fast server", "real": "SDK server", "http": "over HTTP"}
CALLS = {
    ("fast", 1): 2000,
    ("fast", 32): 4000,
    ("real", 1): 300,
    ("real", 32): 600,
    ("http", 1): 600,
    ("http", 32): 1200,
}


def run(*, rounds: int, quick: bool) -> list[Table]:
    """The clients take turns; the ratios are those of one round each."""
    rows: list[tuple[str, ...]] = []
    for server, title in SERVERS.items():
        rows += _server(server, title, rounds=rounds, quick=quick)
    about = (
        f"Calls of a small tool a second; median and range of {rounds} rounds in which the clients take turns, each "
        "with a server process of its own. The ratio is to the bare loop of the same round. CPU is what a call takes "
        "of the client's own process, which a busy machine changes little. The Python API records each call as a "
        "step, judges its answer, and remembers it; without `await` a call goes to another thread and back, and 32 at "
        "once are 32 threads."
    )
    head = ("server", "client", "one at a time", "ratio", "CPU, µs", "32 at once", "ratio", "CPU, µs")
    return [Table(name="calls", title="Calls", about=about, head=head, rows=tuple(rows))]


def _server(server: str, title: str, *, rounds: int, quick: bool) -> list[tuple[str, ...]]:
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    costs: dict[tuple[str, int], list[float]] = defaultdict(list)
    names = HTTP if server == "http" else {"wire": CLIENTS["wire"], **DOORS, **CLIENTS}
    bare = "http-bare" if server == "http" else "bare"
    with drivers(server_command(server), list(names)) as clients:
        for number in range(1 if quick else 0, rounds + 1):
            for at_once in AT_ONCE:
                calls = CALLS[server, at_once] // (10 if quick or number == 0 else 1)
                for name, client in list(clients.items()):
                    if not isinstance(client, Driver):
                        continue
                    try:
                        seconds = client.measure("echo", {"text": "hello"}, calls=calls, at_once=at_once)
                    except Missing as missing:
                        clients[name] = missing
                        client.end()
                        continue
                    if number:  # the first round warms up
                        rates[name, at_once].append(calls / seconds)
                        costs[name, at_once].append(1e6 * client.cpu / calls)
        rows = []
        for name, label in names.items():
            client = clients[name]
            if isinstance(client, Missing):
                rows.append((title, label, str(client), *["-"] * 5))
                continue
            cells = []
            for at_once in AT_ONCE:
                rate, base = rates[name, at_once], rates[bare, at_once]
                cells += [spread(rate), ratios(rate, base), spread(costs[name, at_once])]
            rows.append((title, label, *cells))
    return rows
