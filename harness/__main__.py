"""`python -m harness` is `mcp-rollcall`."""

import sys

try:
    from harness.cli import main
except KeyboardInterrupt:  # Ctrl-C while Python was still importing
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
