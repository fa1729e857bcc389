"""The door behind `exemptions prune`, `propose` and `list`: it judges as `judge` does, and changes or shows the files.

It prints nothing. Files are changed only after every new content is known, each atomically.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from harness.config import exemptions as exemption_files
from harness.config import project as project_files
from harness.config.edit import NEW_FILE, EntryPath, Skeleton, add_entries, remove_entries, rows_of_entries
from harness.config.load import Loaded, load
from harness.config.problems import did_you_mean, quoted
from harness.config.toml import Files, peek
from harness.config.values import items
from harness.engine.blame import last_changes
from harness.errors import ConfigError, NothingSelected
from harness.findings.parameters import covers
from harness.integration import (
    Options,
    Outcome,
    catalogue,
    judge_evidence,
    load_plan_for_judging,
    plan_for_judging,
    runtimes_of_evidence,
)
from harness.model.checks import CHECKS, exemptable
from harness.model.finding import Finding, Judgement, NotJudged
from harness.model.plan import Cell, ExemptionSpec, Plan, ProjectSpec, Runtime
from harness.model.whole import write_whole
from harness.report.escape import visible
from harness.report.exemption_list import Listed
from harness.report.groups import amount

__all__ = ["Changes", "listed", "propose", "prune"]

EXERCISED, OUTPUT_SCHEMA, PARAMETERS = "exercised", "output-schema", "parameters"
EVERY = "*"  # the subject of what is said of a server, not of one of its tools
NEEDS = ("missing", "refused-only", "failed-only")
NOT_HERE = "rollout.toml lists repositories that are not here; one of them may have it"
NO_NEWLINE = "\\ No newline at end of file"

_SKIPPED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__"})

_Key = tuple[str, str, str, str]  # file, server, check, subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What was done to the files, or would be.

    Attributes:
        done: A line for each entry that was removed or proposed.
        left: A line for each entry or tool that was left alone, and why.
        summary: The counts, one line.
        diff: All changes, as a unified diff with LF line ends.
    """

    done: tuple[str, ...]
    left: tuple[str, ...]
    summary: str
    diff: str


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why an entry goes, or the verdict and words with which it stays."""

    goes: bool
    kind: str
    words: str


def prune(options: Options, *, today: date, expired: bool, dry_run: bool) -> Changes:
    """Removes the entries that are false or stale by the recorded evidence, and with `expired` those that are over.

    An entry stays where it could not be judged, where it may still hold for other backends, and where it repeats
    another: which of two reasons is the better one is for a person to say.

    Raises:
        ConfigError: The files cannot be read or written.
        NothingSelected: There is no evidence.
    """
    loaded, plan = load_plan_for_judging(options)
    plans = [plan, *_other_plans(options, loaded)]
    first = _judged(options, plan, today)
    paths = _paths(options, loaded)
    going: dict[_Key, _Verdict] = {}
    staying: dict[_Key, _Verdict] = {}
    aside = set(plan.servers) - {cell.server for cell in plan.cells}
    places = {_key(entry): entry for entry in plan.exemptions if entry.server not in aside}
    judgements = [first, *(judge_evidence(options, other, Outcome(), today=today) for other in plans[1:])]
    while True:
        verdicts = _verdicts(options, plans, judgements, paths, expired=expired)
        verdicts = {
            key: _in_checkout(verdict) if verdict.goes and _is_checked_out(options, paths[key[0]]) else verdict
            for key, verdict in verdicts.items()
            if key in places
        }
        fresh = {key: verdict for key, verdict in verdicts.items() if verdict.goes}
        staying = {key: verdict for key, verdict in verdicts.items() if not verdict.goes}
        going |= fresh
        if not fresh or not any(verdict.kind == "duplicate" for verdict in staying.values()):
            break
        plans = [_plan_without(item, going) for item in plans]  # who repeated one that goes now stands alone
        judgements = [judge_evidence(options, item, Outcome(), today=today) for item in plans]

    for entry in loaded.misplaced:
        if entry.server in aside:
            continue
        places[_key(entry)] = entry
        verdict = _verdict_on_misplaced(options, paths[entry.place.file])
        (going if verdict.goes else staying)[_key(entry)] = verdict
    for entry in loaded.exemptions:
        if _key(entry) not in places and entry.server not in plan.servers:
            places[_key(entry)] = entry
            why = _not_named(options, paths[entry.place.file], entry.server)
            why = why or "the name of a server that is listed is not known"
            staying[_key(entry)] = _Verdict(False, "of a server not named", why)

    contents: dict[Path, tuple[str, bytes, bytes]] = {}
    for file, path in paths.items():
        gone: list[EntryPath] = [key[1:] for key in going if key[0] == file]
        if gone:
            old = _bytes(path, file)
            contents[path] = (file, old, remove_entries(old, gone, file=file))
    _write_all(contents, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    counts = Counter(verdict.kind for verdict in staying.values())
    left = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return Changes(
        done=_lines(verb, going, places),
        left=_lines("left", staying, places),
        summary=f"{verb} {len(going)} of {amount(len(places), 'exemption')}"
        + (f"; left alone: {left}" if left else ""),
        diff=_diff(contents.values()),
    )


def propose(options: Options, *, today: date, dry_run: bool, checks: Collection[str] = ()) -> Changes:
    """Writes an entry with an empty reason for everything that fails the run and may be excused.

    What rests on absence counts only in cells whose runs all finished; where an entry stands already none is written.

    Args:
        checks: Only of these, by their names in exemption files, and then their warnings too; empty: all of them.
    Raises:
        ConfigError: The files cannot be read or written, or there is no such check.
        NothingSelected: There is no evidence.
    """
    if unknown := [name for name in checks if name not in exemptable()]:
        raise ConfigError(
            f"--check: {quoted(unknown[0])} is no check that takes an exemption",
            hint=did_you_mean(unknown[0], exemptable()),
        )
    _, plan = load_plan_for_judging(options)
    judgement = _judged(options, plan, today)
    files = Files(options.base)
    wanted: dict[Path, list[tuple[Skeleton, str]]] = {}
    known: dict[Path, Path] = {}  # the file itself -> how it is called
    left: list[str] = []
    for project in plan.projects:
        path = project.exemptions_file or project.root / exemption_files.FILE
        path = known.setdefault(path.resolve(), path)
        if _is_checked_out(options, path):
            path = options.central or options.base / exemption_files.FILE  # what is written there would be lost
            path = known.setdefault(path.resolve(), path)
        for need in _all_needs(project, plan, judgement, checks):
            if isinstance(need, str):
                left.append(need)
            else:
                wanted.setdefault(path, []).append(need)
    contents: dict[Path, tuple[str, bytes, bytes]] = {}
    done: list[str] = []
    verb = "would propose" if dry_run else "proposed"
    for path, needs in wanted.items():
        file = files.name(path)
        old = _bytes(path, file) if path.exists() else b""
        new = add_entries(old or NEW_FILE, [skeleton for skeleton, _ in needs], file=file)
        contents[path] = (file, old, new)
        rows = rows_of_entries(new, file=file)
        for skeleton, why in needs:
            row = rows[skeleton.server, skeleton.check, skeleton.subject][0]
            done.append(_line(verb, f"{file}:{row}", skeleton.server, skeleton.check, skeleton.subject, why))
    _write_all(contents, dry_run=dry_run)
    named = frozenset(checks or exemptable())
    unjudged = [item for item in judgement.not_judged if item.check in named and item.file is None]
    left += [visible(f"not judged: {item.why}") for item in unjudged]
    summary = f"{verb} {amount(len(done), 'exemption')}"
    if len(done) == 1:
        summary += "; it is malformed, and fails, until somebody writes its reason"
    elif done:
        summary += "; they are malformed, and fail, until somebody writes their reasons"
    return Changes(done=tuple(done), left=tuple(dict.fromkeys(left)), summary=summary, diff=_diff(contents.values()))


def listed(options: Options, *, today: date) -> tuple[list[Listed], list[str]]:
    """The entries of the selected servers with the day on which each was last changed, and why such a day is missing.

    Raises:
        ConfigError: The files cannot be read, or a server is named that neither they nor a harness.toml know.
    """
    loaded = load(
        [options.base / path for path in options.projects],
        base=options.base,
        catalogue=catalogue(),
        exemptions_beside=options.base,
        central=options.central,
    )
    known = {project.server.name for project in loaded.projects}
    names = set(options.servers)
    if not names and not options.everything:
        names = known & set(options.default_servers)
    known |= {entry.server for entry in loaded.exemptions}
    if unknown := sorted(names - known):
        raise ConfigError(f"no server is named {quoted(unknown[0])}", hint=did_you_mean(unknown[0], known))
    out: list[Listed] = []
    notes = []
    for file, path in _paths(options, loaded).items():
        entries = [entry for entry in loaded.exemptions if entry.place.file == file]
        entries = [entry for entry in entries if not names or entry.server in names]
        if not entries:
            continue
        blame = last_changes(path, today=today)
        if blame.problem:
            notes.append(f"{file}: ages are not known: {blame.problem}")
        rows = rows_of_entries(_bytes(path, file), file=file)
        for entry in entries:
            mine = rows.get((entry.server, entry.check, entry.subject), (entry.place.line or 0,))
            days = [blame.dates[row] for row in mine if row in blame.dates]
            out.append(Listed(entry=entry, since=max(days, default=None)))
    return out, notes


# --- verdicts -------------------------------------------------------------------------------------


def _judged(options: Options, plan: Plan, today: date) -> Judgement:
    judgement = judge_evidence(options, plan, Outcome(), today=today)
    if not judgement.ran:
        raise NothingSelected(
            "there is no evidence of the present plan to go by; nothing was changed",
            hint="record it: mcp-rollcall integration",
        )
    return judgement


def _other_plans(options: Options, loaded: Loaded) -> Iterator[Plan]:
    """The plan with the backends in the other runtime: what was recorded there has a say too, unless one is named."""
    if options.runtime != "auto":
        return
    seen = runtimes_of_evidence(options, loaded)
    if seen:
        other: dict[str, Runtime] = {
            name: "process" if runtime == "docker" else "docker" for name, runtime in seen.items()
        }
        yield plan_for_judging(options, loaded, other)


def _plan_without(plan: Plan, gone: Mapping[_Key, _Verdict]) -> Plan:
    return replace(plan, exemptions=tuple(entry for entry in plan.exemptions if _key(entry) not in gone))


def _key(entry: ExemptionSpec) -> _Key:
    return entry.place.file, entry.server, entry.check, entry.subject


def _in_checkout(verdict: _Verdict) -> _Verdict:
    return _Verdict(False, "in a checkout", f"{verdict.words}; change it in its own repository")


def _verdict_on_misplaced(options: Options, file: Path) -> _Verdict:
    verdict = _Verdict(True, "stale", "a repository's own file speaks of its own server only")
    return _in_checkout(verdict) if _is_checked_out(options, file) else verdict


def _verdicts(
    options: Options,
    plans: Sequence[Plan],
    judgements: Sequence[Judgement],
    paths: Mapping[str, Path],
    *,
    expired: bool,
) -> dict[_Key, _Verdict]:
    """Every entry that goes, and every one that stays though something is said of it; used ones are left out."""
    plan, judgement = plans[0], judgements[0]
    out = _of_one(judgement, expired=expired)
    for other in judgements[1:]:
        ran = {run.server for run in other.ran if run.runtime is not None}
        theirs = _of_one(other, expired=expired)
        cells = {run.server: run.backend for run in other.ran}
        for key, verdict in out.items():
            if verdict.goes and key[1] in ran and not ((that := theirs.get(key)) and that.goes):
                said = f"{that.kind}: {that.words}" if that else "it is used"
                out[key] = _Verdict(False, "needed elsewhere", f"with {cells[key[1]]}, {said}")
    for key, verdict in out.items():
        if verdict.goes and key[1] not in plan.servers and (why := _not_named(options, paths[key[0]], key[1])):
            out[key] = _Verdict(False, "of a server not named", why)
    return out


def _of_one(judgement: Judgement, *, expired: bool) -> dict[_Key, _Verdict]:
    """By one judgement. What is said of absence elsewhere outweighs what was seen here."""
    out: dict[_Key, _Verdict] = {}
    kept: set[_Key] = {(item.file, item.server, item.check, item.subject) for item in judgement.excused}
    open_ones: dict[_Key, NotJudged] = {
        (item.file, item.server, item.check, item.subject or ""): item
        for item in judgement.not_judged
        if item.file is not None
    }
    for key, item in open_ones.items():
        out[key] = _Verdict(False, "not judged", item.why)
    for finding in judgement.findings:
        family, _, kind = finding.check.partition("/")
        if family != "exemption" or finding.file is None:
            continue
        key = (finding.file, finding.server, str(finding.evidence["check"]), str(finding.evidence["subject"]))
        words = finding.message.removeprefix(f"{finding.file}:{finding.line}: ").removesuffix("; remove the entry")
        goes = kind in ("false", "stale") and "still_needed" not in finding.evidence
        goes = goes and key not in kept and key not in open_ones
        goes = goes or (expired and kind == "expired")
        if goes or key not in out:
            out[key] = _Verdict(goes, kind, words)
    return out


def _not_named(options: Options, file: Path, server: str) -> str:
    """Why a server that no harness.toml of ours has may exist all the same, "" if nothing speaks for it."""
    if options.homes is not None:
        return NOT_HERE if "" in options.absent else ""
    listed = peek(file.parent / "rollout.toml").get("repository")
    if any(isinstance(item, dict) and "path" not in item for item in items(listed)):
        return NOT_HERE
    for folder, names, files in os.walk(file.parent):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        if project_files.FILE in files:
            table = peek(Path(folder) / project_files.FILE).get("server")
            if isinstance(table, dict) and table.get("name") == server:
                return f"it is that of {Path(os.path.relpath(folder, file.parent)).as_posix()}; name it with --project"
    return ""


# --- needs ----------------------------------------------------------------------------------------


_Need = tuple[Skeleton, str] | str  # the entry to write and why, or the line that says why none is


def _all_needs(project: ProjectSpec, plan: Plan, judgement: Judgement, checks: Collection[str]) -> Iterator[_Need]:
    """Everything of a server that wants an exemption, check by check."""
    for check in exemptable():
        if checks and check not in checks:
            continue
        if check == EXERCISED:
            yield from _needs(project, plan, judgement)
        else:
            yield from _found_needs(project, plan, judgement, check, warnings=check in checks)


def _needs(project: ProjectSpec, plan: Plan, judgement: Judgement) -> Iterator[_Need]:
    """Every tool of a server that was not exercised."""
    server = project.server.name
    cells = [cell for cell in plan.cells if cell.server == server]
    fates: dict[str, dict[str, str]] = {}  # tool -> cell -> fate
    judged = _judged_cells(server, judgement)
    for coverage in judgement.coverage:
        for fate in coverage.fates if coverage.server == server else ():
            fates.setdefault(fate.tool, {})[coverage.backend] = fate.fate
    entries = {(entry.server, entry.check, entry.subject): entry for entry in plan.exemptions}
    for tool, by_cell in sorted(fates.items()):
        needing = [cell for cell in cells if cell.backend in judged and by_cell.get(cell.backend) in NEEDS]
        if not needing:
            continue
        others = [cell for cell in cells if cell not in needing]
        rest = [cell for cell in others if cell.backend not in judged or by_cell.get(cell.backend) == "succeeded"]
        why = _why(needing, by_cell)
        backends = _labels(needing, rest) if rest else ()
        skeleton = Skeleton(server=server, check=EXERCISED, subject=tool, backends=backends or ())
        problem = _unwritable(skeleton)
        if not problem and backends is None:
            problem = "it succeeded with some of the same backends; no `backend = […]` says where it did not"
        yield _need(skeleton, why, entries.get((server, EXERCISED, tool)), problem)


def _judged_cells(server: str, judgement: Judgement) -> set[str]:
    return {item.backend for item in judgement.coverage if item.server == server and item.judged}


def _found_needs(
    project: ProjectSpec, plan: Plan, judgement: Judgement, check: str, *, warnings: bool
) -> Iterator[_Need]:
    """What a check other than `exercised` found at a server, one subject after the other.

    Args:
        warnings: Whether warnings count too; without, they fail no run, and the entry without a reason would.
    """
    server = project.server.name
    ids = exemptable()[check]
    cells = [cell for cell in plan.cells if cell.server == server]
    by_run = {str(run.key): cell.backend for cell in cells for run in cell.runs}
    found: dict[str, tuple[Finding, dict[str, None]]] = {}  # subject -> the first finding, all its cells
    for finding in judgement.findings:
        if finding.server != server or finding.check not in ids:
            continue
        seen_in = dict.fromkeys(by_run[run] for run in finding.evidence.get("runs", ()) if run in by_run)
        for subject in _subjects(check, finding):
            first, where = found.setdefault(subject, (finding, {}))
            if first.severity != "error" and finding.severity == "error":
                found[subject] = (finding, where)
            where |= seen_in
    judged = _judged_cells(server, judgement)
    listing = {item.backend: {fate.tool for fate in item.fates} for item in judgement.coverage if item.server == server}
    entries = {(entry.check, entry.subject): entry for entry in plan.exemptions if entry.server == server}
    any_subject = all(CHECKS[item].subject == "any" for item in ids)
    for subject, (finding, where) in sorted(found.items()):
        needing = [cell for cell in cells if cell.backend in where]
        others = [cell for cell in cells if cell not in needing]
        if finding.tool is not None:  # an entry says nothing of a cell that does not list the tool
            listed = {name for name, tools in listing.items() if finding.tool in tools}
            others = [cell for cell in others if cell.backend not in judged or cell.backend in listed]
        backends = _labels(needing, others) if others else ()
        why = f"{finding.check}" + (f" with {' and '.join(where)}" if others else "")
        if finding.severity != "error" and not warnings:
            why += f" is a warning; --check {check} proposes an entry all the same"
            yield _line("left", "", server, check, subject, why)
            continue
        entry = entries.get((check, subject))
        if entry is None and any_subject:
            entry = next((item for (name, _), item in entries.items() if name == check), None)
        skeleton = Skeleton(server=server, check=check, subject=subject, backends=backends or ())
        problem = _unwritable(skeleton)
        if not problem and backends is None and not any_subject:
            problem = "it is not so with some of the same backends; no `backend = […]` says where it is"
        yield _need(skeleton, why, entry, problem)


def _subjects(check: str, finding: Finding) -> Iterator[str]:
    """What the entries for one finding are called; of a parameter that was never used its values are no matter."""
    if check == PARAMETERS:
        kept: list[str] = []
        for name in sorted(finding.evidence.get("unused", ())):
            if not any(covers(other, name) for other in kept):
                kept.append(name)
                yield f"{finding.tool}.{name}"
    else:
        yield finding.tool if check == OUTPUT_SCHEMA and finding.tool is not None else EVERY


def _need(skeleton: Skeleton, why: str, entry: ExemptionSpec | None, problem: str) -> _Need:
    """The entry to write; or why it is left, above all because one stands there."""
    if entry is not None:
        problem = _standing(entry, skeleton.backends)
    if not problem:
        return skeleton, why
    place = str(entry.place) if entry is not None else ""
    return _line("left", place, skeleton.server, skeleton.check, skeleton.subject, f"{why}; {problem}")


def _unwritable(skeleton: Skeleton) -> str:
    """Why a file cannot hold an entry, "" if it can."""
    subject = skeleton.subject
    bad = not subject.strip() or any(0xD800 <= ord(char) < 0xE000 for char in subject)
    return "its name cannot be a key" if bad else ""


def _why(needing: Iterable[Cell], by_cell: Mapping[str, str]) -> str:
    """`missing`, or `missing with redis@7, refused-only with redis@8`."""
    by_fate: dict[str, list[str]] = {}
    for cell in needing:
        by_fate.setdefault(by_cell[cell.backend], []).append(cell.backend)
    if len(by_fate) == 1 and len(by_cell) == len(next(iter(by_fate.values()))):
        return next(iter(by_fate))
    return ", ".join(f"{fate} with {' and '.join(labels)}" for fate, labels in by_fate.items())


def _labels(needing: Sequence[Cell], rest: Iterable[Cell]) -> tuple[str, ...] | None:
    """The `name@version` that name some cells and none of the rest; None if nothing does."""
    taken = {choice.label for cell in rest for choice in cell.roles}
    out: dict[str, None] = {}
    for cell in needing:
        free = [choice.label for choice in cell.roles if choice.label not in taken]
        if not free:
            return None
        if not any(label in out for label in free):
            out[free[0]] = None
    return tuple(out)


def _standing(entry: ExemptionSpec, backends: tuple[str, ...]) -> str:
    """What to do about an entry that stands there and does not excuse its tool."""
    if entry.problems:
        return f"its entry is malformed: {'; '.join(entry.problems)}"
    if entry.expires is not None and not entry.backends:
        return f"its entry expires {entry.expires}"
    return (
        f"its entry does not hold there; add {', '.join(backends)} to its `backend`"
        if backends
        else ("its entry does not hold there; see its `backend` and `expires`")
    )


# --- files ----------------------------------------------------------------------------------------


def _paths(options: Options, loaded: Loaded) -> dict[str, Path]:
    """The exemption files by the names that messages give them."""
    files = Files(options.base)
    found = {
        files.name(project.exemptions_file): project.exemptions_file
        for project in loaded.projects
        if project.exemptions_file is not None
    }
    if options.central is not None:
        found[files.name(options.central)] = options.central
    return {name: found[name] for name in loaded.exemption_files if name in found}


def _is_checked_out(options: Options, path: Path) -> bool:
    return options.checkouts is not None and path.absolute().is_relative_to(options.checkouts.absolute())


def _bytes(path: Path, file: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


def _write_all(contents: Mapping[Path, tuple[str, bytes, bytes]], *, dry_run: bool) -> None:
    for path, (file, old, new) in contents.items():
        if new != old and not dry_run:
            try:
                write_whole(path.resolve(), new, keep_mode=True)
            except OSError as error:
                raise ConfigError(f"{file} cannot be written: {error.strerror}") from None


def _diff(contents: Iterable[tuple[str, bytes, bytes]]) -> str:
    out: list[str] = []
    for file, old, new in contents:
        one, two = _rows(old), _rows(new)
        shown = difflib.unified_diff(one, two, f"a/{file}" if old else "/dev/null", f"b/{file}", lineterm="")
        for row in shown:
            body, mark, rest = row.partition("\0")
            out.append(visible(body, keep="\t"))
            if mark and not rest:
                out.append(NO_NEWLINE)
    return "".join(f"{row}\n" for row in out)


def _rows(data: bytes) -> list[str]:
    """The rows without their ends; a last one without an end is marked, so that it differs from one with."""
    rows = data.decode("utf-8", "replace").split("\n")
    last = rows.pop()
    rows = [row.removesuffix("\r") for row in rows]
    return [*rows, last + "\0"] if last else rows


def _lines(verb: str, verdicts: Mapping[_Key, _Verdict], places: Mapping[_Key, ExemptionSpec]) -> tuple[str, ...]:
    """A line for each entry, in the order of the files."""
    order = {key: index for index, key in enumerate(places)}
    return tuple(
        _line(verb, str(places[key].place), *key[1:], f"{verdict.kind}: {verdict.words}")
        for key, verdict in sorted(verdicts.items(), key=lambda item: order[item[0]])
    )


def _line(verb: str, place: str, server: str, check: str, subject: str, words: str) -> str:
    head = " ".join(part for part in (verb, place, server, check, subject) if part)
    return visible(f"{head} — {words}")
