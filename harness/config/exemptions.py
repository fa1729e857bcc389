"""exemptions.toml -> ExemptionSpec, well formed or not: a malformed entry excuses nothing, and the rest is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path as FilePath
from typing import Any

from harness.config.problems import ConfigProblems, Path, did_you_mean, kind_of, printable, quoted, table_of
from harness.config.reasons import placeholder
from harness.config.toml import Document, Files
from harness.config.validate import other_version, schema_of, violations
from harness.config.values import text, texts
from harness.model.checks import CHECKS, FAMILIES, exemptable, family_of
from harness.model.plan import ExemptionSpec

__all__ = ["FILE", "LONG_FORM", "read_entries", "read_exemptions"]

FILE = "exemptions.toml"
LONG_FORM = ("reason", "backend", "expires", "owner", "issue")

_CHECK = re.compile(r"[a-z][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)?\Z")
_PART = r"(?:[A-Za-z0-9_-]+=)?[a-z0-9][a-z0-9_.-]*(?:@[A-Za-z0-9_.-]+)?"  # a role is named where two have one backend
_BACKEND = re.compile(rf"{_PART}(?:\+{_PART})*\Z")


def read_exemptions(path: FilePath, *, base: FilePath) -> tuple[ExemptionSpec, ...]:
    """All entries of one file, in its order.

    Raises:
        ConfigProblems: The file as a whole cannot be used: no TOML, not UTF-8, another schema.
    """
    files = Files(base)
    entries = read_entries(files, path)
    if files.problems:
        raise ConfigProblems(files.problems)
    return entries


def read_entries(files: Files, path: FilePath) -> tuple[ExemptionSpec, ...]:
    """All entries of one file; none where the file's problems have been added instead."""
    document = files.read(path)
    if document is None:
        return ()
    problem = other_version(document, "exemptions")
    if "schema" not in document.data:
        wanted = schema_of("exemptions")["properties"]["schema"]["const"]
        problem = document.problem((), "the key schema is missing", f"write schema = {wanted} at the top")
    if problem is not None:
        files.add(problem)
        return ()
    return tuple(_entries(document))


def _entries(document: Document) -> Iterator[ExemptionSpec]:
    """In the order of the file, as far as its lines tell."""
    found = list(_walk(document))
    yield from sorted(found, key=lambda entry: entry.place.line or 0)


def _walk(document: Document) -> Iterator[ExemptionSpec]:
    for server, checks in document.data.items():
        if server == "schema":
            continue
        if not isinstance(checks, dict):
            said = f"expected a table [{_name(server)}.<check>], got {kind_of(checks)}"
            if server in LONG_FORM:
                said += f" ({server} is a key of one entry: it stands below the entry's own table)"
            yield _malformed(document, (server,), server, "", "", said)
            continue
        for check, subjects in checks.items():
            if not isinstance(subjects, dict):
                said = f"expected a table [{_name(server)}.<check>] with {_name(check)} in it, got {kind_of(subjects)}"
                said += f"; excuse a tool in [{_name(server)}.exercised]"
                yield _malformed(document, (server, check), server, check, "", said)
                continue
            for subject, value in subjects.items():
                yield from _entry(document, (server, check, subject), value)


def _malformed(document: Document, path: Path, server: str, check: str, subject: str, *problems: str) -> ExemptionSpec:
    return ExemptionSpec(
        server=server,
        check=check,
        subject=subject,
        reason="",
        place=document.place(path),
        problems=tuple(map(printable, problems)),
    )


def _name(part: str) -> str:
    return table_of((part,))


_WHY = {  # what a reason is to say; of a process: "why it is so"
    "exercised": "why it cannot be exercised",
    "output-schema": "why it has none",
    "parameters": "why no call uses it",
}


def _entry(document: Document, path: tuple[str, str, str], value: Any) -> Iterator[ExemptionSpec]:
    server, check, subject = path
    dotted = list(_dotted(path, value)) if isinstance(value, dict) else []
    for inner in dotted:
        name = ".".join(inner[2:])
        if isinstance(_at(document.data, inner), dict):
            example = f"[{table_of((server, check, name))}]"
        else:
            example = f'"{name}" = "…"'
        said = f"a name with dots that is not quoted is a table in a table; quote the tool name: {example}"
        yield _malformed(document, inner, server, check, name, said)
    if dotted:
        return
    if isinstance(value, str):
        reason: str | None = value
        settings: Mapping[str, Any] = {"reason": value}
    else:
        settings = value if isinstance(value, dict) else {}
        reason = text(settings.get("reason"))
    problems = list(_check_problems(check))
    if not subject.strip():
        problems.append("it has no subject: the key is empty")
    expires = settings.get("expires")
    problems += _shape_problems(value, settings)
    if reason is not None and (said := placeholder(reason, subject)):
        problems.append(f"{said}; say in a sentence {_WHY.get(check, 'why it is so')}")
    for name in texts(settings.get("backend")):
        if name and not _BACKEND.match(name):
            problems.append(f"backend: {quoted(name)} is neither name nor name@version, nor several joined by '+'")
    yield ExemptionSpec(
        server=server,
        check=check,
        subject=subject,
        reason=reason or "",
        place=document.place(path),
        backends=tuple(dict.fromkeys(name for name in texts(settings.get("backend")) if name)),
        expires=expires.isoformat() if isinstance(expires, date) and not isinstance(expires, datetime) else None,
        owner=text(settings.get("owner")),
        issue=text(settings.get("issue")),
        problems=tuple(dict.fromkeys(map(printable, problems))),
    )


def _dotted(path: Path, value: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Paths of entries that an unquoted name with dots has split into tables; none if this is an entry itself."""
    if not value or any(key in LONG_FORM for key in value):
        return
    for key, item in value.items():
        here = (*path, key)
        if isinstance(item, str):
            if did_you_mean(key, LONG_FORM).startswith("did"):  # [s.exercised.tool] with a slip of the pen
                return
            yield here  # type: ignore[misc]
        elif isinstance(item, dict):
            deeper = list(_dotted(here, item))
            yield from deeper or [here]  # type: ignore[list-item]


def _at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _check_problems(check: str) -> Iterator[str]:
    known = exemptable()
    if check in known:
        return
    spec = CHECKS.get(check)
    if spec is not None and spec.exempt:
        yield f"{check} is excused under the name {spec.exempt}"
    elif spec is not None:
        family = family_of(check)
        yield f"{check} takes no exemption; its family can be lowered in harness.toml: [checks] {family}"
    elif check in FAMILIES:
        inside = sorted(name for name in known if family_of(name) == check)
        if inside:
            yield f"{check} is a family of checks; it can be excused as {', '.join(map(_name, inside))}"
        else:
            yield f"{check} takes no exemption; it can be lowered in harness.toml: [checks] {check}"
    elif not _CHECK.match(check):
        yield f"{quoted(check)} is no name of a check; {did_you_mean(check, known)}"


def _shape_problems(value: Any, settings: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, str):
        return  # its emptiness is the reason's problem
    expires = settings.get("expires")
    shown: Any = value
    if isinstance(value, dict):
        shown = {key: item for key, item in value.items() if key != "expires"}
    for path, table, message, hint in violations(schema_of("exemptions")["$defs"]["entry"], shown):
        if path == ("reason",) and message == "must not be empty":
            continue  # told as a reason
        head = f"{table_of(path)}: " if path and not table else ""
        if message == "the key reason is missing":
            message, hint = "no reason", ""
        yield f"{head}{message}" + (f" ({hint})" if hint else "")
    match expires:
        case None:
            pass
        case datetime():
            yield f"expires: a date-time ({expires.isoformat()}); write the day alone: {expires.date().isoformat()}"
        case date():
            pass
        case time():
            yield f"expires: expected a date such as 2027-03-01, got {kind_of(expires)}"
        case str():
            try:
                day = date.fromisoformat(expires.strip()).isoformat()
            except ValueError:
                yield f"expires: expected a date such as 2027-03-01, got {kind_of(expires)}"
            else:
                yield f"expires: a date in quotes; write it without: expires = {day}"
        case _:
            yield f"expires: expected a date such as 2027-03-01, got {kind_of(expires)}"
