"""The report as JSON, and back. The shape is published: `schema/report.schema.json`.

The same report gives the same bytes. It can be encoded whatever a server said: lone surrogates stay escapes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from importlib.resources import files
from typing import Any

from harness.model.finding import (
    CaseResult,
    CommandResult,
    Coverage,
    Excused,
    Finding,
    HarnessFailure,
    Judgement,
    Listed,
    Lowered,
    NotJudged,
    Ran,
    Report,
    Repository,
    ToolDetails,
    ToolFate,
    Uncounted,
)
from harness.report.build import fields_as_json
from harness.report.tally import tally

__all__ = ["SCHEMA", "from_json", "published_schema", "to_json"]

SCHEMA = 1

_SURROGATE = re.compile("[\ud800-\udfff]")
_VERDICTS = ("clean", "findings", "partial", "error", "nothing-run")
_PARTS: dict[str, type[Any]] = {
    "ran": Ran,
    "coverage": Coverage,
    "findings": Finding,
    "errors": HarnessFailure,
    "not_judged": NotJudged,
    "excused": Excused,
    "lowered": Lowered,
    "cases": CaseResult,
    "commands": CommandResult,
    "listed": Listed,
    "repositories": Repository,
    "uncounted": Uncounted,
}
_LATER = ("repositories", "uncounted")  # parts that are left out where there is nothing to say


def to_json(report: Report) -> str:
    """The JSON document, indented, with a newline at its end; always encodable as UTF-8."""
    out: dict[str, Any] = {
        "schema": SCHEMA,
        "verdict": report.verdict,
        "exit": report.exit,
        "today": report.today,
        "notes": list(report.notes),
        "counts": dataclasses.asdict(tally(report)),
    }
    for name in _PARTS:
        if name in _LATER and not getattr(report.judgement, name):
            continue
        out[name] = list(getattr(report.judgement, name))
    text = json.dumps(out, ensure_ascii=False, allow_nan=False, indent=2, default=fields_as_json)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def from_json(text: str) -> Report:
    """The report that `to_json` wrote; `counts` follow from the rest and are not read.

    Raises:
        ValueError: Not JSON, another schema, or not a report.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("report.json is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("report.json is no object")
    if data.get("schema") != SCHEMA:
        raise ValueError(f"report.json has schema {data.get('schema')!r}, expected {SCHEMA}")
    try:
        if data["verdict"] not in _VERDICTS:
            raise ValueError(f"report.json has verdict {data['verdict']!r}, expected one of {', '.join(_VERDICTS)}")
        parts = {name: tuple(_item(kind, entry) for entry in _entries(data, name)) for name, kind in _PARTS.items()}
        return Report(
            verdict=data["verdict"],
            exit=data["exit"],
            today=data["today"],
            judgement=Judgement(**parts),
            notes=tuple(data["notes"]),
        )
    except KeyError as error:
        raise ValueError(f"report.json has no {error}") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"report.json is no report: {error}") from None


def _entries(data: dict[str, Any], name: str) -> Any:
    """The entries of a part; some are not in every report, commands not in those of earlier versions."""
    return data.get(name, []) if name in ("commands", *_LATER) else data[name]


def published_schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    loaded: dict[str, Any] = json.loads((files("harness.report") / "schema" / "report.schema.json").read_text("utf-8"))
    return loaded


def _item(kind: type[Any], entry: dict[str, Any]) -> Any:
    if kind is Coverage:
        by_tool = [{**item, **{key: tuple(item[key]) for key in ("unused", "excused")}} for item in entry["by_tool"]]
        entry = {
            **entry,
            "fates": tuple(ToolFate(**fate) for fate in entry["fates"]),
            "by_tool": tuple(ToolDetails(**item) for item in by_tool),
        }
    return kind(**entry)
