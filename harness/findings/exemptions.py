"""The verdict on every entry of exemptions.toml, all together.

An entry is used, false, stale, malformed, duplicate, expired, or not judged.

What rests on something seen (false) is always judged; what rests on absence (a tool that is gone, a process that did
exit in time) only where every planned run of the cells in question finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from harness.findings.exercised import nearest
from harness.findings.http import was_asked
from harness.findings.ledger import CellLedger
from harness.findings.output_schema import declares, has_output_schemas, lacking_message
from harness.findings.parameters import CellParameters, covers
from harness.findings.seen import Rerun, Seen
from harness.model.catalogue import Catalogue
from harness.model.checks import CHECKS, FAMILIES, exemptable
from harness.model.choices import cell_names, known_names
from harness.model.finding import Excused, Finding, NotJudged
from harness.model.plan import ERAS, ExemptionSpec, Plan, ProjectSpec, RunKey

__all__ = ["EVERY", "Verdicts", "judge_exemptions", "left_out", "unknown_check"]

OUTPUT_SCHEMA, PARAMETERS = "output-schema", "parameters"
EVERY = "*"  # the subject that stands for every tool of a server, where none has what the check asks for


@dataclass(slots=True, kw_only=True)
class Verdicts:
    """What the entries say and what is said of them; filled by `judge_exemptions`, then left alone.

    Attributes:
        tools: (server, cell) -> tools whose coverage is excused there.
        parameters: (server, cell) -> (tool, parameter) whose use is excused there.
        seen: The sightings that no entry excuses.
    """

    findings: list[Finding] = field(default_factory=list)
    not_judged: list[NotJudged] = field(default_factory=list)
    excused: list[Excused] = field(default_factory=list)
    tools: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    parameters: dict[tuple[str, str], frozenset[tuple[str, str]]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)


def judge_exemptions(
    plan: Plan,
    ledgers: Sequence[CellLedger],
    seen: Sequence[Seen],
    *,
    catalogues: Mapping[RunKey, Catalogue],
    parameters: Mapping[tuple[str, str], CellParameters],
    today: date,
    rerun: Rerun,
) -> Verdicts:
    """The verdict on every entry of the plan, and what the entries excuse.

    Args:
        ledgers: Of every planned cell.
        seen: Sightings that entries may excuse (`process/…`), and any others, which pass through.
        catalogues: What each run lists.
        parameters: What was used of the parameters in each (server, cell).
    """
    by_server: dict[str, list[CellLedger]] = {}
    for ledger in ledgers:
        by_server.setdefault(ledger.cell.server, []).append(ledger)
    judge = _Judge(plan, by_server, seen, catalogues, parameters, today, rerun)
    entries = sorted(
        plan.exemptions, key=lambda entry: (entry.place.file, entry.place.line or 0, entry.subject, entry.check)
    )
    heads = _duplicates(entries, judge)
    for entry in entries:
        if id(entry) not in heads:
            judge.entry(entry)
    rest = [item for index, item in enumerate(seen) if index not in judge.taken]
    judge.out.seen = list(_lacking(rest, judge.without_output))
    return judge.out


def left_out(plan: Plan, project: ProjectSpec, ledger: CellLedger) -> str:
    """What the user's selection left out of one cell, in words; "" if nothing."""
    if not plan.partial:
        return ""
    if plan.left_out:
        return plan.left_out
    eras = project.server.eras
    runs = ledger.cell.runs
    if any(set(run.selected) != {f"{suite}/{case.id}" for suite, case in run.cases} for run in runs):
        return "cases were left out by the selection"
    if {profile.name for profile in project.profiles} - {run.key.profile for run in runs}:
        return "profiles were left out by the selection"
    if len({run.key.era for run in runs}) < len(set(eras or ERAS)):
        return "eras were left out by the selection"
    return ""


def _cells_left_out(plan: Plan, project: ProjectSpec | None, ledgers: Sequence[CellLedger]) -> bool:
    """Whether the user's selection left whole cells of a server out."""
    if not plan.partial or project is None:
        return False
    for role in project.roles:
        planned = {choice for ledger in ledgers for choice in ledger.cell.roles if choice.role == role.role}
        versions = {choice.version for choice in planned}
        if set(role.use) - {choice.backend for choice in planned}:
            return True
        if versions != {"embedded"} and set(role.versions) - versions:
            return True
    return False


def _same_subject(one: ExemptionSpec, other: ExemptionSpec) -> bool:
    if (one.server, one.check) != (other.server, other.check):
        return False
    return one.subject == other.subject or _takes_any(one.check)


def _takes_any(check: str) -> bool:
    ids = exemptable().get(check, ())
    return bool(ids) and all(CHECKS[item].subject == "any" for item in ids)


def _overlap(one: ExemptionSpec, other: ExemptionSpec) -> bool:
    if not one.backends or not other.backends:
        return True
    return any(_meet(a, b) for a in one.backends for b in other.backends)


def _meet(one: str, other: str) -> bool:
    """Whether two names of backends mean one cell: equal labels, or one within the other."""
    if "+" in one and "+" in other:
        return one == other
    return any(
        a == b or a == b.partition("@")[0] or b == a.partition("@")[0] for a in _parts(one) for b in _parts(other)
    )


def _parts(label: str) -> list[str]:
    return [part.rpartition("=")[2] for part in label.split("+")]


def _duplicates(entries: Sequence[ExemptionSpec], judge: _Judge) -> set[int]:
    """Reports every entry that repeats another, and gives their ids: they get no other verdict.

    An expired entry never stands for one that is in force.
    """
    repeats: set[int] = set()
    groups: dict[tuple[str, str, str], list[ExemptionSpec]] = {}
    for entry in entries:
        if not entry.problems:
            subject = "" if _takes_any(entry.check) else entry.subject
            groups.setdefault((entry.server, entry.check, subject), []).append(entry)
    for group in groups.values():
        ranked = sorted(group, key=judge.is_expired)  # stable: first those in force, each in the order of the files
        for index, entry in enumerate(ranked):
            first = next(
                (other for other in ranked[:index] if id(other) not in repeats and _overlap(entry, other)), None
            )
            if first is None:
                continue
            repeats.add(id(entry))
            judge.finding(
                "exemption/duplicate",
                entry,
                f"[{entry.server}.{entry.check}] {entry.subject} is excused at {first.place} already; keep one of them",
            )
    return repeats


def unknown_check(entry: ExemptionSpec) -> tuple[str, str] | None:
    """What is wrong with the check that an entry names, if anything: the id of the finding and its message."""
    checks = exemptable()
    if entry.check in checks:
        return None
    by_id = next((name for name, ids in checks.items() if entry.check in ids), None)
    if by_id is not None:
        return "exemption/malformed", f"the check is written {by_id!r}, not {entry.check!r}; it excuses nothing"
    if entry.check in CHECKS or entry.check in FAMILIES:
        family = entry.check.partition("/")[0]
        return (
            "exemption/malformed",
            f"{entry.check} takes no exemption; the family {family} can be lowered under [checks] in harness.toml",
        )
    known = sorted(checks)
    head = f"there is no check {entry.check!r} in this version{nearest(entry.check, known)}"
    return "exemption/stale", f"{head}; these can be excused: {', '.join(known)}"


class _Judge:
    """Judges one entry after the other."""

    def __init__(
        self,
        plan: Plan,
        by_server: Mapping[str, Sequence[CellLedger]],
        seen: Sequence[Seen],
        catalogues: Mapping[RunKey, Catalogue],
        parameters: Mapping[tuple[str, str], CellParameters],
        today: date,
        rerun: Rerun,
    ) -> None:
        self.plan, self.by_server, self.seen, self.today, self.rerun = plan, by_server, seen, today, rerun
        self.out = Verdicts()
        self.taken: set[int] = set()
        self.catalogues, self.parameters = catalogues, parameters
        self.without_output: dict[tuple[str, str], frozenset[str]] = {}  # cell -> subjects excused from a schema there
        self.projects = {project.server.name: project for project in plan.projects}
        self.checks = exemptable()

    def finding(self, check: str, entry: ExemptionSpec, message: str, *, still_needed: Sequence[str] = ()) -> None:
        """A verdict that is a finding, at the entry's place.

        Args:
            still_needed: Backends for which the entry may hold all the same: it is to be changed, not removed.
        """
        ledgers = self.by_server.get(entry.server, ())
        first = ledgers[0].cell.runs[0].key if ledgers and ledgers[0].cell.runs else None
        self.out.findings.append(
            Finding(
                check=check,
                severity=CHECKS[check].severity,
                server=entry.server,
                tool=entry.subject or None,
                file=entry.place.file,
                line=entry.place.line,
                message=message,
                evidence={
                    "check": entry.check,
                    "subject": entry.subject,
                    "reason": entry.reason,
                    **({"still_needed": list(still_needed)} if still_needed else {}),
                },
                source=CHECKS[check].source,
                rerun=self.rerun(first, None) if first is not None else "",
            )
        )

    def undecided(self, entry: ExemptionSpec, why: str, own: bool) -> None:
        """An entry of which nothing can be said."""
        self.out.not_judged.append(
            NotJudged(
                check=entry.check,
                server=entry.server,
                subject=entry.subject,
                why=why,
                own=own,
                file=entry.place.file,
                line=entry.place.line,
            )
        )

    def is_expired(self, entry: ExemptionSpec) -> bool:
        """Whether its last good day is over."""
        try:
            return entry.expires is not None and date.fromisoformat(entry.expires) < self.today
        except ValueError:
            return False

    def entry(self, entry: ExemptionSpec) -> None:
        """Every verdict on one entry."""
        if entry.problems:
            self.finding("exemption/malformed", entry, f"{'; '.join(entry.problems)}; the entry excuses nothing")
            return
        if (said := unknown_check(entry)) is not None:
            self.finding(said[0], entry, said[1])
            return
        if entry.server not in self.plan.servers:
            hint = nearest(entry.server, self.plan.servers)
            self.finding("exemption/stale", entry, f"there is no server {entry.server!r}{hint}")
            return
        expired = self.is_expired(entry)
        if expired:
            what = f"{entry.check} of {entry.subject}"
            self.finding(
                "exemption/expired",
                entry,
                f"{entry.expires} was its last day; until then it excused {what}: {entry.reason}",
            )
        ledgers = self.by_server.get(entry.server, ())
        if not ledgers:
            if not expired:
                self.undecided(entry, "the server was not selected", True)
            return
        scope = self._scope(entry, ledgers)
        if scope is None:
            return
        if not scope:
            if not expired:
                self.undecided(entry, f"no selected run has the backend {' or '.join(entry.backends)}", True)
        elif _takes_any(entry.check):
            self._of_process(entry, scope, ledgers, expired)
        elif entry.check == OUTPUT_SCHEMA:
            self._of_output_schema(entry, scope, ledgers, expired)
        elif entry.check == PARAMETERS:
            self._of_parameter(entry, scope, ledgers, expired)
        else:
            self._of_tool(entry, scope, ledgers, expired)

    def _scope(self, entry: ExemptionSpec, ledgers: Sequence[CellLedger]) -> list[CellLedger] | None:
        """The cells that an entry speaks of; None where all its backends are gone, which is reported."""
        if not entry.backends:
            return list(ledgers)
        choices = _choices(self.projects.get(entry.server), ledgers)
        gone = [item for item in entry.backends if item not in choices]
        if gone:
            hint = nearest(gone[0], choices)
            known = f"; it has {', '.join(sorted(choices))}" if choices else "; it has no backend"
            self.finding(
                "exemption/stale",
                entry,
                f"{entry.server} has no backend {' or '.join(map(repr, gone))}{hint}{known}",
                still_needed=[item for item in entry.backends if item not in gone],
            )
            if len(gone) == len(entry.backends):
                return None
        return [ledger for ledger in ledgers if not set(entry.backends).isdisjoint(cell_names(ledger.cell.roles))]

    def _of_tool(
        self, entry: ExemptionSpec, scope: Sequence[CellLedger], ledgers: Sequence[CellLedger], expired: bool
    ) -> None:
        tool = entry.subject
        listed = [ledger for ledger in scope if tool in ledger.listed]
        happened = [ledger for ledger in listed if ledger.fates[tool] == "succeeded"]
        if happened:
            rest = [ledger.cell.backend for ledger in scope if ledger not in happened and _still_needed(ledger, tool)]
            more = self._may_be_needed(entry, ledgers)
            self.finding("exemption/false", entry, _false(entry, happened, rest, more=more), still_needed=rest)
        if not listed:
            self._unlisted(entry, scope, ledgers, expired)
            return
        open_cells = [ledger for ledger in listed if ledger.fates[tool] != "succeeded"]
        if expired:
            return
        for ledger in open_cells:
            key = (entry.server, ledger.cell.backend)
            self.out.tools[key] = self.out.tools.get(key, frozenset()) | {tool}
        if happened:
            return
        if any(ledger.judged for ledger in open_cells):
            self._used(entry)
        else:
            self.undecided(entry, *_first_obstacle(open_cells))

    def _used(self, entry: ExemptionSpec) -> None:
        self.out.excused.append(
            Excused(
                check=entry.check,
                server=entry.server,
                subject=entry.subject,
                reason=entry.reason,
                file=entry.place.file,
                line=entry.place.line,
                backend=", ".join(entry.backends) or None,
            )
        )

    def _unlisted(
        self, entry: ExemptionSpec, scope: Sequence[CellLedger], ledgers: Sequence[CellLedger], expired: bool
    ) -> None:
        """An entry for a tool that no cell in its scope lists."""
        elsewhere = [ledger.cell.backend for ledger in ledgers if entry.subject in ledger.listed]
        blocked = [ledger for ledger in scope if not ledger.judged]
        if blocked:
            if not expired:
                self.undecided(entry, *_first_obstacle(blocked))
        elif _cells_left_out(self.plan, self.projects.get(entry.server), ledgers):
            if not expired:
                self.undecided(entry, "backends were left out by the selection", True)
        elif not all(ledger.lists_whole for ledger in scope):
            if not expired:  # exercised/list-failed says why, so this is no gap of its own
                self.undecided(entry, "the list of tools is not whole", True)
        elif elsewhere:
            self.finding(
                "exemption/stale",
                entry,
                f"{entry.subject} is not in tools/list with {' or '.join(entry.backends)}, "
                f"only with {', '.join(elsewhere)}",
            )
        else:
            hint = nearest(entry.subject, frozenset().union(*(ledger.listed for ledger in ledgers)))
            self.finding("exemption/stale", entry, f"{entry.server} lists no tool {entry.subject!r}{hint}")

    def _may_be_needed(self, entry: ExemptionSpec, ledgers: Sequence[CellLedger]) -> bool:
        """Whether an entry speaks of cells that the selection left out, so that it may be true there."""
        if entry.backends and set(entry.backends) <= {ledger.cell.backend for ledger in ledgers}:
            return False  # whole cells, and all of them are here
        return _cells_left_out(self.plan, self.projects.get(entry.server), ledgers)

    def _of_process(
        self, entry: ExemptionSpec, scope: Sequence[CellLedger], ledgers: Sequence[CellLedger], expired: bool
    ) -> None:
        cells = {(ledger.cell.server, ledger.cell.backend) for ledger in scope}
        ids = self.checks[entry.check]
        mine = {
            index
            for index, item in enumerate(self.seen)
            if item.check in ids and (item.run.server, item.run.backend) in cells
        }
        if mine:
            if not expired:
                self.taken |= mine
                self._used(entry)
        elif self._may_be_needed(entry, ledgers):
            if not expired:
                self.undecided(entry, "backends were left out by the selection", True)
        elif not any(was_asked(view, entry.check) for ledger in ledgers for view in ledger.views):
            if not expired:
                self.undecided(entry, "no process of the server answered the probe that shows it", self.plan.partial)
        elif all(ledger.judged for ledger in scope):
            runs = sum(len(ledger.views) for ledger in scope)
            times = "one run" if runs == 1 else f"{runs} runs"
            self.finding("exemption/false", entry, f"{entry.check} did not happen in {times}; remove the entry")
        elif not expired:
            self.undecided(entry, *_first_obstacle(scope))

    def _of_output_schema(
        self, entry: ExemptionSpec, scope: Sequence[CellLedger], ledgers: Sequence[CellLedger], expired: bool
    ) -> None:
        """An entry that excuses a tool, or with `*` a server none of whose tools has one, from an output schema."""
        tool, every = entry.subject, entry.subject == EVERY
        listed = [ledger for ledger in scope if (ledger.listed if every else tool in ledger.listed)]
        if not listed:
            if every and not expired:
                blocked = [ledger for ledger in scope if not ledger.judged]
                self.undecided(entry, *(_first_obstacle(blocked) if blocked else ("no tool is listed", True)))
            elif not every:
                self._unlisted(entry, scope, ledgers, expired)
            return
        facts = {ledger.cell.backend: self._output_schemas(ledger) for ledger in listed}
        open_cells, happened = [], []
        for ledger in listed:
            lacking, having = facts[ledger.cell.backend]
            if (lacking and not having) if every else tool in lacking:
                open_cells.append(ledger)
            elif ledger.judged or (every and having):
                happened.append(ledger)
        if happened:
            rest = [ledger.cell.backend for ledger in scope if ledger not in happened and _still_needed(ledger, tool)]
            self.finding("exemption/false", entry, self._not_lacking(entry, happened, facts, rest), still_needed=rest)
        if expired:
            return
        for ledger in open_cells:
            key = (entry.server, ledger.cell.backend)
            self.without_output[key] = self.without_output.get(key, frozenset()) | {tool}
        if open_cells and not happened:
            self._used(entry)
        elif not happened:
            self.undecided(entry, *_first_obstacle(listed))

    def _of_parameter(
        self, entry: ExemptionSpec, scope: Sequence[CellLedger], ledgers: Sequence[CellLedger], expired: bool
    ) -> None:
        """An entry `"tool.parameter"`: it speaks of that parameter, its parts, its values and its forms."""
        tools = sorted(frozenset().union(*(ledger.listed for ledger in ledgers)), key=len, reverse=True)
        tool = next((name for name in tools if entry.subject.startswith(f"{name}.")), "")
        known = {ledger.cell.backend: self._parameters(ledger, tool) for ledger in scope}
        name = entry.subject.removeprefix(f"{tool}.")
        mine = {cell: {key: used for key, used in items.items() if covers(name, key)} for cell, items in known.items()}
        if not any(mine.values()):
            blocked = [ledger for ledger in scope if not ledger.judged]
            if blocked or not all(ledger.lists_whole for ledger in scope):
                if not expired:
                    self.undecided(entry, *(_first_obstacle(blocked) if blocked else ("the list is not whole", True)))
                return
            names = frozenset().union(*known.values())
            said = f"{tool} has no parameter {name!r}{nearest(name, names)}"
            if not tool:
                said = f'{entry.server} lists no tool that {entry.subject!r} begins with; write "tool.parameter"'
            self.finding("exemption/stale", entry, said)
            return
        happened = [ledger for ledger in scope if (items := mine[ledger.cell.backend]) and all(items.values())]
        open_cells = [ledger for ledger in scope if not all(mine[ledger.cell.backend].values())]
        if happened:
            rest = [ledger.cell.backend for ledger in scope if ledger in open_cells or not known[ledger.cell.backend]]
            where = f" with {', '.join(ledger.cell.backend for ledger in happened)}" if rest else ""
            tail = f"write `backend = [{', '.join(map(json.dumps, rest))}]`" if rest else "remove the entry"
            said = f"{entry.subject} was used by an answered call after all{where}; {tail}"
            self.finding("exemption/false", entry, said, still_needed=rest)
        if expired:
            return
        for ledger in open_cells:
            key = (entry.server, ledger.cell.backend)
            unused = {(tool, item) for item, used in mine[ledger.cell.backend].items() if not used}
            self.out.parameters[key] = self.out.parameters.get(key, frozenset()) | unused
        if happened:
            return
        if any(ledger.judged for ledger in open_cells):
            self._used(entry)
        else:
            self.undecided(entry, *_first_obstacle(open_cells))

    def _parameters(self, ledger: CellLedger, tool: str) -> Mapping[str, bool]:
        found = self.parameters.get((ledger.cell.server, ledger.cell.backend))
        return {} if found is None else found.known.get(tool, {})

    def _output_schemas(self, ledger: CellLedger) -> tuple[frozenset[str], frozenset[str]]:
        """Tools that some run of a cell lists without an output schema, and tools that some run lists with one."""
        lacking: set[str] = set()
        having: set[str] = set()
        for view in ledger.views:
            catalogue = self.catalogues[view.run.key]
            if has_output_schemas(catalogue.protocol):
                for item in catalogue.tools:
                    (having if declares(item) else lacking).add(item.name)
        return frozenset(lacking), frozenset(having)

    def _not_lacking(
        self,
        entry: ExemptionSpec,
        happened: Sequence[CellLedger],
        facts: Mapping[str, tuple[frozenset[str], frozenset[str]]],
        rest: Sequence[str],
    ) -> str:
        where = f" with {', '.join(ledger.cell.backend for ledger in happened)}" if rest else ""
        tail = f"write `backend = [{', '.join(json.dumps(name) for name in rest)}]`" if rest else "remove the entry"
        lacking = sorted(frozenset().union(*(facts[ledger.cell.backend][0] for ledger in happened)))
        having = sorted(frozenset().union(*(facts[ledger.cell.backend][1] for ledger in happened)))
        if not lacking and not having:
            return f"the revision in force{where} has no output schemas, so that nothing lacks one; {tail}"
        if entry.subject != EVERY:
            return f"{entry.subject} declares an output schema after all{where}; {tail}"
        verb = "declares" if len(having) == 1 else "declare"
        named = f"; name the tools that have none: {', '.join(lacking)}" if lacking and not rest else f"; {tail}"
        return f"{', '.join(having[:5])} {verb} an output schema after all{where}{named}"


def _lacking(seen: Iterable[Seen], excused: Mapping[tuple[str, str], frozenset[str]]) -> Iterator[Seen]:
    """The sightings less those of output schemas that are excused; what is said of a whole server is said of all runs.

    Args:
        excused: (server, cell) -> tools, or `*`.
    """
    whole: dict[str, tuple[set[str], set[str]]] = {}  # server -> tools without a schema, those of them not excused
    left: list[Seen] = []
    for item in seen:
        if item.check == "output-schema/missing":
            names = excused.get((item.run.server, item.run.backend), frozenset())
            tools = set(item.evidence.get("tools", ()))
            if (item.tool if item.tool is not None else EVERY) in names or (tools and tools <= names):
                continue
            if item.tool is None:
                all_tools, open_ones = whole.setdefault(item.run.server, (set(), set()))
                all_tools |= tools
                open_ones |= tools - names
        left.append(item)
    for item in left:
        if item.check == "output-schema/missing" and item.tool is None:
            server = item.run.server
            all_tools, open_ones = whole[server]
            message = lacking_message(sorted(open_ones), len(all_tools), server)
            yield replace(item, message=message, evidence={**item.evidence, "tools": sorted(open_ones)})
        else:
            yield item


def _first_obstacle(ledgers: Iterable[CellLedger]) -> tuple[str, bool]:
    """Why, and whether by the user's own selection alone."""
    reasons = [reason for ledger in ledgers for reason in ledger.obstacles]
    foreign = [why for why, own in reasons if not own]
    return (foreign[0], False) if foreign else (reasons[0][0], True)


def _choices(project: ProjectSpec | None, ledgers: Sequence[CellLedger]) -> frozenset[str]:
    """Every backend that a project could be run with, selected or not, as entries may write it."""
    known = known_names(project.roles, project.backends) if project is not None else frozenset[str]()
    return known.union(*(cell_names(ledger.cell.roles) for ledger in ledgers if ledger.cell.roles))


def _false(entry: ExemptionSpec, happened: Sequence[CellLedger], rest: Sequence[str], *, more: bool) -> str:
    tool = entry.subject
    where = sorted({_where(ledger, tool) for ledger in happened})
    cases = sorted({name for text in where for name in [text] if name})
    shown = f" ({', '.join(cases[:3])})" if cases else ""
    cells = ", ".join(ledger.cell.backend for ledger in happened)
    if more:
        also = f", not with {', '.join(rest)}" if rest else ""
        advice = "judge all backends before changing the entry, the selection left some out"
        return f"{tool} was exercised with {cells}{shown}{also}; {advice}"
    if not rest:
        return f"{tool} was exercised after all{shown}; remove the entry"
    wanted = ", ".join(f'"{name}"' for name in rest)
    return f"{tool} was exercised with {cells}{shown}, not with {', '.join(rest)}; write `backend = [{wanted}]`"


def _still_needed(ledger: CellLedger, tool: str) -> bool:
    return tool in ledger.listed or not ledger.judged


def _where(ledger: CellLedger, tool: str) -> str:
    """The first case that exercised a tool."""
    names = sorted(use.case for use in ledger.uses.get(tool, ()) if use.case and use.verdict == "succeeded")
    return names[0] if names else ""
