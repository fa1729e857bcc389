"""The part of a report that is about exemption files: what `mcp-rollcall exemptions` shows."""

from __future__ import annotations

import dataclasses

from harness.model.finding import Report
from harness.report.build import make_report

__all__ = ["only_exemptions"]


def only_exemptions(report: Report) -> Report:
    """The same report with nothing in it but entries of exemption files: used, faulty, or not judged."""
    judgement = report.judgement
    kept = dataclasses.replace(
        judgement,
        cases=(),
        commands=(),
        uncounted=(),
        lowered=(),
        findings=tuple(item for item in judgement.findings if item.check.startswith("exemption/")),
        not_judged=tuple(item for item in judgement.not_judged if item.file is not None),
    )
    return make_report(kept, today=report.today, notes=report.notes, partial=any(item.own for item in kept.not_judged))
