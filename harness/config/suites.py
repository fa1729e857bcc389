"""Suite files -> SuiteSpec."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.config.problems import Path, Problem, did_you_mean, quoted
from harness.config.toml import Document
from harness.config.validate import check, other_version
from harness.config.values import BACKSLASH, bad_pattern, fold, items, table, text, texts, unknown_placeholders
from harness.model.bounded import BudgetExceeded, validate
from harness.model.plan import Action, CaptureSpec, CaseSpec, EventuallySpec, ExpectSpec, StepSpec, SuiteSpec

__all__ = ["ACTIONS", "Around", "build_suite", "suite_problems"]

ACTIONS: tuple[Action, ...] = ("call", "read_resource", "get_prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a suite file may refer to.

    Attributes:
        profiles: Names of the project's profiles; None where they are not known because of other problems.
        backends: Every name by which the project's choices of backends go; None where they are not known.
        judge: Message and hint for a placeholder that has no value, given the captured names so far and the backends
            that the case is bound to (none: any).
    """

    profiles: Sequence[str] | None
    backends: Collection[str] | None
    judge: Callable[[str, frozenset[str], frozenset[str]], tuple[str, str] | None]


def suite_problems(document: Document, around: Around) -> list[Problem]:
    """Everything that is wrong with one suite file."""
    other = other_version(document, "suite")
    return [other] if other is not None else [*check(document, "suite"), *_problems(document, around)]


def _problems(document: Document, around: Around) -> Iterator[Problem]:
    data = document.data
    yield from _profile_problems(document, ("profiles",), data.get("profiles"), around)
    yield from _backend_problems(document, ("backend",), data.get("backend"), around)
    seen: dict[str, tuple[str, Path]] = {}
    for index, value in enumerate(items(data.get("case"))):
        case, path = table(value), ("case", index)
        name = text(case.get("id"))
        if name is not None:
            if fold(name) in seen:
                other, where = seen[fold(name)]
                said = f"the case {quoted(other)} at line {document.place(where).line} has this name already"
                hint = "" if other == name else "names that differ in case only are one on some file systems"
                yield document.problem((*path, "id"), said, hint)
            seen.setdefault(fold(name), (name, (*path, "id")))
        yield from _profile_problems(document, (*path, "profiles"), case.get("profiles"), around)
        yield from _backend_problems(document, (*path, "backend"), case.get("backend"), around)
        captured: frozenset[str] = frozenset()
        bound = frozenset(texts(case["backend"] if "backend" in case else data.get("backend")))
        for key in ("step", "cleanup"):
            for number, step in enumerate(items(case.get(key))):
                where = (*path, key, number)
                yield from _step_problems(document, where, table(step), captured, bound, around)
                captured |= frozenset(table(table(step).get("capture")))


def _profile_problems(document: Document, path: Path, value: Any, around: Around) -> Iterator[Problem]:
    if around.profiles is None or isinstance(value, str):
        return
    for index, name in enumerate(items(value)):
        if isinstance(name, str) and name and name not in around.profiles:
            hint = did_you_mean(name, around.profiles)
            yield document.problem((*path, index), f"there is no profile {quoted(name)}", hint)


def _backend_problems(document: Document, path: Path, value: Any, around: Around) -> Iterator[Problem]:
    if around.backends is None:
        return
    for index, name in enumerate([value] if isinstance(value, str) else items(value)):
        if isinstance(name, str) and name and name not in around.backends:
            where = path if isinstance(value, str) else (*path, index)
            hint = did_you_mean(name, around.backends) if around.backends else "harness.toml names no backends"
            yield document.problem(where, f"no run has the backend {quoted(name)}", hint)


def _step_problems(
    document: Document,
    path: Path,
    step: Mapping[str, Any],
    captured: frozenset[str],
    bound: frozenset[str],
    around: Around,
) -> Iterator[Problem]:
    expect = table(step.get("expect"))
    resolved = {key: step[key] for key in (*ACTIONS, "arguments", "expect") if key in step}
    yield from unknown_placeholders(document, path, resolved, lambda name: around.judge(name, captured, bound))
    if "read_resource" in step and "arguments" in step:
        yield document.problem((*path, "arguments"), "reading a resource takes no arguments", "put them into the URI")
    if expect.get("is_error") is False and "code" in expect:
        yield document.problem((*path, "expect", "code"), "this is the code of an error, but is_error is false")
    yield from _cancel_problems(document, path, step, expect)
    patterns: list[tuple[Path, Any]] = [((*path, "expect", "text_matches"), expect.get("text_matches"))]
    for name, value in table(step.get("capture")).items():
        patterns.append(((*path, "capture", name, "matches"), table(value).get("matches")))
    for where, pattern in patterns:
        if isinstance(pattern, str) and (wrong := bad_pattern(pattern)):
            yield document.problem(where, wrong, BACKSLASH if "\\" in pattern else "")
    if isinstance(expect.get("schema"), dict) and not _is_schema(expect["schema"]):
        yield document.problem((*path, "expect", "schema"), "this is no valid JSON Schema (2020-12)")


def _cancel_problems(
    document: Document, path: Path, step: Mapping[str, Any], expect: Mapping[str, Any]
) -> Iterator[Problem]:
    after, limit = step.get("cancel_after_s"), step.get("timeout_s")
    if after is None:
        return
    beside: list[Path] = [("expect", key) for key in expect if key != "prompts"]
    beside += [(key,) for key in ("capture", "confirm", "eventually") if step.get(key)]
    for key in beside:
        yield document.problem(
            (*path, *key), "a call that is cancelled has no answer", "leave out cancel_after_s, or this"
        )
    if isinstance(after, int | float) and isinstance(limit, int | float) and after >= limit:
        hint = "write a time below timeout_s"
        yield document.problem((*path, "cancel_after_s"), f"the step ends after {limit:g} s already", hint)


def _is_schema(value: Any) -> bool:
    try:
        validate(value, None)
    except BudgetExceeded as error:
        return not str(error).startswith("the schema is not valid")
    return True


# --- building -----------------------------------------------------------------------------------


def build_suite(document: Document) -> SuiteSpec:
    """The suite in a file without problems."""
    data = document.data
    inherited = {"backend": data["backend"]} if "backend" in data else {}
    return SuiteSpec(
        id=data["id"],
        place=document.place(),
        profiles=_names(data, "profiles"),
        cases=tuple(
            _case(document, ("case", index), {**inherited, **value}) for index, value in enumerate(data.get("case", []))
        ),
    )


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(texts(data[key])) if key in data else None


def _case(document: Document, path: Path, value: Mapping[str, Any]) -> CaseSpec:
    return CaseSpec(
        id=value["id"],
        place=document.place(path),
        steps=tuple(_step(document, (*path, "step", index), step) for index, step in enumerate(value["step"])),
        cleanup=tuple(
            _step(document, (*path, "cleanup", index), step) for index, step in enumerate(value.get("cleanup", []))
        ),
        profiles=_names(value, "profiles"),
        backends=_names(value, "backend"),
        timeout_s=_seconds(value),
    )


def _seconds(value: Mapping[str, Any]) -> float | None:
    return float(value["timeout_s"]) if "timeout_s" in value else None


def _step(document: Document, path: Path, value: Mapping[str, Any]) -> StepSpec:
    action = next(name for name in ACTIONS if name in value)
    return StepSpec(
        action=action,
        target=value[action],
        place=document.place(path),
        arguments=value.get("arguments", {}),
        expect=_expect(value.get("expect", {})),
        capture=tuple(_capture(name, item) for name, item in value.get("capture", {}).items()),
        confirm=value.get("confirm", False),
        eventually=_eventually(value.get("eventually", False)),
        timeout_s=_seconds(value),
        unlisted=value.get("unlisted", False),
        cancel_after_s=float(value["cancel_after_s"]) if "cancel_after_s" in value else None,
    )


def _expect(value: Mapping[str, Any]) -> ExpectSpec:
    return ExpectSpec(
        is_error=value.get("is_error"),
        code=value.get("code"),
        text_contains=tuple(texts(value.get("text_contains"))),
        text_matches=value.get("text_matches"),
        text_equals=value.get("text_equals"),
        pointer=value.get("pointer", {}),
        schema=value.get("schema"),
        prompts=tuple(texts(value["prompts"])) if "prompts" in value else None,
    )


def _capture(name: str, value: Any) -> CaptureSpec:
    if isinstance(value, str):
        return CaptureSpec(name=name, pointer=value)
    return CaptureSpec(name=name, pointer=value["pointer"], matches=value.get("matches"))


def _eventually(value: Any) -> EventuallySpec | None:
    if isinstance(value, bool):
        return EventuallySpec() if value else None
    usual = EventuallySpec()
    return EventuallySpec(
        timeout_s=float(value.get("timeout_s", usual.timeout_s)), every_s=float(value.get("every_s", usual.every_s))
    )
