"""Calls a second, one after the other and 32 at once, of every client on a fast server and on one of the SDK's."""

from __future__ import annotations

from collections import defaultdict

from bench.driver import CLIENTS, Driver, Missing, drivers, server_command
from bench.table import Table, ratios, spread

__all__ = ["run"]

AT_ONCE = (1, 32)
SERVERS = {"fast": "fast server", "real": "SDK server"}
CALLS = {("fast", 1): 2000, ("fast", 32): 4000, ("real", 1): 300, ("real", 32): 600}


def run(*, rounds: int, quick: bool) -> list[Table]:
    """The clients take turns; the ratios are those of one round each."""
    rows: list[tuple[str, ...]] = []
    for server, title in SERVERS.items():
        rows += _server(server, title, rounds=rounds, quick=quick)
    about = (
        f"Calls of a small tool a second; median and range of {rounds} rounds in which the clients take turns, each "
        "with a server process of its own. The ratio is to the bare loop of the same round."
    )
    head = ("server", "client", "one at a time", "ratio", "32 at once", "ratio")
    return [Table(name="calls", title="Calls", about=about, head=head, rows=tuple(rows))]


def _server(server: str, title: str, *, rounds: int, quick: bool) -> list[tuple[str, ...]]:
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    with drivers(server_command(server), list(CLIENTS)) as clients:
        for number in range(rounds + 1):
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
        rows = []
        for name, label in CLIENTS.items():
            client = clients[name]
            if isinstance(client, Missing):
                rows.append((title, label, str(client), "-", "-", "-"))
                continue
            cells = []
            for at_once in AT_ONCE:
                cells += [spread(rates[name, at_once]), ratios(rates[name, at_once], rates["bare", at_once])]
            rows.append((title, label, *cells))
    return rows
