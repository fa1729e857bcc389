"""The door behind `tools snapshot`, `diff` and `accept`: sources -> contracts -> a file, or what is to be printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from harness.config import project as project_files
from harness.config.contract import FILE, is_contract, parse_contract
from harness.config.load import load
from harness.config.problems import ConfigProblems, did_you_mean
from harness.config.reasons import placeholder
from harness.config.toml import Files
from harness.engine.evidence import read_evidence
from harness.errors import ConfigError, NothingSelected
from harness.findings.contract import diff, drift, lists_in, lists_of, where_of, why_not
from harness.findings.steps import view_run
from harness.integration import Options, catalogue, evidence_root, plan_for_judging, runtimes_of_evidence
from harness.model.contract import (
    CLASSES,
    SUBJECTS,
    AcceptedSpec,
    Change,
    Contract,
    Lists,
    Subject,
    Where,
    contract_to_json,
    key_of,
    make_contract,
    views_of,
)
from harness.model.whole import write_whole
from harness.report.contract import Compared, compared_to_json, compared_to_markdown, compared_to_text, counted
from harness.report.escape import visible
from harness.report.groups import amount
from harness.tools_sources import STDIN, How, read_catalogues

__all__ = ["Said", "accept", "diff_of", "snapshot"]

Source = str | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command has to say: `text` on stdout, `notes` on stderr, and its exit code."""

    text: str = ""
    notes: tuple[str, ...] = ()
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The lists of one source.

    Attributes:
        unseen: Planned runs that there is no whole list of, each with why.
        file: Where the contract of such a source is kept.
        named: Whether a harness.toml names that file.
        planned: Whether these and `unseen` are all runs that there are.
    """

    server: str
    name: str
    views: tuple[tuple[Where, Lists], ...]
    unseen: tuple[tuple[Where, str], ...] = ()
    file: Path
    named: bool = True
    planned: bool = False


# --- commands -------------------------------------------------------------------------------------


def snapshot(
    sources: Sequence[Source],
    how: How,
    *,
    server: str = "",
    out: str | None = None,
    force: bool = False,
    words: bool = True,
) -> Said:
    """Writes the contract of a source.

    Args:
        words: Whether titles and descriptions are part of it.
    Raises:
        ConfigError: The source is none, or the file is there and `force` is not asked for.
        NothingSelected: There is no evidence.
    """
    seen = _seen_of(_one(sources), how)
    file = how.base / out if out is not None else seen.file
    shown = Files(how.base).name(file)
    if file.exists() and not force:
        raise ConfigError(
            f"{shown} is there already",
            hint='to accept what changed: mcp-rollcall tools accept --reason "…"; to write it anew, without its '
            "history: --force",
        )
    contract = make_contract(server or seen.server, seen.views, words=words)
    _write(file, shown, contract)
    lists = [amount(len(contract.shared.of(subject)), subject) for subject in SUBJECTS]
    runs = "one run" if len(seen.views) == 1 else f"{len(seen.views)} runs, the same in all"
    text = f"wrote {shown}: {', '.join(lists)} of {contract.server}, from {runs}"
    if contract.variants:
        where = ", ".join(str(item.where) for item in contract.variants)
        text = text.replace(", the same in all", "") + f"; {amount(len(contract.variants), 'difference')}: {where}"
    notes = [f"not in it: {why}" for _, why in seen.unseen]
    if not seen.named:
        notes.append(f'harness.toml does not name it yet: write contract = "{file.name}" at the top, and drift fails')
    return Said(text=visible(text), notes=tuple(notes))


def diff_of(sources: Sequence[Source], how: How, *, form: str, fail_on: str, width: int = 100) -> Said:
    """The changes from the first source to the second.

    Raises:
        ConfigError: There are not two sources, or one of them is none.
    """
    if len(sources) != 2:
        raise ConfigError(
            f"tools diff compares two sources, and {len(sources)} were named",
            hint="mcp-rollcall tools diff contract.json . compares the contract with the newest evidence",
        )
    before, after = (_contract_of(source, how) for source in sources)
    names = [" ".join(source) if not isinstance(source, str) else source for source in sources]
    fails = () if fail_on == "never" else CLASSES[: CLASSES.index(fail_on) + 1]
    found = Compared(before=names[0], after=names[1], changes=diff(before, after), fails=fails)
    match form:
        case "json":
            text = compared_to_json(found)
        case "markdown":
            text = compared_to_markdown(found)
        case _:
            text = compared_to_text(found, width=width)
    notes = []
    if before.server != after.server and before.place is not None and after.place is not None:
        notes.append(f"the sources are of two servers by name: {before.server} and {after.server}")
    return Said(text=text, notes=tuple(notes), code=found.exit)


def accept(
    sources: Sequence[Source],
    how: How,
    *,
    reason: str,
    names: Sequence[str],
    today: date,
    file: str | None = None,
    dry_run: bool = False,
) -> Said:
    """Rewrites the contract with what a source lists, and notes each tool whose change is accepted, with the reason.

    Args:
        names: Tools, prompts or resources whose changes alone are accepted; none: all.
    Raises:
        ConfigError: There is no contract, a name has no change, or the reason is none.
    """
    seen = _seen_of(_one(sources), how)
    path = how.base / file if file is not None else seen.file
    shown = Files(how.base).name(path)
    contract = _read(path, shown)
    changes = drift(contract, seen.views)
    if unknown := sorted(set(names) - {change.name for change in changes}):
        said = f"there is no change of {unknown[0]!r} in {seen.name} against {shown}"
        raise ConfigError(said, hint=did_you_mean(unknown[0], {change.name for change in changes}, what="changed"))
    wanted = [change for change in changes if not names or change.name in names]
    if not wanted:
        return Said(text=visible(f"{shown} says what {seen.name} lists; nothing to accept"))
    serious = [change for change in wanted if change.cls != "cosmetic"]
    for name in dict.fromkeys(change.name for change in serious):
        if said := placeholder(reason, name):
            given = f"{said}: {reason!r}" if reason else "a reason is missing"
            raise ConfigError(given, hint='write why the change is right: --reason "…"; it is kept in the file')
    known = {where for where, _ in seen.views}
    kept = [(where, contract.lists_in(where)) for where, _ in seen.unseen if where not in known]
    if not seen.planned:
        kept += [(where, contract.lists_in(where)) for where in _others(contract, seen, shown)]
    views = [
        (where, _taken(contract.lists_in(where), contract.seen(lists), wanted if names else None))
        for where, lists in seen.views
    ]
    history = [*contract.accepted, *_entries(serious, reason, today)]
    made = make_contract(contract.server, [*views, *kept], accepted=history, words=contract.words)
    lines = [visible(f"{'would accept' if dry_run else 'accepted'} {item.cls}: {item.message}") for item in wanted]
    if not dry_run:
        _write(path, shown, made)
    notes = [f"as it was, for want of a list: {why}" for _, why in seen.unseen]
    notes.append(f"{shown}: {counted(wanted)}{'' if dry_run else ' accepted'}")
    return Said(text="\n".join(lines), notes=tuple(notes))


def _others(contract: Contract, seen: _Seen, shown: str) -> list[Where]:
    """The runs that a contract tells apart and that a source says nothing of."""
    views = views_of(contract)
    for axis in contract.axes:
        for where, _ in seen.views:
            if axis not in where.to_json():
                raise ConfigError(
                    f"{shown} says that lists differ by {axis}, and {seen.name} does not say of which {axis} it is",
                    hint="accept from the evidence of the project: mcp-rollcall tools accept, without a source",
                )
    return [view for view in views if not any(view.holds(where) for where, _ in seen.views)] if contract.axes else []


def _entries(changes: Iterable[Change], reason: str, today: date) -> list[AcceptedSpec]:
    groups: dict[tuple[Subject, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.subject, change.name), []).append(change)
    return [
        AcceptedSpec(
            date=today.isoformat(),
            subject=subject,
            name=name,
            classes=tuple(cls for cls in CLASSES if any(change.cls == cls for change in group)),
            reason=reason.strip(),
            changes=tuple(dict.fromkeys(change.message for change in group)),
        )
        for (subject, name), group in sorted(groups.items())
    ]


def _taken(old: Lists, new: Lists, wanted: Sequence[Change] | None) -> Lists:
    """The new lists; or the old ones with the new state of the things that the wanted changes are of."""
    if wanted is None:
        return new
    out: dict[str, Any] = {}
    for subject in SUBJECTS:
        names = {change.name for change in wanted if change.subject == subject}
        names |= {change.after for change in wanted if change.subject == subject and change.pointer == "/name"
                  and isinstance(change.after, str) and subject == "tool"}  # fmt: skip
        kept = [item for item in old.of(subject) if key_of(subject, item) not in names]
        come = [item for item in new.of(subject) if key_of(subject, item) in names]
        out[f"{subject}s"] = (*kept, *come)
    return Lists(**out)


# --- sources --------------------------------------------------------------------------------------


def _one(sources: Sequence[Source]) -> Source:
    if len(sources) > 1:
        raise ConfigError("name one source", hint="a file, a folder, a URL, -, or a server's command after --")
    return sources[0] if sources else "."


def _contract_of(source: Source, how: How) -> Contract:
    """A contract.json, or the contract that the lists of a source would make."""
    if isinstance(source, str) and not source.lower().startswith(("http://", "https://")):
        data = _contract_bytes(source, how)
        if data is not None:
            found = parse_contract(data, file="standard input" if source == STDIN else source)
            if isinstance(found, Contract):
                return found
            raise ConfigProblems(found)
    seen = _seen_of(source, how)
    return make_contract(seen.server, seen.views)


def _contract_bytes(source: str, how: How) -> bytes | None:
    """The bytes of a source that looks like a contract, None if it does not."""
    if source == STDIN:
        data = how.stdin() if how.stdin is not None else b""
    else:
        path = how.base / source
        if not path.is_file() or path.name == project_files.FILE:
            return None
        try:
            data = path.read_bytes()
        except OSError:
            return None
    with suppress(ValueError, RecursionError):
        if is_contract(json.loads(data.decode("utf-8-sig"))):
            return data
        return None
    return data if Path(source).name == FILE else None


def _seen_of(source: Source, how: How) -> _Seen:
    if isinstance(source, str) and source != STDIN and "://" not in source:
        path = how.base / source
        if path.name == project_files.FILE or (path.is_dir() and (path / project_files.FILE).is_file()):
            return _project(path if path.is_dir() else path.parent, how)
        if source == "." and path.is_dir():
            raise ConfigError(
                "there is no harness.toml in this folder",
                hint="name a file, a project, a URL, or a server's command after --",
            )
    name = source if isinstance(source, str) else " ".join(source)
    views: dict[Where, Lists] = {}
    servers = []
    for read in read_catalogues(source, how):
        item = read.catalogue
        if not item.whole:
            raise ConfigError(f"the list in {item.source} is not whole: pages of it are missing")
        where = where_of(item.run) if item.run is not None else Where(era=item.era or "")
        if where in views:
            raise ConfigError(f"{name} holds more than one list of {where}", hint="name the file or folder of one")
        views[where] = lists_in(item)
        servers.append(item.server)
    if len(set(servers)) > 1:
        raise ConfigError(f"{name} holds lists of {len(set(servers))} servers: {', '.join(sorted(set(servers)))}")
    return _Seen(server=servers[0], name=name, views=tuple(views.items()), file=how.base / FILE)


def _project(root: Path, how: How) -> _Seen:
    """What the evidence of a project's present plan lists."""
    options = Options(base=how.base, projects=(root,))
    loaded = load([root], base=how.base, catalogue=catalogue(), exemptions_beside=how.base, contracts=False)
    plan = plan_for_judging(options, loaded, runtimes_of_evidence(options, loaded))
    project = loaded.projects[0]
    name = Files(how.base).name(root)
    found = {item.record.key: item for item in read_evidence(evidence_root(options, project), plan).found}
    views, unseen = [], []
    for run in (run for cell in plan.cells for run in cell.runs):
        evidence, where = found.get(run.key), where_of(run.key)
        if evidence is None:
            unseen.append((where, f"{run.key}: there is no evidence of it"))
        elif evidence.record.outcome != "not-spoken":
            view = view_run(run, evidence)
            if why := why_not(view):
                unseen.append((where, why))
            else:
                views.append((where, lists_of(view)))
    if not views:
        why = f"; {unseen[0][1]}" if unseen else ""
        raise NothingSelected(
            f"{name} has no evidence of a whole list of {project.server.name}{why}",
            hint="record it: mcp-rollcall run; or name the server's command after --",
        )
    return _Seen(
        server=project.server.name,
        name=name,
        views=tuple(views),
        unseen=tuple(unseen),
        file=project.contract_file or root / FILE,
        named=project.contract_file is not None,
        planned=True,
    )


# --- files ----------------------------------------------------------------------------------------


def _read(path: Path, shown: str) -> Contract:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{shown} cannot be read: {error.strerror}", hint="write the first one with mcp-rollcall tools snapshot"
        ) from None
    found = parse_contract(data, file=shown)
    if not isinstance(found, Contract):
        raise ConfigProblems(found)
    return found


def _write(path: Path, shown: str, contract: Contract) -> None:
    data = contract_to_json(contract)
    again = parse_contract(data, file=shown)
    if not isinstance(again, Contract):
        raise ConfigError(f"{shown} cannot hold this list: {again[0].message}", hint=again[0].where)
    try:
        write_whole(path.resolve(), data)
    except OSError as error:
        raise ConfigError(f"{shown} cannot be written: {error.strerror}") from None
