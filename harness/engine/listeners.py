"""Which sockets of this machine listen, and whose they are, as far as the system tells."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Listener", "listeners", "owner_of"]

_LISTEN = "0A"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening TCP socket.

    Attributes:
        address: "127.0.0.1:8000", "[::]:8000".
        pids: Processes that hold it; empty where that cannot be seen.
    """

    address: str
    pids: tuple[int, ...] = ()


@dataclass(slots=True)
class _Found:
    address: str
    inode: str
    pids: list[int] = field(default_factory=list)


def listeners(port: int | None = None) -> list[Listener]:
    """The listening TCP sockets, of one port or all; none where there is no /proc.

    Args:
        port: Only of this one.
    """
    found = [item for name in ("tcp", "tcp6") for item in _table(name, port)]
    by_inode = {item.inode: item for item in found}
    if by_inode:
        for pid in _pids():
            for inode in _sockets(pid) & by_inode.keys():
                by_inode[inode].pids.append(pid)
    return [Listener(address=item.address, pids=tuple(item.pids)) for item in found]


def owner_of(item: Listener) -> str:
    """Who holds a socket, in words."""
    for pid in item.pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
            return f"process {pid} ({command.decode('utf-8', 'replace')[:200]})"
    return "somebody else"


def _table(name: str, port: int | None) -> list[_Found]:
    try:
        lines = Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        parts = line.split()
        if len(parts) < 10 or parts[3] != _LISTEN:
            continue
        raw, _, hexadecimal = parts[1].partition(":")
        number = int(hexadecimal, 16)
        if port is not None and number != port:
            continue
        found.append(_Found(f"{_host(raw)}:{number}", parts[9]))
    return found


def _host(raw: str) -> str:
    """An address as the kernel prints it: words of four bytes in the machine's own order."""
    data = b"".join(struct.pack("=I", int(raw[at : at + 8], 16)) for at in range(0, len(raw), 8))
    if len(data) == 4:
        return socket.inet_ntoa(data)
    return f"[{ipaddress.IPv6Address(data)}]"


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _sockets(pid: int) -> set[str]:
    found = set()
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
