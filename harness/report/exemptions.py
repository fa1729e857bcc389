"""The part of a report that is about exemption files: what `mcp-rollcall exemptions` shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from harness.model.finding import Judgement, Report
from harness.report.build import make_report

__all__ = ["only_exemptions"]


def only_exemptions(report: Report, servers: Collection[str] = ()) -> Report:
    """The same report with nothing in it but entries of exemption files: used, faulty, or not judged.

    Args:
        servers: Only those about these; empty: all of them.
    """
    judgement = report.judgement if not servers else _of(report.judgement, servers)
    kept = dataclasses.replace(
        judgement,
        cases=(),
        commands=(),
        uncounted=(),
        repositories=(),
        lowered=(),
        findings=tuple(item for item in judgement.findings if item.check.startswith("exemption/")),
        not_judged=tuple(item for item in judgement.not_judged if item.file is not None),
    )
    return make_report(kept, today=report.today, notes=report.notes, partial=any(item.own for item in kept.not_judged))


def _of(judgement: Judgement, servers: Collection[str]) -> Judgement:
    return dataclasses.replace(
        judgement,
        coverage=tuple(item for item in judgement.coverage if item.server in servers),
        ran=tuple(item for item in judgement.ran if item.server in servers),
        excused=tuple(item for item in judgement.excused if item.server in servers),
        findings=tuple(item for item in judgement.findings if item.server in servers),
        not_judged=tuple(item for item in judgement.not_judged if item.server in servers),
    )
