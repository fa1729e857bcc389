import sys
from pathlib import Path

import pytest

SERVERS = Path(__file__).parent.parent / "servers"


@pytest.fixture
def command():
    """The command of a fixture server."""
    return lambda name: [sys.executable, str(SERVERS / f"{name}.py")]
