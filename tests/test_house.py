"""The layers, and what an import may cost: ours (docs/explanation/architecture.md)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HARNESS = ROOT / "harness"
ROOMS = ("config", "engine", "findings", "report")
MODULES = sorted(HARNESS.rglob("*.py"))


def _layer(module: str) -> str:
    parts = module.split(".")
    if len(parts) < 2:
        return "package"
    return parts[1] if parts[1] in (*ROOMS, "model", "errors") else "door"


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def _may_import(layer: str) -> set[str]:
    if layer == "errors":
        return set()
    if layer == "model":
        return {"model", "errors"}
    if layer in ROOMS:
        return {layer, "model", "errors"}
    return {*ROOMS, "model", "errors", "door", "package"}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_run_one_way(path):
    """errors <- model <- rooms <- doors; rooms never import each other."""
    layer = _layer(_name(path))
    wrong = {
        name
        for name in _imports(path)
        if name.split(".")[0] == "harness" and _layer(name) not in _may_import(layer) and name != "harness"
    }
    assert not wrong, f"{_name(path)} ({layer}) imports {wrong}"


@pytest.mark.parametrize(
    ("package", "homes"),
    [
        ("docker", {"harness.engine.docker"}),
        ("nox", {"harness.sessions"}),
        ("pytest", {"harness.pytest_active", "harness.pytest_plugin", "harness.pytest_state"}),
    ],
)
def test_a_package_is_imported_in_its_home_only(package, homes):
    users = {_name(path) for path in MODULES if any(name.split(".")[0] == package for name in _imports(path))}
    assert users <= homes


def test_mcp_is_imported_in_the_engine_only():
    users = {_name(path) for path in MODULES if any(name.split(".")[0] == "mcp" for name in _imports(path))}
    assert all(user.startswith("harness.engine.") for user in users)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import harness"],
        ["-m", "harness", "--help"],
        ["-m", "harness", "integration", "--help"],
        ["-m", "harness", "tools", "check", "--help"],
        ["-c", "import harness.sessions"],
    ],
    ids=["import", "help", "integration-help", "tools-check-help", "sessions"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(arguments):
    """Neither mcp (over a second) nor docker, rich, jsonschema or anyio."""
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    heavy = {"mcp", "docker", "anyio", "jsonschema", "tomlkit", "pydantic"}
    if "harness.sessions" not in arguments[1]:
        heavy |= {"rich", "nox"}
    assert not imported & heavy


def test_what_tests_import_brings_neither_the_sdk_nor_docker_nor_a_test_runner():
    code = "import harness.testing, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"mcp", "docker", "pytest", "jsonschema", "tomlkit", "pydantic", "httpx2", "rich", "nox", "requests"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "more"), [("integration", {"harness.engine.run", "anyio"}), ("execution", set())], ids=["judge", "run"]
)
def test_judging_loads_nothing_that_runs_and_running_over_stdio_no_http(module, more):
    code = f"import harness.{module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"mcp", "docker", "pydantic", "httpx2", "rich", "nox", "requests"} | more
    assert not heavy & set(done.stdout.split())


def test_a_saved_list_is_judged_without_an_engine(tmp_path):
    """No process, no network: neither mcp nor docker, nor what talks HTTP or rewrites TOML."""
    (tmp_path / "tools.json").write_text('{"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}')
    command = [sys.executable, "-X", "importtime", "-m", "harness", "tools", "check", "tools.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "harness.findings.toolfile" in imported
    assert not imported & {"mcp", "docker", "httpx2", "tomlkit", "pydantic", "rich", "anyio", "requests"}


def test_every_public_list_is_sorted_and_true():
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
            ):
                names = ast.literal_eval(node.value)
                defined = {
                    n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                }
                assigned = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
                defined |= {t.id for target in assigned for t in ast.walk(target) if isinstance(t, ast.Name)}
                defined |= {
                    n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
                }
                defined |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
                assert set(names) <= defined, f"{_name(path)}: {set(names) - defined}"
                assert len(names) == len(set(names)), f"{_name(path)}: repeated"
