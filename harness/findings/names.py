"""Whether tool names survive on their way to a model: characters, length with the prefix of a client, and look-alikes.

The specification recommends 1 to 128 letters, digits, `_`, `-` and `.` (since 2025-11-25; nothing before). Providers
take less, and refuse not the one tool but the request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from harness.findings.remark import Remark
from harness.model.catalogue import Catalogue, ToolDef

__all__ = ["MANY_TOOLS", "MAX_NAME", "MAX_PREFIXED", "SPEC_MAX_NAME", "TOO_MANY_TOOLS", "check_names"]

SPEC_MAX_NAME = 128
MAX_NAME = 64  # Anthropic, OpenAI, Gemini
MAX_PREFIXED = (
    # client, what it makes of a tool's name, the longest it takes
    ("claude-code", "mcp__{server}__{tool}", 64),
    ("cursor", "{server}{tool}", 60),
)
MANY_TOOLS = 40  # Cursor hands the first 40 to a model
TOO_MANY_TOOLS = 128  # OpenAI and VS Code refuse more
MAX_LISTED = 20  # names in one message

_PORTABLE = re.compile(r"[a-zA-Z0-9_-]+")
_PLAIN_START = re.compile(r"[a-zA-Z_]")
_QUOTED = 80


def check_names(catalogue: Catalogue) -> Iterator[Remark]:
    """What clients make of the names of a catalogue's tools."""
    for tool in catalogue.tools:
        if not tool.name:
            yield _nameless(tool)
            continue
        yield from _characters(tool)
        yield from _length(tool, catalogue.server)
    yield from _twice(catalogue)
    yield from _look_alikes(catalogue)
    yield from _many(catalogue)


def _nameless(tool: ToolDef) -> Remark:
    stated = tool.definition.get("name")
    said = "is empty" if stated == "" else "is missing" if stated is None else f"is no text but {type(stated).__name__}"
    return Remark(
        check="names/empty",
        pointer=f"/tools/{tool.index}/name",
        kind="a tool without a name",
        message=(
            f"a tool without a name: the name of tool {tool.index + 1} of the list {said}. Nobody can call it, and the "
            "official SDKs refuse the whole list where it is no text. Give it a name."
        ),
        evidence={"clients": ["mcp-typescript-sdk", "mcp-python-sdk"], "index": tool.index},
    )


def _characters(tool: ToolDef) -> Iterator[Remark]:
    name = tool.name
    odd = next((char for char in name if not _PORTABLE.fullmatch(char)), "")
    if odd == "." and all(char == "." or _PORTABLE.fullmatch(char) for char in name):
        yield _named(
            tool,
            "names/characters",
            "a dot in a tool name",
            "the specification allows it; OpenAI's and Anthropic's APIs take letters, digits, _ and - only, so clients "
            "rename the tool or lose it. Write _ instead",
            ["openai-api", "anthropic-api"],
            severity="warning",
        )
    elif odd:
        odd = next(char for char in name if not _PORTABLE.fullmatch(char) and char != ".")
        yield _named(
            tool,
            "names/characters",
            "a tool name with other characters than letters, digits, _ and -",
            f"the first is {odd!r}. The specification recommends letters, digits, _ - and . (since "
            f"2025-11-25); OpenAI's "
            "and Anthropic's APIs refuse the request, and clients rename the tool or drop it. Write "
            "letters, digits and _",
            ["openai-api", "anthropic-api", "gemini-api", "claude-code", "vscode-copilot"],
        )
    elif not _PLAIN_START.match(name):
        yield _named(
            tool,
            "names/characters",
            "a tool name that begins with no letter",
            "Gemini takes names that begin with a letter or _ only. Begin it with a letter",
            ["gemini-api", "vertex"],
            severity="warning",
        )


def _length(tool: ToolDef, server: str) -> Iterator[Remark]:
    size = len(tool.name)
    if size > MAX_NAME:
        more = f"; the specification recommends {SPEC_MAX_NAME} at most" if size > SPEC_MAX_NAME else ""
        yield _named(
            tool,
            "names/length",
            f"a tool name of more than {MAX_NAME} characters",
            f"it has {size}{more}. Anthropic's, OpenAI's and Gemini's APIs take {MAX_NAME} and refuse the request. "
            "Shorten it",
            ["anthropic-api", "openai-api", "gemini-api"],
        )
        return
    short = re.sub(r"[^a-zA-Z0-9_-]", "_", server)
    for client, form, limit in MAX_PREFIXED:
        whole = form.format(server=short, tool=tool.name)
        if len(whole) > limit:
            yield _named(
                tool,
                "names/prefixed-length",
                "a tool name that is too long with the server's",
                f"{client} sends {whole!r}, {len(whole)} characters of {limit} ({len(short)} are the "
                f"server's name, which "
                "its user may choose otherwise). Shorten it, or recommend a short name for the server",
                [client],
                severity="warning",
            )
            return


def _named(
    tool: ToolDef, check: str, kind: str, message: str, clients: list[str], *, severity: str | None = None
) -> Remark:
    name = tool.name if len(tool.name) <= _QUOTED else tool.name[:_QUOTED] + "…"
    return Remark(
        check=check,
        tool=tool.name,
        pointer="/name",
        kind=kind,
        severity="warning" if severity == "warning" else None,
        spelling=repr(name),
        message=f"{kind}: {name!r}: {message}.",
        evidence={"clients": clients},
    )


def _twice(catalogue: Catalogue) -> Iterator[Remark]:
    counts = Counter(tool.name for tool in catalogue.tools if tool.name)
    for name, count in counts.items():
        if count > 1:
            places = [tool.index for tool in catalogue.tools if tool.name == name]
            shown = ", ".join(str(place + 1) for place in places[:MAX_LISTED])
            yield Remark(
                check="names/duplicate",
                tool=name,
                pointer="/name",
                kind="a name that several tools have",
                spelling=repr(name[:_QUOTED]),
                message=(
                    f"a name that several tools have: {name[:_QUOTED]!r} stands {count} times in the list "
                    f"(places {shown}). "
                    "Clients keep one of them, or refuse the request ('tool names must be unique'). "
                    "Rename or remove the "
                    "others."
                ),
                evidence={"clients": ["anthropic-api", "openai-api", "gemini-api"], "places": places[:MAX_LISTED]},
            )


def _look_alikes(catalogue: Catalogue) -> Iterator[Remark]:
    """Names that clients fold into one: by case, or by what stands for characters that they do not take."""
    groups: dict[str, dict[str, None]] = {}
    for tool in catalogue.tools:
        if tool.name:
            groups.setdefault(re.sub(r"[^a-z0-9]", "_", tool.name.lower()), {})[tool.name] = None
    for names in groups.values():
        if len(names) > 1:
            several = sorted(names)
            shown = ", ".join(repr(name[:_QUOTED]) for name in several[:MAX_LISTED])
            by = "case" if len({name.lower() for name in several}) == 1 else "a character that clients replace by _"
            yield Remark(
                check="names/look-alike",
                tool=several[0],
                pointer="/name",
                kind="tool names that differ little",
                spelling=shown,
                message=(
                    f"tool names that differ little: {shown} differ only by {by}. Clients that fold names "
                    f"take one for the "
                    "other, and so do models. Name them apart."
                ),
                evidence={"clients": ["vscode-copilot", "cursor"], "names": several[:MAX_LISTED]},
            )


def _many(catalogue: Catalogue) -> Iterator[Remark]:
    count = len({tool.name for tool in catalogue.tools if tool.name})
    if count <= MANY_TOOLS:
        return
    over = [f"Cursor hands {MANY_TOOLS} tools of all servers to a model and leaves the rest out"]
    clients = ["cursor"]
    if count > TOO_MANY_TOOLS:
        over.append(f"OpenAI's API and VS Code refuse more than {TOO_MANY_TOOLS}")
        clients += ["openai-api", "vscode-copilot"]
    yield Remark(
        check="names/too-many",
        kind="more tools than clients take",
        message=(
            f"more tools than clients take: {count:,} tools. {'; '.join(over)}. Offer fewer at a time: "
            f"merge tools that do "
            "one thing, or let the user choose toolsets."
        ),
        evidence={"clients": clients, "tools": count},
    )
