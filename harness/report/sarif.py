"""The report as SARIF 2.1.0, for code scanning: findings at the line of the file that people write.

One result for each finding; where there are more than code scanning takes, one for each kind of finding, as in the
text. No path is absolute: every one is relative to the root of the repository, percent-encoded.

Source:
    OASIS SARIF 2.1.0; the limits are those of GitHub code scanning.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.model.checks import CHECKS, CheckSpec, family_of
from harness.model.finding import Finding, HarnessFailure, NotJudged, Report
from harness.model.plan import Place
from harness.report.escape import cut_bytes, visible
from harness.report.groups import Group, groups_of
from harness.report.text import headline, subject_of

__all__ = ["MAX_NOTIFICATIONS", "MAX_RESULTS", "MESSAGE_BYTES", "ROOT", "to_sarif"]

MAX_RESULTS = 5_000  # of one run that code scanning shows
MAX_NOTIFICATIONS = 1_000
MESSAGE_BYTES = 2_000
RULE_BYTES = 1_000  # of a description of a rule
RELATED = 20  # places that one grouped result links to
ROOT = "%SRCROOT%"
FINGERPRINT = "mcpRollcall/v1"
SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SPECIFICATION = "https://modelcontextprotocol.io/specification/2025-11-25/"

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAGE = re.compile(r"MCP ([a-z/-]+)(#[a-z-]+)?")


def to_sarif(report: Report, *, base: str = "", places: Mapping[str, Place] | None = None) -> str:
    """The SARIF log, indented, with a newline at its end; always encodable as UTF-8.

    Args:
        base: The folder that file names in the report are relative to, seen from the root of the repository, with
            slashes; "" where it is that root.
        places: Server -> where its `[server]` stands, for findings without a file of their own.
    """
    places = places or {}
    findings = sorted(report.judgement.findings, key=lambda finding: finding.severity != "error")  # errors first
    results = list(_results(findings, base, places))
    left = results[MAX_RESULTS:]
    shown = results[:MAX_RESULTS]
    checks = sorted({str(result["ruleId"]) for result, _ in shown})
    index = {check: number for number, check in enumerate(checks)}
    notifications = list(_notifications(report, left))
    log = {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mcp-rollcall",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": [_rule(check) for check in checks],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": report.verdict not in ("error", "nothing-run"),
                        "exitCode": report.exit,
                        "exitCodeDescription": visible(report.verdict),
                        "toolExecutionNotifications": notifications,
                    }
                ],
                "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
                "columnKind": "unicodeCodePoints",
                "results": [{**result, "ruleIndex": index[str(result["ruleId"])]} for result, _ in shown],
                "properties": {"headline": headline(report), "verdict": report.verdict, "today": report.today},
            }
        ],
    }
    text = json.dumps(log, ensure_ascii=False, allow_nan=False, indent=1)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


# --- rules ----------------------------------------------------------------------------------------


def _rule(check: str) -> dict[str, Any]:
    spec = CHECKS.get(check)
    if spec is None:  # a report of another version
        return {"id": check, "shortDescription": {"text": check or "?"}}
    first = spec.fires.partition(". ")[0].rstrip(".") + "."
    excused = (
        f"It can be excused in exemptions.toml as `{spec.exempt}`."
        if spec.exempt
        else "It cannot be excused; [checks] in harness.toml can lower it, in the open."
    )
    help_text = cut_bytes(f"{spec.fires} {excused} Source: {spec.source}.", RULE_BYTES)
    rule: dict[str, Any] = {
        "id": spec.id,
        "name": _name(spec.id),
        "shortDescription": {"text": cut_bytes(first, RULE_BYTES)},
        "fullDescription": {"text": cut_bytes(spec.fires, RULE_BYTES)},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": spec.severity},
        "properties": {"tags": ["mcp", family_of(spec.id)], "precision": "very-high"},
    }
    if uri := _help_uri(spec):
        rule["helpUri"] = uri
    return rule


def _name(check: str) -> str:
    """`portability/type-union` as `PortabilityTypeUnion`, which viewers want."""
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", check))


def _help_uri(spec: CheckSpec) -> str:
    """The page of the specification that the rule comes from, "" where it is ours."""
    page = _PAGE.match(spec.source)
    return "" if page is None else f"{SPECIFICATION}{page[1]}{page[2] or ''}"


# --- results --------------------------------------------------------------------------------------


def _results(
    findings: Sequence[Finding], base: str, places: Mapping[str, Place]
) -> Iterator[tuple[dict[str, Any], int]]:
    """Each result with the number of findings in it."""
    seen: dict[str, int] = {}
    if len(findings) <= MAX_RESULTS:
        groups = [Group(findings=(finding,)) for finding in findings]
    else:
        groups = groups_of(findings)
    for group in groups:
        finding = group.first
        several = len(group.findings) > 1
        print_ = _fingerprint(finding, group=several)
        seen[print_] = seen.get(print_, 0) + 1
        result: dict[str, Any] = {
            "ruleId": visible(finding.check),
            "level": finding.severity,
            "message": {"text": cut_bytes(_message(group), MESSAGE_BYTES)},
        }
        location = _location(finding, base, places)
        if location:
            result["locations"] = [location]
        if several and (related := list(_related(group, base))):
            result["relatedLocations"] = related
        result["partialFingerprints"] = {
            FINGERPRINT: f"{print_}:{seen[print_]}",
            # viewers that go by the line alone would take all findings of one line for one
            "primaryLocationLineHash": f"{print_[:16]}:{seen[print_]}",
        }
        result["properties"] = {
            key: value
            for key, value in (
                ("server", finding.server),
                ("tool", None if several else finding.tool),
                ("pointer", None if several else finding.pointer),
                ("count", len(group.findings) if several else None),
                ("rerun", finding.rerun),
            )
            if value
        }
        yield result, len(group.findings)


def _message(group: Group) -> str:
    finding = group.first
    about = f"{visible(finding.server)}: " if finding.server and finding.tool is not None else ""
    if len(group.findings) == 1:
        return f"{about}{subject_of(finding)}: {visible(finding.message, keep=chr(10))}"
    rows = "".join(f"\n{' '.join(part for part in row if part)}" for row in group.rows())
    head = group.headline if group.several else ", ".join(map(subject_of, group.findings))
    return f"{about}{head}: {visible(group.words, keep=chr(10))}{rows}"


def _fingerprint(finding: Finding, *, group: bool) -> str:
    """The same for the same fault, wherever its line has moved to and whatever words say it."""
    kind, schema = finding.evidence.get("kind"), finding.evidence.get("schema")
    parts = [finding.check, finding.server, kind, schema]
    if not group:
        parts += [finding.tool, finding.pointer, finding.evidence.get("case")]
        if kind is None and finding.tool is None:
            parts.append(finding.message)
    text = json.dumps(parts, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _related(group: Group, base: str) -> Iterator[dict[str, Any]]:
    for number, finding in enumerate(group.findings[:RELATED], start=1):
        physical = _physical(finding.file, finding.line, base)
        if physical is not None:
            yield {"id": number, "physicalLocation": physical, "message": {"text": subject_of(finding)}}


def _location(finding: Finding, base: str, places: Mapping[str, Place]) -> dict[str, Any]:
    """Where the finding stands; the logical place is the tool and the pointer into its definition."""
    out: dict[str, Any] = {}
    physical = _physical(finding.file, finding.line, base)
    if physical is None and finding.server in places:
        place = places[finding.server]
        physical = _physical(place.file, place.line, base)
    if physical is not None:
        out["physicalLocation"] = physical
    if finding.tool is not None:
        name = visible(finding.tool)
        logical = {"name": name, "fullyQualifiedName": visible(f"{finding.server}/{finding.tool}")}
        if finding.pointer:
            logical["fullyQualifiedName"] += visible(finding.pointer)
        out["logicalLocations"] = [logical]
    return out


def _physical(file: str | None, line: int | None, base: str) -> dict[str, Any] | None:
    """A place in the repository, None for what lies outside or is no file."""
    if not file or file.startswith(("/", "\\", "--")) or re.match(r"[A-Za-z]:", file):
        return None
    path = posixpath.normpath(posixpath.join(base, visible(file.replace("\\", "/"))))
    if path in (".", "..") or path.startswith("../"):
        return None
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(path, safe="/"), "uriBaseId": ROOT}}
    if line is not None and line > 0:
        physical["region"] = {"startLine": line}
    return physical


# --- notifications --------------------------------------------------------------------------------


def _notifications(report: Report, left: Sequence[tuple[dict[str, Any], int]]) -> Iterator[dict[str, Any]]:
    judgement = report.judgement
    if left:
        number = sum(count for _, count in left)
        yield _notification("warning", f"{number:,} more findings are not in this file; all are in report.json")
    if len(judgement.findings) > MAX_RESULTS:
        yield _notification(
            "note",
            f"{len(judgement.findings):,} findings are more than {MAX_RESULTS:,} results: those of one kind are one "
            f"result here, with the first {RELATED} places; all are in report.json",
        )
    told: list[HarnessFailure | NotJudged] = [*judgement.errors, *judgement.not_judged]
    for item in told[:MAX_NOTIFICATIONS]:
        yield _failure(item) if isinstance(item, HarnessFailure) else _unjudged(item)
    if len(told) > MAX_NOTIFICATIONS:
        yield _notification("warning", f"{len(told) - MAX_NOTIFICATIONS:,} more notes are in report.json")


def _failure(failure: HarnessFailure) -> dict[str, Any]:
    about = f"{failure.server}: " if failure.server else ""
    hint = f"\nhint: {failure.hint}" if failure.hint else ""
    return _notification("error", f"{failure.kind} error, exit {failure.code}: {about}{failure.message}{hint}")


def _unjudged(item: NotJudged) -> dict[str, Any]:
    about = " ".join(part for part in (item.server, item.subject or "") if part)
    level = "note" if item.own else "warning"
    return _notification(level, f"not judged: {item.check}{f': {about}' if about else ''}: {item.why}")


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": cut_bytes(visible(text, keep="\n"), MESSAGE_BYTES)}}
