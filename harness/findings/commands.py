"""Test commands of somebody's own: those that failed, and those that recorded nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.findings.seen import Seen, scrub
from harness.findings.steps import RunView
from harness.model.finding import CommandResult, place_of
from harness.model.plan import COMMAND_TIMEOUT_S, CommandSpec
from harness.model.transcript import CommandRecord

__all__ = ["commands_of", "see_commands", "see_idle"]

TAIL_LINES = 40
TAIL_CHARACTERS = 4_000


def see_commands(view: RunView) -> Iterator[Seen]:
    """Findings of one run's commands, at most one for each."""
    for index, item in enumerate(view.record.commands):
        spec = _spec(view, item)
        common: dict[str, Any] = {
            "run": view.run.key,
            "order": (0, index),
            "place": spec.place if spec is not None else None,
        }
        tail = _tail(item.output)
        if item.outcome in ("failed", "timed-out", "not-started"):
            yield Seen(
                check="suite/command-failed",
                key=(item.id, item.outcome, item.exit),
                message=f"the command {item.id!r} {_how(item, spec)}",
                evidence={"command": item.id, **({"output": tail} if item.outcome != "not-started" else {})},
                **common,
            )
        elif item.outcome == "passed" and not item.transcripts:
            yield Seen(
                check="suite/command-recorded-nothing",
                key=item.id,
                message=f"the command {item.id!r} passed and started no server that was recorded: it proves nothing. "
                f"{_remedy(spec)}",
                evidence={"command": item.id, "output": tail},
                **common,
            )


def see_idle(views: Sequence[RunView]) -> Iterator[Seen]:
    """Commands that had no test for any run of a cell.

    Args:
        views: Of all its runs; nothing was left out by a selection.
    """
    outcomes: dict[str, set[str]] = {}
    for view in views:
        for item in view.record.commands:
            outcomes.setdefault(item.id, set()).add(item.outcome)
    for name in sorted(name for name, found in outcomes.items() if found == {"other-runs"}):
        view = next(view for view in views if any(item.id == name for item in view.record.commands))
        spec = next((spec for spec in view.run.commands if spec.id == name), None)
        yield Seen(
            check="suite/command-recorded-nothing",
            run=view.run.key,
            key=name,
            message=f"the command {name!r} has no test for any of these runs: it proves nothing. {_remedy(spec)}",
            evidence={"command": name},
            place=spec.place if spec is not None else None,
        )


def _spec(view: RunView, item: CommandRecord) -> CommandSpec | None:
    return next((spec for spec in view.run.commands if spec.id == item.id), None)


def _how(item: CommandRecord, spec: CommandSpec | None) -> str:
    match item.outcome:
        case "timed-out":
            limit = COMMAND_TIMEOUT_S if spec is None else spec.timeout_s
            return f"did not end within {limit:g} s"
        case "not-started":
            return f"was not started: {item.output.strip()}"
        case _:
            code = item.exit or 0
            return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"


def _remedy(spec: CommandSpec | None) -> str:
    if spec is not None and spec.kind == "pytest":
        return "Let its tests call the server through the fixtures of mcp-rollcall"
    return "Let it start the server by the command in ROLLCALL_SERVER_COMMAND, or by its program's plain name"


def _tail(output: str) -> str:
    """The end of what it printed, without the paths of one invocation."""
    lines = scrub(output).strip().splitlines()[-TAIL_LINES:]
    return "\n".join(lines)[-TAIL_CHARACTERS:]


def commands_of(view: RunView) -> Iterator[CommandResult]:
    """What became of the commands that ran in one run."""
    key = view.run.key
    for item in view.record.commands:
        if item.outcome == "other-era" or item.outcome == "other-runs":
            continue
        spec = _spec(view, item)
        yield CommandResult(
            server=key.server,
            backend=key.backend,
            era=key.era,
            profile=key.profile,
            command=item.id,
            outcome=item.outcome,
            exit=item.exit,
            transcripts=item.transcripts,
            output=scrub(item.output),
            **place_of(spec.place if spec is not None else None),
        )
