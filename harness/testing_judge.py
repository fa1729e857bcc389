"""What recorded calls and lists of tools show: coverage, output schemas, portability, manners, as the gate judges them.

There is one judge (`harness.findings`); this is a door to it for servers of a test's own, without a project around.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from harness.errors import CoverageError, MisuseError
from harness.model.finding import Finding, Judgement
from harness.model.plan import (
    Cell,
    CheckSettings,
    Era,
    ExemptionSpec,
    Level,
    Place,
    Plan,
    ProfileSpec,
    ProjectSpec,
    Run,
    RunKey,
    ServerSpec,
)
from harness.model.transcript import Evidence, RunRecord, Sent, Transcript

__all__ = [
    "Exempt",
    "Judged",
    "ToolCoverage",
    "expect_clean_wire",
    "expect_every_tool_declares_output_schema",
    "expect_every_tool_exercised",
    "expect_portable_tool_schemas",
    "tool_coverage",
]

PLACE = "exempt"  # where an exemption stands that is given as an argument
_META = "io.modelcontextprotocol/"


class Judged(Protocol):
    """A server of `start_server`, of either door."""

    @property
    def name(self) -> str:
        """As it was given to `start_server`."""

    @property
    def transcript(self) -> Path:
        """The file in which everything is recorded."""


Exempt = Mapping[str, str] | Path | str | None
Source = Judged | Path | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCoverage:
    """What became of every tool that was listed; each is exactly one of five.

    Attributes:
        findings: What is wrong, as the gate would say it.
    """

    succeeded: tuple[str, ...] = ()
    refused_only: tuple[str, ...] = ()
    failed_only: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def listed(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted((*self.succeeded, *self.refused_only, *self.failed_only, *self.excused, *self.missing)))

    @property
    def headline(self) -> str:
        """`N of M tools exercised, K excused`."""
        return f"{len(self.succeeded)} of {len(self.listed)} tools exercised, {len(self.excused)} excused"


def tool_coverage(
    *servers: Source, exempt: Exempt = None, name: str | None = None, level: Level = "succeeded"
) -> ToolCoverage:
    """What became of every tool, over all that several servers recorded (one that can be asked, one that cannot …).

    Args:
        servers: Servers that stand, or folders given as `evidence=`.
        exempt: Tool -> reason why no test can call it; or an exemptions.toml, of which the entries of `name` count.
        level: "succeeded", "answered" or "attempted".
    Raises:
        MisuseError: There is nothing recorded, or no list of tools in it.
    """
    judgement = _judged(servers, exempt, name, check="exercised", level=level)
    fates = [fate for cell in judgement.coverage for fate in cell.fates]
    of = {
        kind: tuple(fate.tool for fate in fates if fate.fate == kind)
        for kind in ("succeeded", "refused-only", "failed-only", "excused", "missing")
    }
    return ToolCoverage(
        succeeded=of["succeeded"],
        refused_only=of["refused-only"],
        failed_only=of["failed-only"],
        excused=of["excused"],
        missing=of["missing"],
        findings=_of(judgement, ("exercised", "exemption"), warnings=False),
    )


def expect_every_tool_exercised(
    *servers: Source, exempt: Exempt = None, name: str | None = None, level: Level = "succeeded"
) -> ToolCoverage:
    """Nothing happens if every listed tool was called with success, or is excused; gives the sums.

    Args: As `tool_coverage`.
    Raises:
        CoverageError: All of what is missing, failed, refused only, called and not listed; and all entries of `exempt`
            that are false, stale or without a reason.
    """
    found = tool_coverage(*servers, exempt=exempt, name=name, level=level)
    _refuse(found.headline, found.findings)
    return found


def expect_every_tool_declares_output_schema(*servers: Source, exempt: Exempt = None, name: str | None = None) -> None:
    """Nothing happens if every listed tool declares an output schema, and every recorded result is as declared.

    Args:
        exempt: Tool -> reason why it can declare none ("*" for all of them); a mismatch is never excused.
    Raises:
        CoverageError: All that is missing, is no schema of an object, or is not kept.
    """
    judgement = _judged(servers, exempt, name, check="output-schema")
    findings = _of(judgement, ("output-schema", "exemption"), warnings=False)
    excused = {item.subject for item in judgement.excused}
    bad = {item.tool for item in findings if item.check.startswith("output-schema")}
    count = f"{len(bad)} of {_tools(judgement)}"
    _refuse(f"{count} tools are not right about what they give, {len(excused)} excused", findings)


def expect_portable_tool_schemas(*servers: Source, name: str | None = None, warnings: bool = False) -> None:
    """Nothing happens if the schemas of every listed tool, as received, are read alike by all clients.

    There is no exemption: each finding has a spelling that says the same.

    Args:
        warnings: Those count too.
    Raises:
        CoverageError: Each place in each schema, with its pointer.
    """
    judgement = _judged(servers, None, name, check="portability")
    tools = sum(cell.tools for cell in judgement.coverage)
    findings = _of(judgement, ("portability", "validity", "names"), warnings=warnings)
    _refuse(
        f"{len({item.tool for item in findings})} of {tools} tools have schemas that clients read differently", findings
    )


def expect_clean_wire(*servers: Source, name: str | None = None, warnings: bool = False) -> None:
    """Nothing happens if all that came on stdout was MCP, each request got its one answer, and processes ended well.

    Args:
        servers: How a server ends is judged once it is closed, which takes a folder given as `evidence=`.
    Raises:
        CoverageError: Each line that should not be there, with its bytes and the call in flight; each crash and orphan.
    """
    judgement = _judged(servers, None, name, check="wire", listed=False)
    findings = _of(judgement, ("wire", "process"), warnings=warnings)
    _refuse("the wire is not clean", findings)


def _tools(judgement: Judgement) -> int:
    return sum(cell.tools for cell in judgement.coverage)


def _refuse(headline: str, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    lines = [f"{headline}; {len(findings)} finding{'s' if len(findings) > 1 else ''}:"]
    for finding in findings:
        where = f" {finding.file}:{finding.line}" if finding.line is not None else ""
        subject = finding.tool if finding.tool and not finding.message.startswith(finding.tool) else ""
        lines.append(f"  {finding.check}{where}: {f'{subject}: ' if subject else ''}{finding.message}")
    raise CoverageError("\n".join(lines), tuple(findings))


def _of(judgement: Judgement, families: Sequence[str], *, warnings: bool) -> tuple[Finding, ...]:
    return tuple(
        item
        for item in judgement.findings
        if item.check.partition("/")[0] in families and (warnings or item.severity == "error")
    )


# --- a plan of what was recorded ------------------------------------------------------------------


def _judged(
    servers: Sequence[Source],
    exempt: Exempt,
    name: str | None,
    *,
    check: str,
    level: Level = "succeeded",
    listed: bool = True,
) -> Judgement:
    from harness.findings.judge import judge

    name = name or next((item.name for item in servers if not isinstance(item, str | Path) and item.name), "server")
    transcripts = [item for source in servers for item in _transcripts(source)]
    if not transcripts:
        raise MisuseError("nothing was recorded: give servers, or the folders that they were given as evidence=")
    groups: dict[tuple[Era, str], list[Transcript]] = {}
    for transcript in transcripts:
        groups.setdefault(_spoken_in(transcript), []).append(transcript)
    for (era, capabilities), found in groups.items():
        if listed and not any(_lists(item) for item in found):
            raise MisuseError(
                f"no server of the {era} era with the client capabilities {capabilities} was asked for its list of "
                "tools, and what is not listed cannot be judged",
                hint="call tools() once, in a test or in the fixture that starts the server",
            )
    runs, evidence = [], []
    for number, ((era, capabilities), found) in enumerate(groups.items(), 1):
        key = RunKey(server=name, backend="none", era=era, profile=f"client-{number}")
        runs.append(
            Run(
                key=key,
                roles=(),
                runtime=None,
                profile=ProfileSpec(name=key.profile),
                eras_probed=True,
                cases=(),
                selected=(),
                fingerprint="",
            )
        )
        record = RunRecord(
            key=key, plan="", runtime=None, outcome="finished", client_capabilities=json.loads(capabilities)
        )
        evidence.append(Evidence(record=record, transcripts=tuple(found), folder=f"/{number}"))
    place = Place(file=PLACE)
    settings = CheckSettings(exercised=level)
    project = ProjectSpec(
        root=Path.cwd(), place=place, server=ServerSpec(name=name, command=("server",)), checks=settings
    )
    entries = _entries(exempt, name, check)
    plan = Plan(
        projects=(project,),
        cells=(Cell(server=name, backend="none", roles=(), runs=tuple(runs)),),
        exemptions=entries,
        servers=(name,),
    )
    judgement = judge(plan, evidence, missing=(), today=datetime.now(UTC).date(), rerun=_no_command)
    unknown = [item for item in judgement.not_judged if item.check.partition("/")[0] == check.partition("/")[0]]
    if unknown and listed:
        raise CoverageError("it cannot be judged:\n" + "\n".join(f"  {item.check}: {item.why}" for item in unknown))
    return judgement


def _no_command(_run: RunKey, _case: str | None) -> str:
    """What shows a finding again: the test itself."""
    return ""


def _lists(transcript: Transcript) -> bool:
    return any(isinstance(event, Sent) and event.label == "tools/list" for event in transcript.events)


def _transcripts(source: Source) -> Iterable[Transcript]:
    from harness.engine.evidence import read_transcript

    if isinstance(source, str | Path):
        folder = Path(source)
        paths = sorted(folder.glob("outside-*.jsonl"))
        if not paths:
            raise MisuseError(f"there is no transcript in {folder}; give the folder that was given as evidence=")
    else:
        paths = [source.transcript]
        if not paths[0].is_file():
            raise MisuseError(
                "this server is closed, and what it recorded went with it",
                hint="judge it before it is closed, or start it with evidence=FOLDER and give that folder",
            )
    yield from (read_transcript(path) for path in paths)


def _spoken_in(transcript: Transcript) -> tuple[Era, str]:
    """Era and capabilities of the client, as the first request says them."""
    for event in transcript.events:
        if not isinstance(event, Sent):
            continue
        try:
            message = json.loads(event.body.data)
        except ValueError:
            continue
        params: Any = message.get("params", {})
        if message.get("method") == "initialize":
            return "handshake", json.dumps(params.get("capabilities", {}), sort_keys=True)
        meta = params.get("_meta", {}) if isinstance(params, dict) else {}
        if f"{_META}protocolVersion" in meta:
            return "modern", json.dumps(meta.get(f"{_META}clientCapabilities", {}), sort_keys=True)
    return "handshake", "{}"


def _entries(exempt: Exempt, name: str, check: str) -> tuple[ExemptionSpec, ...]:
    if exempt is None:
        return ()
    if isinstance(exempt, str | Path):
        from harness.config.exemptions import read_exemptions

        path = Path(exempt)
        found = read_exemptions(path, base=Path.cwd())
        return tuple(entry for entry in found if entry.server == name and entry.check == check)
    from harness.config.reasons import placeholder

    return tuple(
        ExemptionSpec(
            server=name,
            check=check,
            subject=tool,
            reason=reason,
            place=Place(file=PLACE),
            problems=tuple(filter(None, [placeholder(reason, tool)])),
        )
        for tool, reason in exempt.items()
    )
