"""Judgement -> Report: the verdict, the exit code, everything in a stable order; and reports joined into one.

The verdict, the first that holds:

- `error`: the harness could not do its job, or was interrupted, or ran nothing in one part of what it was to run;
- `nothing-run`: no run gave evidence;
- `findings`: a finding of severity `error` (with `strict`, any finding);
- `partial`: something was not judged;
- `clean`.

The exit code is the highest of all that apply, whatever the word: 0 clean, 1 findings, 2-6 and 130 of the errors,
3 where nothing ran, where `require_complete` is not met, and where something was not judged without any error to
explain it (evidence that is missing is never green).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from harness.errors import EXIT_CLEAN, EXIT_FINDINGS, Interrupted, NothingSelected
from harness.model.finding import Coverage, HarnessFailure, Judgement, Ran, Report, ToolDetails, Verdict

__all__ = ["MAX_EVIDENCE_DEPTH", "canonical", "fields_as_json", "make_report", "merge"]

MAX_EVIDENCE_DEPTH = 64

_Item = TypeVar("_Item")
_RANK: dict[Verdict, int] = {"clean": 0, "partial": 1, "findings": 2, "nothing-run": 3, "error": 4}
_SURROGATE = re.compile("[\ud800-\udfff]")
# the folder of one invocation, and of one server in it: other names in each run for the same thing
_RUN_FOLDER = re.compile(r"(?:/[^\s\"':/\\]+)*/rollcall-[0-9a-f]{12}-\w{8}(?:/server-[0-9a-f]{16})?")


def make_report(
    judgement: Judgement,
    *,
    today: str,
    errors: Sequence[HarnessFailure] = (),
    notes: Sequence[str] = (),
    partial: bool = False,
    strict: bool = False,
    require_complete: bool = False,
    interrupted: bool = False,
    folders: Mapping[str, str] | None = None,
) -> Report:
    """The report of one judgement.

    Args:
        today: The date that was judged by, ISO.
        errors: What went wrong outside of the evidence; repeats of the judgement's own errors are dropped.
        notes: What the first line must tell besides, e.g. why the runtime is what it is.
        partial: The user's own selection left part of the plan out.
        strict: Warnings fail too.
        require_complete: Whatever was not judged is exit 3.
        interrupted: Ctrl-C or a signal ended it, after clean-up.
        folders: Absolute folder -> what stands for it in every text ("." for a repository), so that reports of two
            machines are equal.
    """
    failures = [*judgement.errors, *errors]
    if interrupted:  # said once for all of it, not again of each run
        failures = [failure for failure in failures if failure.kind != Interrupted.kind or not failure.server]
    if interrupted and not any(failure.code == Interrupted.code for failure in failures):
        failures.append(_failure(Interrupted, "", "interrupted before everything had run; what was recorded is judged"))
    if not judgement.listed:
        failures.extend(_unrun(judgement.ran, failures))
    text = _texts(folders or {})
    judgement = _arranged(dataclasses.replace(judgement, errors=tuple(failures)), text)
    failures = list(judgement.errors)

    incomplete = partial or bool(judgement.not_judged)
    failing = [item for item in judgement.findings if strict or item.severity == "error"]
    codes = [EXIT_CLEAN, *(failure.code for failure in failures)]
    if failing:
        codes.append(EXIT_FINDINGS)
    if (require_complete and incomplete) or _unexplained(judgement):
        codes.append(NothingSelected.code)

    verdict: Verdict
    if any(failure.kind != NothingSelected.kind for failure in failures) or (
        failures and (judgement.listed or _evidence_of(judgement.ran))
    ):
        verdict = "error"
    elif failures:
        verdict = "nothing-run"
    elif failing:
        verdict = "findings"
    elif incomplete:
        verdict = "partial"
    else:
        verdict = "clean"
    return Report(
        verdict=verdict, exit=max(codes), today=today, judgement=judgement, notes=_ordered(map(text, notes), str)
    )


def merge(reports: Iterable[Report]) -> Report:
    """One report of several: all that any of them says, each thing once.

    Associative, commutative and idempotent, so the order of arrival never changes the bytes. The exit code is the
    highest; the verdict likewise, except that a part that ran nothing beside one that ran something is an error.

    Raises:
        ValueError: There is no report.
    """
    parts = list(reports)
    if not parts:
        raise ValueError("no reports to merge")
    joined = Judgement(
        **{
            item.name: tuple(entry for part in parts for entry in getattr(part.judgement, item.name))
            for item in dataclasses.fields(Judgement)
        }
    )
    verdicts = {part.verdict for part in parts}
    verdict = max(verdicts, key=_RANK.__getitem__)
    return Report(
        verdict="error" if "nothing-run" in verdicts and len(verdicts) > 1 else verdict,
        exit=max(part.exit for part in parts),
        today=max(part.today for part in parts),
        judgement=_arranged(joined, _texts({})),
        notes=_ordered((note for part in parts for note in part.notes), str),
    )


def canonical(item: Any) -> str:
    """A dataclass or JSON value as one text, the same for equal contents: the last resort of every sort."""
    return json.dumps(item, sort_keys=True, default=fields_as_json)


def fields_as_json(item: Any) -> dict[str, Any]:
    """A dataclass as JSON, for `json.dumps`: as `dataclasses.asdict`, which copies all that is in it first.

    Raises:
        TypeError: It is none.
    """
    if not dataclasses.is_dataclass(item):
        raise TypeError(f"{type(item).__name__} is no JSON")
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def _failure(kind: type[Interrupted | NothingSelected], server: str, message: str) -> HarnessFailure:
    return HarnessFailure(kind=kind.kind, code=kind.code, server=server, message=message)


def _evidence_of(ran: Iterable[Ran]) -> bool:
    return any(run.outcome != "not-spoken" for run in ran)


def _unrun(ran: Sequence[Ran], failures: Sequence[HarnessFailure]) -> list[HarnessFailure]:
    """An error for every cell whose runs found no era to speak, or for all of it; none where an error explains it."""
    if not ran:
        return [] if failures else [_failure(NothingSelected, "", "nothing was run: there is no evidence to judge")]
    explained = {failure.server for failure in failures}
    cells = {(run.server, run.backend) for run in ran}
    spoken = {(run.server, run.backend) for run in ran if run.outcome != "not-spoken"}
    return [
        _failure(NothingSelected, server, f"nothing was run on {backend}: the server speaks none of the eras tried")
        for server, backend in sorted(cells - spoken)
        if server not in explained and "" not in explained
    ]


def _unexplained(judgement: Judgement) -> bool:
    """Whether something was not judged, neither by the user's own choice nor because of an error of that server."""
    explained = {failure.server for failure in judgement.errors}
    return any(not item.own and item.server not in explained and "" not in explained for item in judgement.not_judged)


def _arranged(judgement: Judgement, text: Callable[[str], str]) -> Judgement:
    """Every part cleaned, sorted, each entry once."""
    coverage = [
        dataclasses.replace(
            item,
            fates=tuple(sorted(item.fates, key=lambda fate: (fate.tool, canonical(fate)))),
            by_tool=tuple(sorted(item.by_tool, key=lambda tool: (tool.tool, canonical(tool)))),
        )
        for item in judgement.coverage
    ]
    parts: dict[str, Iterable[Any]] = {
        item.name: getattr(judgement, item.name) for item in dataclasses.fields(judgement)
    }
    parts["coverage"] = coverage
    return Judgement(
        **{name: _ordered((_cleaned(item, text) for item in items), _KEYS[name]) for name, items in parts.items()}
    )


_KEYS: dict[str, Callable[[Any], Any]] = {
    "ran": lambda x: (x.server, x.backend, x.era, x.profile),
    "coverage": lambda x: (x.server, x.backend),
    "cases": lambda x: (x.server, x.backend, x.era, x.profile, x.suite, x.case),
    "commands": lambda x: (x.server, x.backend, x.era, x.profile, x.command),
    "findings": lambda x: (x.server, x.tool or "", x.severity, x.check, x.file or "", x.line or 0, x.message),
    "errors": lambda x: (x.server, x.kind, x.message),
    "not_judged": lambda x: (x.server, x.check, x.subject or "", x.why),
    "excused": lambda x: (x.server, x.file, x.line or 0, x.subject, x.check),
    "lowered": lambda x: (x.server, x.family, x.file, x.line or 0),
    "listed": lambda x: (x.server, x.source),
    "repositories": lambda x: (x.name,),
    "uncounted": lambda x: (x.server, x.place, x.why),
}


def _ordered(items: Iterable[_Item], key: Callable[[_Item], Any]) -> tuple[_Item, ...]:
    once = {canonical(item): item for item in items}
    return tuple(item for _, item in sorted(once.items(), key=lambda pair: (key(pair[1]), pair[0])))


def _texts(folders: Mapping[str, str]) -> Callable[[str], str]:
    """How every text is cleaned: halves of surrogate pairs joined, as JSON would, and folders by their names."""
    longest_first = sorted(((old.rstrip("/"), new) for old, new in folders.items()), key=lambda pair: -len(pair[0]))
    patterns = [
        (re.compile(re.escape(old) + r"(?![\w-]|\.\w)"), new.replace("\\", "\\\\")) for old, new in longest_first if old
    ]

    def clean(text: str) -> str:
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        text = _RUN_FOLDER.sub("$RUN", text) if "/rollcall-" in text else text
        for pattern, new in patterns:
            text = pattern.sub(new, text)
        return text

    return clean


def _cleaned(item: Any, text: Callable[[str], str]) -> Any:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if isinstance(value, str):
            values[field.name] = text(value)
        elif isinstance(value, Mapping):
            values[field.name] = _plain(value, text)
        elif isinstance(item, Coverage) and field.name in ("fates", "by_tool"):
            values[field.name] = tuple(_cleaned(part, text) for part in value)
        elif isinstance(item, ToolDetails) and field.name in ("unused", "excused"):
            values[field.name] = tuple(map(text, value))
    return dataclasses.replace(item, **values)


def _plain(value: Any, text: Callable[[str], str], depth: int = 0) -> Any:
    """The value as JSON can say it, and as it comes back from JSON."""
    if depth > MAX_EVIDENCE_DEPTH:
        return f"(nested deeper than {MAX_EVIDENCE_DEPTH} levels)"
    match value:
        case None | bool():
            return value
        case str():
            return text(value)
        case int():
            return int(value) if value.bit_length() <= 2048 else f"{value:#x}"  # longer ones have no decimal text
        case float():
            return float(value) if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return text(bytes(value).decode("utf-8", "backslashreplace"))
        case Mapping():
            return {text(str(key)): _plain(value[key], text, depth + 1) for key in sorted(value, key=str)}
        case list() | tuple():
            return [_plain(item, text, depth + 1) for item in value]
        case set() | frozenset():
            return sorted((_plain(item, text, depth + 1) for item in value), key=canonical)
        case _:
            return text(str(value))
