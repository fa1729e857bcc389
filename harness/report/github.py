"""The report as GitHub annotations: workflow commands, one physical line each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal

from harness.model.finding import Report
from harness.report.escape import cut_bytes, visible
from harness.report.groups import Group, groups_of
from harness.report.text import RERUNS, headline, subject_of

__all__ = ["MESSAGE_BYTES", "to_annotations"]

MESSAGE_BYTES = 4_000


def to_annotations(report: Report) -> str:
    """One line for every error and finding, and one for a partial verdict; empty for a clean report.

    `file=` is given where the file is relative; the door sees to it that it is relative to the workspace.
    """
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    judgement = report.judgement
    for failure in judgement.errors:
        about = f"{failure.server}: " if failure.server else ""
        message = f"{about}{failure.message}" + (f"\nhint: {failure.hint}" if failure.hint else "")
        yield _command("error", message, title=f"mcp-rollcall {failure.kind} error")
    if report.verdict == "partial":
        yield _command("warning", headline(report), title="mcp-rollcall partial")
    yield from map(_group, groups_of(judgement.findings))


def _group(group: Group) -> str:
    """One finding, or all that are one to a reader: with the places of all, or the names of all tools."""
    finding = group.first
    about = f"{finding.server}: " if finding.server and finding.tool is not None else ""
    subject = group.headline if group.several else ", ".join(map(subject_of, group.findings))
    rows = "".join(f"\n{' '.join(part for part in row if part)}" for row in group.rows()) if group.several else ""
    reruns = list(dict.fromkeys(item.rerun for item in group.findings if item.rerun))
    message = f"{about}{subject}: {group.words}{rows}" + "".join(f"\nrerun: {command}" for command in reruns[:RERUNS])
    return _command(finding.severity, message, title=finding.check, file=finding.file, line=finding.line)


def _command(
    kind: Literal["error", "warning"], message: str, *, title: str, file: str | None = None, line: int | None = None
) -> str:
    properties = {}
    if file and _is_relative(file):
        properties["file"] = file.removeprefix("./")
        if line is not None:
            properties["line"] = str(line)
    elif file:
        message = f"{file}{f':{line}' if line is not None else ''}: {message}"
    properties["title"] = title
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {shown}::{_data(cut_bytes(message, MESSAGE_BYTES))}"


def _is_relative(file: str) -> bool:
    posix, windows = PurePosixPath(file), PureWindowsPath(file)
    return not (posix.is_absolute() or windows.drive or windows.root or ".." in posix.parts)


def _data(text: str) -> str:
    """The escapes of a workflow command's message; `%` first."""
    kept = visible(text, keep="\r\n").replace("%", "%25")
    return kept.replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
