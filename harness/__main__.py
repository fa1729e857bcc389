"""`python -m harness` is `mcp-rollcall`."""

import sys

from harness.cli import main

sys.exit(main())
