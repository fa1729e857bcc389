"""Projects on disk for the tests of the config room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.config.load import Loaded, load

GOOD: Mapping[str, str] = {
    "harness.toml": """\
schema = 1

[server]
name    = "things"
command = ["things-mcp", "--url", "${backend.store.url}"]

[backends.store]
use = "thing"

[suites]
files = ["suites/*.toml"]
""",
    "suites/things.toml": """\
schema = 2
id = "things"

[[case]]
id = "get"
[[case.step]]
call = "get"
""",
    "backends/thing/backend.toml": """\
schema = 1
name = "thing"

[versions.1]

[secrets]
password = 16

[services.thing]
image = "thing:${version}"
ports = { http = 80 }
ready = { http = "http" }

[outputs]
url = "http://${address.http}"
""",
    "backends/thing/Dockerfile": "FROM scratch\n",
    "exemptions.toml": """\
schema = 1

[things.exercised]
forget = "needs a second account, which the store does not have"
""",
}


@pytest.fixture
def good() -> dict[str, str]:
    """The files of a project without problems."""
    return dict(GOOD)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes files (relative name -> text or bytes) and gives the folder."""

    def files(contents: Mapping[str, str | bytes], folder: str = ".") -> Path:
        root = tmp_path / folder
        for name, content in contents.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return files


@pytest.fixture
def loaded(write: Callable[..., Path]) -> Callable[..., Loaded]:
    """Writes a good project with some files replaced, and loads it."""

    def run(**changed: str | bytes) -> Loaded:
        names = {"harness": "harness.toml", "suite": "suites/things.toml", "exemptions": "exemptions.toml"}
        names |= {"backend": "backends/thing/backend.toml", "contract": "contract.json"}
        root = write({**GOOD, **{names[kind]: content for kind, content in changed.items()}})
        return load([root], base=root, catalogue=[])

    return run
