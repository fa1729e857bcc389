"""Findings that say the same of many places, told once: one headline for a check and kind, and the list of places."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.model.finding import Finding, Severity
from harness.report.build import canonical
from harness.report.escape import visible

__all__ = ["POINTERS", "TOOLS", "Group", "amount", "groups_of"]

TOOLS = 12  # rows of places that are shown of one group
POINTERS = 6  # places that are shown of one tool
_PLACING = ("kind", "schema", "spelling", "pointer")  # evidence that tells where, and what the headline says


@dataclass(frozen=True, kw_only=True)
class Group:
    """Findings of one server and check that are one to a reader.

    Attributes:
        findings: At least one, in the order of the report.
        kind: What they have in common, "" where they are alike in all but the tool.
    """

    findings: tuple[Finding, ...]
    kind: str = ""

    @property
    def severity(self) -> Severity:
        """That of all of them."""
        return self.first.severity

    @property
    def first(self) -> Finding:
        """The one whose words stand for all."""
        return self.findings[0]

    @property
    def several(self) -> bool:
        """Whether it is shown as a headline with a list of places."""
        return bool(self.kind) and len(self.findings) > 1

    @cached_property
    def tools(self) -> Mapping[str, list[Finding]]:
        """The findings of each tool, "" for those of none."""
        out: dict[str, list[Finding]] = {}
        for finding in self.findings:
            out.setdefault(finding.tool or "", []).append(finding)
        return out

    @property
    def headline(self) -> str:
        """`12 parameters of 7 tools: an array without items`, with the file where it is one for all."""
        tools = amount(len(self.tools), "tool")
        where = f" ({visible(self.file)})" if self.file else ""
        if all(not finding.pointer for finding in self.findings) and len(self.tools) == len(self.findings):
            return f"{tools}: {visible(self.kind)}{where}"
        word = "parameter" if all(map(_is_parameter, self.findings)) else "place"
        return f"{amount(len(self.findings), word)} of {tools}: {visible(self.kind)}{where}"

    @property
    def file(self) -> str:
        """The file of all of them, "" where it is not one."""
        files = {finding.file or "" for finding in self.findings}
        return files.pop() if len(files) == 1 else ""

    @property
    def alike(self) -> bool:
        """Whether all of them have the same message, but for the tool's name at its beginning."""
        return len({_message(finding) for finding in self.findings}) == 1

    @property
    def words(self) -> str:
        """What is said of all of them, or of the first; the kind is left out where the headline says it already."""
        first, message = self.first, self.first.message
        if self.several:
            message = message.removeprefix(f"{self.kind}: ")
        many = len(self.findings) > 1 and (not self.several or self.alike)
        if many and first.tool and message.startswith(f"{first.tool} "):
            message = f"each {message.removeprefix(first.tool).lstrip(' ')}"
        return message

    def parts(self) -> Iterator[Group]:
        """Each finding by itself."""
        return (Group(findings=(finding,), kind=self.kind) for finding in self.findings)

    def common(self) -> Mapping[str, Any]:
        """The evidence that all of them share, without what the headline says."""
        shared = dict(self.first.evidence)
        for finding in self.findings[1:]:
            shared = {key: value for key, value in shared.items() if finding.evidence.get(key) == value}
        return {key: value for key, value in shared.items() if key not in _PLACING}

    def _place(self, finding: Finding) -> str:
        """Where one of them stands, as far as the headline does not say it."""
        if self.file:
            return f"line {finding.line}" if finding.line else ""
        return f"{finding.file}:{finding.line}" if finding.line else f"{finding.file}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Each tool with its places, bounded; the last row says how many more there are."""
        shown = 0
        for tool, findings in list(self.tools.items())[:TOOLS]:
            pointers = list(dict.fromkeys(finding.pointer for finding in findings if finding.pointer))
            more = [f"and {len(pointers) - POINTERS} more"] if len(pointers) > POINTERS else []
            places = dict.fromkeys(self._place(finding) for finding in findings if finding.file)
            where = f" ({next(iter(places))})" if len(places) == 1 and "" not in places else ""
            yield visible(tool) + visible(where), ", ".join([*map(visible, pointers[:POINTERS]), *more])
            shown += len(findings)
        if len(self.tools) > TOOLS:
            rest, left = len(self.tools) - TOOLS, len(self.findings) - shown
            what = amount(rest, "more tool")
            yield f"… and {what}" + (f" with {amount(left, 'place')}" if left > rest else "") + ", in report.json", ""


def groups_of(findings: Iterable[Finding]) -> list[Group]:
    """The groups, errors before warnings, else in the order in which the first of each stands."""
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    made = [Group(findings=tuple(items), kind=_kind(items[0])) for items in groups.values()]
    return sorted(made, key=lambda group: group.severity != "error")


def amount(number: int, word: str) -> str:
    """`1 finding`, `2 findings`, `3 entries`."""
    several = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else several}"


def _kind(finding: Finding) -> str:
    kind = finding.evidence.get("kind")
    return kind if isinstance(kind, str) else ""


def _key(finding: Finding) -> Any:
    """Equal for findings that stand together: of one check and kind, or alike in all but the tool."""
    kind = _kind(finding)
    if kind and finding.tool is not None:
        return finding.server, finding.check, finding.severity, kind
    return canonical(dataclasses.replace(finding, tool=None, rerun="", message=_message(finding)))


def _message(finding: Finding) -> str:
    return finding.message.removeprefix(f"{finding.tool} ") if finding.tool else finding.message


def _is_parameter(finding: Finding) -> bool:
    return finding.evidence.get("schema") == "inputSchema" and (finding.pointer or "").startswith("/properties/")
