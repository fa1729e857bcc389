"""The door behind `backends list`, `show` and `try`: what backends there are, and one of them stood up by itself.

What it says goes through the functions that it is given; it prints nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigError, Interrupted, StackError

if TYPE_CHECKING:
    from harness.model.plan import BackendSpec, RoleChoice, Runtime
    from harness.model.progress import Progress
    from harness.report.backend_list import Shelved, Stood

__all__ = ["COMMANDS", "choose", "find_backend", "run"]

ROLE = "backend"  # a stack knows its parts by their roles; here there is one


def _listing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--project",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder whose own backends/ come first (default: .)",
    )
    sub.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout (default: text)")


def _showing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("name", metavar="NAME", help="the backend")
    _listing(sub)


def _trying(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("name", metavar="NAME[@VERSION]", help="the backend; NAME@embedded is the form without Docker")
    _listing(sub)
    sub.add_argument(
        "--runtime",
        choices=("auto", "docker", "process"),
        default=os.environ.get("ROLLCALL_RUNTIME") or "auto",
        help="where it runs: in Docker, as embedded processes, or what is there (default: auto)",
    )
    sub.add_argument("--hold", action="store_true", help="keep it until Ctrl-C, which then ends with exit code 0")
    sub.add_argument("--show-secrets", action="store_true", help="print secret outputs too, which are masked otherwise")
    sub.add_argument(
        "--state", metavar="DIR", help="where installed packages are kept (default: .rollcall of the project)"
    )


COMMANDS: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None]], ...] = (
    ("backends list", "the backends that can be had: shipped ones, and those beside a project", _listing),
    ("backends show", "everything of one backend: services, versions, provisioning, outputs", _showing),
    ("backends try", "stand one backend up, print its outputs, take it down again", _trying),
)


def run(parsed: argparse.Namespace, *, show: Callable[[str], None], progress: Progress, color: bool, width: int) -> int:
    """Runs one of COMMANDS.

    Args:
        show: Takes what belongs on standard output.
    Returns:
        The exit code.
    Raises:
        HarnessError: As `main` reports it.
    """
    from harness.report import backend_list

    base = Path.cwd()
    roots = [_root(base / item) for item in parsed.project] or [base]
    match parsed.command:
        case "backends list":
            items = _all(base, roots)
            if parsed.format == "json":
                show(backend_list.backends_to_json(items))
            else:
                show(backend_list.backends_to_text(items, color=color, width=width))
            return 0
        case "backends show":
            item = _one(base, roots, parsed.name)
            if parsed.format == "json":
                show(backend_list.backends_to_json([item]))
            else:
                show(backend_list.backend_to_text(item, color=color, width=width))
            return 0
        case _:
            return _try(parsed, base, roots, show=show, progress=progress, color=color)


def _root(path: Path) -> Path:
    return path.parent if path.is_file() else path


# --- the shelf ------------------------------------------------------------------------------------


def _all(base: Path, roots: Sequence[Path]) -> list[Shelved]:
    """Every backend, by name; a project's own stands for the shipped one of its name.

    Raises:
        ConfigProblems: What is wrong with any of them.
    """
    from harness.config.backend import Shelf
    from harness.config.problems import ConfigProblems
    from harness.config.toml import Files
    from harness.integration import catalogue
    from harness.model.plan import BackendSpec

    files = Files(base, catalogue())
    shelf = Shelf(files, catalogue())
    found: dict[Path, BackendSpec] = {}
    for root in roots:
        for name in shelf.names(root):
            spec = shelf.find(name, root)
            if isinstance(spec, BackendSpec):
                found[spec.folder.resolve()] = spec
    if files.problems:
        raise ConfigProblems(files.problems)
    return sorted(map(_shelved, found.values()), key=lambda item: (item.spec.name, item.shipped))


def _one(base: Path, roots: Sequence[Path], name: str) -> Shelved:
    """The backend of a name: the first project's that has it, else the shipped one.

    Raises:
        ConfigError: There is none, or it has problems.
    """
    from harness.config.backend import Shelf
    from harness.config.problems import ConfigProblems, did_you_mean, quoted
    from harness.config.toml import Files
    from harness.integration import catalogue
    from harness.model.plan import BackendSpec

    files = Files(base, catalogue())
    shelf = Shelf(files, catalogue())
    known: set[str] = set()
    found: list[BackendSpec] = []
    for root in roots:
        spec = shelf.find(name, root)
        if files.problems:
            raise ConfigProblems(files.problems)
        if isinstance(spec, BackendSpec):
            found.append(spec)
        else:
            known |= set(spec or ())
    if not found:
        raise ConfigError(f"there is no backend {quoted(name)}", hint=did_you_mean(name, known))
    return min(map(_shelved, found), key=lambda item: item.shipped)


def find_backend(base: Path, roots: Sequence[Path], name: str) -> BackendSpec:
    """The backend of a name: of the first folder whose own backends/ has it, else the shipped one.

    Raises:
        ConfigError: There is none, or it has problems.
    """
    return _one(base, roots, name).spec


def _shelved(spec: BackendSpec) -> Shelved:
    from harness.integration import catalogue
    from harness.report.backend_list import Shelved

    return Shelved(spec=spec, shipped=any(spec.folder.resolve().is_relative_to(item.resolve()) for item in catalogue()))


# --- trying ---------------------------------------------------------------------------------------


def _try(
    parsed: argparse.Namespace,
    base: Path,
    roots: Sequence[Path],
    *,
    show: Callable[[str], None],
    progress: Progress,
    color: bool,
) -> int:
    from harness.engine.build import state_folder
    from harness.engine.interrupt import run_interruptible
    from harness.report.backend_list import stood_to_json, stood_to_text

    name, at, wanted = str(parsed.name).partition("@")
    spec = _one(base, roots, name).spec
    choice, runtime, settled = choose(spec, wanted if at else None, parsed.runtime, progress)
    state = state_folder(roots[0], base / parsed.state if parsed.state else None)
    failed: list[BaseException] = []
    held = [False]

    def told(stood: Stood) -> None:
        show(stood_to_json(stood) if parsed.format == "json" else stood_to_text(stood, color=color))
        if parsed.hold:
            held[0] = True
            progress.note(choice.label, "it is held; Ctrl-C takes it down")

    async def work() -> None:
        try:
            await _stand(
                spec,
                choice,
                runtime,
                settled=settled,
                state=state,
                progress=progress,
                told=told,
                hold=parsed.hold,
                secrets=parsed.show_secrets,
            )
        except Exception as error:  # an exception group would lose the cause of an interruption
            failed.append(error)

    def interrupted(cause: str) -> None:
        progress.note(choice.label, cause if not held[0] else f"{cause}, taking it down")

    cause = run_interruptible(work, on_interrupt=interrupted).cause
    if failed:
        raise failed[0]
    if cause and not (held[0] and cause == "SIGINT"):
        return Interrupted.code
    return 0


def choose(
    spec: BackendSpec, version: str | None, runtime: str, progress: Progress
) -> tuple[RoleChoice, Runtime, bool]:
    """What is stood up and how; the last is whether that is final, or may change where images cannot be had.

    Raises:
        ConfigError: It has no such version or form.
        StackError: Docker was asked for and is not there.
    """
    from harness.config.problems import did_you_mean, quoted
    from harness.engine.docker import probe
    from harness.model.choices import EMBEDDED
    from harness.model.plan import RoleChoice

    name, embedded = spec.name, spec.process is not None
    if version is not None and version != EMBEDDED and version not in spec.versions:
        known = [*spec.versions, *([EMBEDDED] if embedded else [])]
        raise ConfigError(f"{name} has no version {quoted(version)}", hint=did_you_mean(version, known))
    if runtime == "docker" and version == EMBEDDED:
        raise ConfigError(f"{name}@{EMBEDDED} does not run in Docker", hint="leave --runtime out")
    if runtime == "process" and version not in (None, EMBEDDED):
        raise ConfigError(f"{name}@{version} runs in Docker only", hint=f"{name}@{EMBEDDED}, or leave the version out")
    if (runtime == "process" or version == EMBEDDED) and not embedded:
        raise ConfigError(f"{name} has no embedded form: there is no [process] in {spec.place}", hint="use Docker")
    if runtime == "docker" and not spec.services:
        raise ConfigError(f"{name} has no form in Docker: there are no services in {spec.place}")
    process = RoleChoice(role=ROLE, backend=name, version=EMBEDDED)
    docker = RoleChoice(role=ROLE, backend=name, version=version or spec.default)
    if runtime == "process" or version == EMBEDDED or not spec.services:
        return process, "process", True
    engine = probe()
    if engine.available:
        return docker, "docker", runtime == "docker" or version is not None or not embedded
    if runtime == "docker" or version is not None or not embedded:
        said = "was asked for" if runtime == "docker" or version is not None else "is needed"
        raise StackError(f"Docker {said} and cannot be used: {engine.cause}", hint=engine.hint or "start the engine")
    progress.note(name, f"embedded, because Docker cannot be used: {engine.cause}")
    return process, "process", True


class _Started:
    """Passes everything on, and keeps how long the start took: without what was built or installed for it."""

    def __init__(self, inner: Progress) -> None:
        self._inner = inner
        self.seconds = 0.0

    def begin(self, subject: str, what: str) -> None:
        self._inner.begin(subject, what)

    def end(self, subject: str, what: str, *, ok: bool, seconds: float, detail: str = "") -> None:
        if what == f"start {subject}":
            self.seconds = seconds
        self._inner.end(subject, what, ok=ok, seconds=seconds, detail=detail)

    def waiting(self, subject: str, what: str, detail: str) -> None:
        self._inner.waiting(subject, what, detail)

    def note(self, subject: str, text: str) -> None:
        self._inner.note(subject, text)


async def _stand(
    spec: BackendSpec,
    choice: RoleChoice,
    runtime: Runtime,
    *,
    settled: bool,
    state: Path,
    progress: Progress,
    told: Callable[[Stood], None],
    hold: bool,
    secrets: bool,
) -> None:
    from dataclasses import replace

    import anyio

    from harness.engine.mask import Masker
    from harness.engine.scope import open_scope
    from harness.engine.stack import open_stack, prepare_images
    from harness.model.choices import EMBEDDED
    from harness.report.backend_list import Stood

    backends = {spec.name: spec}
    if runtime == "docker":
        try:
            await prepare_images([choice], backends, progress=progress, subject=choice.label)
        except StackError as error:
            if settled:
                raise
            progress.note(spec.name, f"embedded, because its image cannot be had: {error.message.splitlines()[0]}")
            choice, runtime = replace(choice, version=EMBEDDED), "process"
    masker, started = Masker(), _Started(progress)
    with open_scope() as scope:
        async with open_stack(
            [choice],
            backends,
            runtime=runtime,
            scope=scope,
            masker=masker,
            progress=started,
            subject=choice.label,
            state=state,
        ) as stack:
            prefix = f"backend.{ROLE}."
            values = {key.removeprefix(prefix): value for key, value in stack.values.items()}
            hidden = {output.name for output in spec.outputs if output.secret}
            outputs: dict[str, str | None] = {}
            for name, value in values.items():
                masked = None if name in hidden else masker.text(value)  # a URL may have a password in it
                outputs[name] = value if secrets else masked
            progress.note(choice.label, f"ready after {started.seconds:.1f} s")
            told(
                Stood(
                    spec=spec,
                    version=choice.version,
                    runtime=runtime,
                    reported=stack.versions.get(choice.label, ""),
                    seconds=started.seconds,
                    outputs=outputs,
                    addresses=tuple(f"{host}:{port}" for host, port in stack.addresses),
                )
            )
            if hold:
                await anyio.sleep_forever()
