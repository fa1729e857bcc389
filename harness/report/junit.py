"""The report as JUnit XML that every reader takes: strict XML 1.0, unique names, one-line messages, a bounded size.

No `time` is written: the report knows no durations. Control characters show as visible escapes; `report.json` has the
exact values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape  # that of xml.sax loads an HTTP client
from itertools import groupby

from harness.model.finding import Report
from harness.report.ansi import Paint
from harness.report.escape import byte_length, cut_line, prefix, visible
from harness.report.groups import Group, groups_of
from harness.report.tally import Result, results
from harness.report.text import group_lines, head_of

__all__ = ["BODY_BYTES", "MAX_BYTES", "MESSAGE_BYTES", "to_junit"]

MESSAGE_BYTES = 1_000
BODY_BYTES = 16_000  # of one failure, error or output; less where there are very many
MAX_BYTES = 28_000_000  # of the file; readers refuse more than 30 MB
_FRAME_BYTES = 300  # of the tags of one result
_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}


def to_junit(report: Report) -> bytes:
    """The JUnit file, UTF-8.

    One `testcase` for every case and command of every run, every group of findings that none of these shows, and every
    error; their numbers are `counts` in report.json. Warnings are `system-out` of a result that passes.
    """
    found = results(report)
    names = sum(byte_length(_attribute(item.group)) + byte_length(_attribute(item.name)) for item in found)
    speaking = sum(1 for item in found if item.status != "passed" or item.findings) or 1
    left = max(0, MAX_BYTES - names - _FRAME_BYTES * len(found)) // speaking
    message = min(MESSAGE_BYTES, left // 4)
    body = min(BODY_BYTES, left - message)

    out = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="mcp-rollcall" {_numbers(found)}>']
    for group, members in groupby(found, key=lambda item: item.group):
        suite = list(members)
        out.append(f'  <testsuite name="{_attribute(group)}" {_numbers(suite)}>')
        for item in suite:
            out.extend(_testcase(item, message, body))
        out.append("  </testsuite>")
    out.append(f"  <!-- {report.verdict}, exit {report.exit} -->")
    out.append("</testsuites>")
    return ("\n".join(out) + "\n").encode("utf-8")


def _numbers(found: Sequence[Result]) -> str:
    states = [item.status for item in found]
    numbers = {
        "tests": len(states),
        "failures": states.count("failed"),
        "errors": states.count("error"),
        "skipped": states.count("skipped"),
    }
    return " ".join(f'{name}="{number}"' for name, number in numbers.items())


def _testcase(item: Result, message_bytes: int, body_bytes: int) -> Iterator[str]:
    head = f'    <testcase classname="{_attribute(item.group)}" name="{_attribute(item.name)}"'
    plain = item.status == "passed" and not item.findings and item.command is None
    message, kind, body = ("", "", "") if plain else _content(item)
    if item.status == "passed" and not item.findings and not body:
        yield f"{head}/>"
        return
    yield f"{head}>"
    text = _text(body, body_bytes)
    if item.status == "passed":
        yield f"      <system-out>{text}</system-out>"
    else:
        tag = _TAGS[item.status]
        line = _fit(cut_line(message, message_bytes), message_bytes)
        yield f'      <{tag} message="{line}" type="{_attribute(kind)}">{text}</{tag}>'
    yield "    </testcase>"


def _content(item: Result) -> tuple[str, str, str]:
    """Message, type and body."""
    if item.failure is not None:
        failure = item.failure
        body = [failure.message, f"hint: {failure.hint}" if failure.hint else "", failure.log]
        return failure.message, failure.kind, "\n\n".join(part for part in body if part)
    if item.case is not None:
        case = item.case
        place = "" if case.file is None else f"at {case.file}" + (f":{case.line}" if case.line else "")
        message = case.message or ("not run" if case.status == "not-run" else "failed")
        parts = [case.message, place, *map(_described, groups_of(item.findings))]
        kind = "not-judged" if case.status == "not-judged" else "case"
        return message, item.findings[0].check if item.findings else kind, "\n\n".join(part for part in parts if part)
    if item.command is not None:
        command = item.command
        code = "" if command.exit is None else f", exit code {command.exit}"
        message = item.findings[0].message if item.findings else f"{command.outcome}{code}"
        parts = [*map(_described, groups_of(item.findings)), command.output]
        kind = item.findings[0].check if item.findings else "command"
        return message, kind, "\n\n".join(part for part in parts if part)
    first, more = item.findings[0], len(item.findings) - 1
    message = first.message.strip().partition("\n")[0]
    return (
        f"{message} (and {more} more)" if more else first.message,
        first.check,
        "\n\n".join(map(_described, groups_of(item.findings))),
    )


def _described(group: Group) -> str:
    head = f"{group.severity}: {head_of(group)}"
    return "\n".join((head, *group_lines(group, paint=Paint(False), width=0, indent="  ")))


def _attribute(text: str) -> str:
    return escape(visible(text), quote=False).replace('"', "&quot;")


def _fit(line: str, limit: int) -> str:
    """A one-line attribute that is not over the limit after escaping either."""
    out = _attribute(line)
    kept = line
    while byte_length(out) > limit and kept:
        kept = prefix(kept, byte_length(kept) * limit // byte_length(out) - 3)
        out = _attribute(kept) + "…"
    return out


def _text(text: str, limit: int) -> str:
    """Character data of at most about `limit` bytes, with a remark of what was cut."""
    size = byte_length(text)
    kept = prefix(text, limit)
    out = escape(visible(kept, keep="\n\t"), quote=False)
    while byte_length(out) > limit and kept:
        kept = prefix(kept, byte_length(kept) * limit // byte_length(out) - 1)
        out = escape(visible(kept, keep="\n\t"), quote=False)
    if byte_length(kept) < size:
        out += f"\n… ({byte_length(kept):,} of {size:,} bytes; all of it in report.json)"
    return out
