"""`python -m harness` is `mcp-rollcall`."""

import sys

__all__ = ["main"]


def main() -> int:
    """Runs one command; the proxy without all that the others need, for its start is part of every test of a user."""
    if sys.argv[1:2] == ["proxy"] and sys.argv[2:3] not in (["--help"], ["-h"]):
        from harness.proxy import main as proxy

        return proxy(sys.argv[2:])
    try:
        from harness.cli import main as command
    except KeyboardInterrupt:  # Ctrl-C while Python was still importing
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
