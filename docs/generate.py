"""Makes the reference pages from the code: `python docs/generate.py`; --check only says whether they are true."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reference"
NOTE = "<!-- made by docs/generate.py; do not edit -->\n\n"
FILES = {
    "harness": "`harness.toml`, beside the sources of the server.",
    "suite": "A suite: the files that `[suites] files` names.",
    "backend": "`backends/<name>/backend.toml`, in the repository or shipped.",
    "exemptions": "`exemptions.toml`.",
    "rollout": "`rollout.toml`, the list of `mcp-rollcall rollout`.",
    "contract": "`contract.json`, where `contract` in harness.toml names it; JSON, and written by a command.",
}
COMMANDS = (
    "check",
    "plan",
    "build",
    "run",
    "integration",
    "judge",
    "exemptions",
    "exemptions prune",
    "exemptions propose",
    "exemptions list",
    "proxy",
    "evidence show",
    "evidence to-suite",
    "tools check",
    "tools snapshot",
    "tools diff",
    "tools accept",
    "backends list",
    "backends show",
    "backends try",
    "rollout",
    "rollout judge",
    "rollout plan",
    "rollout merge",
    "reap",
    "doctor",
)
DOCUMENTS = {
    "exemptions list": "exemption-list",
    "tools diff": "contract-diff",
    "backends show": "backends",
    "backends try": "backend-try",
}


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def checks() -> str:
    sys.path.insert(0, str(ROOT))
    from harness.model.checks import CHECKS, OFF_BY_DEFAULT, family_of

    out = [
        "# The checks\n",
        NOTE,
        "Severity `error` fails the run; `warning` is listed and fails it with `--strict`. `[checks]` in harness.toml\n"
        'lowers a whole family (`wire = "warning"`) or sets one check by its full id, which goes before its family\n'
        '(`"wire/empty-cursor" = "off"`, `"process/late-exit" = "error"`); every report lists what was lowered. The\n'
        "families `exercised` and `exemption` always count. *Excused as* names the table of an exemption; what has\n"
        "none cannot be excused. *Off* are families that are judged only where `[checks]` names them or one of their\n"
        'checks, e.g. `strict = "warning"`.\n\n',
        "| check | severity | fires on | excused as | source |\n|---|---|---|---|---|\n",
    ]
    for item in sorted(CHECKS.values(), key=lambda check: check.id):
        excused = f"`{item.exempt}`" if item.exempt else ""
        off = " (off)" if family_of(item.id) in OFF_BY_DEFAULT else ""
        out.append(f"| `{item.id}` | {item.severity}{off} | {cell(item.fires)} | {excused} | {cell(item.source)} |\n")
    return "".join(out)


def portable() -> str:
    from harness.findings.names import MANY_TOOLS, MAX_NAME, MAX_PREFIXED, TOO_MANY_TOOLS
    from harness.findings.portable_examples import EXAMPLES, ROOT
    from harness.findings.portable_words import KINDS

    out = [
        "# Portable schemas and names\n",
        NOTE,
        "A schema can be right and still lose its tool: providers take less than JSON Schema allows, and many clients\n"
        "hand a schema on as it is. The family `portability` finds such spellings in what goes over the wire; each\n"
        "has an equivalent one that all take. *Error*: an official SDK or a provider refuses it in its ordinary path.\n"
        "*Warning*: old clients, one converter, or Gemini's OpenAPI-style path, where the client does not help.\n"
        "Not portable is not invalid: where a schema is legal, the finding says so.\n\n"
        "Rules about providers look at `inputSchema` alone; an output schema is validated and never sent to a model,\n"
        "so of it only booleans, references that nobody can follow, and unknown dialects are said. No tool can be\n"
        'excused: write the other spelling, or lower the family in the open (`[checks] portability = "warning"`).\n\n'
        "What is invalid is said by `validity`: the meta-schema of the dialect that `$schema` declares, or of\n"
        "2020-12, which MCP says since 2025-11-25. In lists of earlier or unknown revisions what draft-07 allows is\n"
        "a warning.\n"
        "A schema of more than 128 levels is judged to that depth and said to be too deep; one of more than 50,000\n"
        "schemas or a million characters is not judged, which is an error. References are followed within the schema;\n"
        "nothing is ever fetched.\n",
    ]
    for check in sorted({kind.check for kind in KINDS.values()}):
        out.append(f"\n## {check}\n")
        for name, kind in KINDS.items():
            if kind.check != check:
                continue
            out.append(
                f"\n**{kind.words[0].upper()}{kind.words[1:]}** ({kind.severity}). {kind.does}. {kind.instead}.\n"
            )
            for library, hint in (("zod", kind.zod), ("pydantic", kind.pydantic)):
                if hint:
                    out.append(f"In {library}: {hint}.\n")
            out.append(f"Known to refuse or misread it: {', '.join(kind.clients)}.\n")
            if name in EXAMPLES:
                avoid, write = (text.removeprefix(ROOT) for text in EXAMPLES[name])
                out.append(f"\nAvoid\n\n```json\n{avoid}\n```\n\nand write\n\n```json\n{write}\n```\n")
    out.append(
        "\n## Tool names\n\n"
        f"Letters, digits, `_` and `-`, beginning with a letter, {MAX_NAME} at most: that is what all providers take,\n"
        "and they refuse not the one tool but the request. The specification recommends 1 to 128 of letters, digits,\n"
        "`_`, `-` and `.` (since 2025-11-25; earlier revisions say nothing); a dot is a warning here, others\n"
        "are an error. Clients put the server's name before the tool's, so that a shorter one is needed:\n\n"
        "| client | sends | takes |\n|---|---|---|\n"
    )
    out += [f"| {client} | `{form}` | {limit} characters |\n" for client, form, limit in MAX_PREFIXED]
    out.append(
        "\nTwo tools of one name are an error; names that differ only by case, or by a character that clients\n"
        f"replace, a warning. So are more than {MANY_TOOLS} tools, and more than {TOO_MANY_TOOLS}, with the clients\n"
        "that leave the rest out.\n"
    )
    return "".join(out)


def rows(schema: dict, prefix: str, root: dict) -> list[str]:
    out = []
    if "$ref" in schema:
        target: dict = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    for branch in ("anyOf", "oneOf"):
        for option in schema.get(branch, []):
            out += rows(option, prefix, root)
    required = set(schema.get("required", ()))
    for key, value in schema.get("properties", {}).items():
        name = f"{prefix}.{key}" if prefix else key
        kind = value.get("type", "")
        kind = " or ".join(kind) if isinstance(kind, list) else kind
        if "enum" in value:
            kind = ", ".join(f"`{item}`" for item in value["enum"])
        text = cell(value.get("description", "")) + (" **Required.**" if key in required else "")
        out.append(f"| `{cell(name)}` | {cell(kind)} | {text} |\n")
        out += rows(value, name, root)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        out += rows(extra, f"{prefix}.<name>" if prefix else "<name>", root)
    for value in schema.get("patternProperties", {}).values():
        kind = ", ".join(f"`{item}`" for item in value["enum"])
        out.append(f"| `{cell(prefix)}.<check>` | {kind} | {cell(value['description'])} |\n")
    items = schema.get("items")
    if isinstance(items, dict):
        out += rows(items, f"{prefix}[]", root)
    return out


def files() -> str:
    out = [
        "# The files\n",
        NOTE,
        "All of them are TOML but for the last, and UTF-8. Unknown keys are errors. The JSON Schemas, for editors,\n"
        "are in the package:\n"
        "`harness/config/schema/<file>.schema.json`; an editor that reads `#:schema` comments takes them.\n\n"
        "`${…}` is expanded in strings: `backend.<role>.<output>`, `repo`, `tmp`, `env.NAME`, and in suites\n"
        "`captured.<name>`; in backend.toml `secret.<name>`, `address.<port>`, `port.<port>`, `service.<name>`,\n"
        "`provisioned.<name>`, `former.<name>` (in the steps of a reset), `version` and `dir`. Nothing else.\n",
    ]
    for name, text in FILES.items():
        schema = json.loads((ROOT / "harness/config/schema" / f"{name}.schema.json").read_text(encoding="utf-8"))
        seen = dict.fromkeys(rows(schema, "", schema))
        out.append(f"\n## {schema['title']}\n\n{text} {schema['description']}\n\n| key | type | |\n|---|---|---|\n")
        out += seen
    return "".join(out)


def document(name: str) -> str:
    path = ROOT / f"harness/report/schema/{name}.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    shown = dict.fromkeys(
        row.removesuffix(" **Required.** |\n").removesuffix(" |\n") for row in rows(schema, "", schema)
    )
    return (
        f"\n`--format json` gives one document ([its schema](../../{path.relative_to(ROOT).as_posix()})); all keys are "
        "always there, but for those that say so:\n\n| key | type | |\n|---|---|---|\n"
        + "".join(f"{row} |\n" for row in shown)
    )


def backends() -> str:
    sys.path.insert(0, str(ROOT))
    from harness.config.load import load_backend

    out = [
        "# The shipped backends\n",
        NOTE,
        '`use = "NAME"` in a role of harness.toml takes one of these, unless the repository has a `backends/NAME/`\n'
        "of its own. A server is told their outputs as `${backend.<role>.<output>}`.\n"
        "`mcp-rollcall backends show NAME` has the rest, and `mcp-rollcall backends try NAME` stands one up.\n",
    ]
    for file in sorted((ROOT / "backends").glob("*/backend.toml")):
        spec = load_backend(file.parent, base=ROOT)
        versions = [f"`{name}`" + (" (default)" if name == spec.default else "") for name in spec.versions]
        process = spec.process
        reset = ["in Docker"] if spec.reset is not None else []
        reset += ["embedded"] if process is not None and process.reset is not None else []
        packages = ", ".join(f"`{item}`" for item in process.install) if process is not None else ""
        out.append(
            f"\n## {spec.name}\n\n{spec.summary}.\n\n"
            f"- Docker: {', '.join(versions) if spec.services else 'no'}\n"
            f"- Embedded: {packages or 'yes' if process is not None else 'no'}\n"
            f"- Can be reset, for `--reuse-stacks`: {' and '.join(reset) or 'no'}\n\n"
            "| output | value | |\n|---|---|---|\n"
        )
        for item in spec.outputs:
            out.append(f"| `{item.name}` | `{cell(item.value)}` | {'secret' if item.secret else ''} |\n")
    return "".join(out)


def commands() -> str:
    env = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}

    def text(*words: str) -> str:
        command = [sys.executable, "-P", "-m", "harness", *words, "--help"]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout

    out = ["# The commands\n", NOTE, f"```\n{text().rstrip()}\n```\n"]
    for name in COMMANDS:
        body = text(*name.split()).partition("\nexit codes:")[0].rstrip()
        out.append(f"\n## mcp-rollcall {name}\n\n```\n{body}\n```\n")
        if name in DOCUMENTS:
            out.append(document(DOCUMENTS[name]))
    return "".join(out)


API = {  # heading -> names, in the order of the page; what has no name here is not shown
    "Servers": ("start_server", "Server"),
    "What calls give": ("Result", "Prompt", "Called", "Notification", "Ended", "Question"),
    "Scripts of answers": ("AnswerSpec", "SampleSpec", "RootSpec"),
    "Stacks": ("open_stack", "Stack"),
    "Guards and waits": ("assert_loopback", "assert_loopback_host", "wait_for_http", "wait_for_tcp"),
    "Coverage and schemas": (
        "tool_coverage",
        "ToolCoverage",
        "expect_every_tool_exercised",
        "expect_every_tool_declares_output_schema",
        "expect_portable_tool_schemas",
        "expect_clean_wire",
    ),
    "Cases": ("begin_case", "end_case"),
    "Errors of calls": (
        "CallError",
        "ToolError",
        "ExpectedError",
        "NoToken",
        "ListError",
        "NoAnswer",
        "AnswerLost",
        "ServerDied",
        "ServerClosed",
        "NotLoopback",
        "CoverageError",
    ),
    "Errors of the harness": ("ServerError", "StackError", "ConfigError", "MisuseError"),
}
ASYNC = ("start_server", "Server", "open_stack", "Stack")  # whose words are those of harness.testing_async


def api() -> str:
    from harness import testing, testing_async

    out = [
        "# The Python API\n",
        NOTE,
        "`from harness.testing import …`; `harness.testing_async` has the same names for `await`, under asyncio. How\n"
        "they are used is said in [Tests in code](../how-to/tests-in-code.md).\n",
    ]
    for heading, names in API.items():
        out.append(f"\n## {heading}\n")
        for name in names:
            told = getattr(testing_async if name in ASYNC else testing, name)
            out.append(_described(name, getattr(testing, name), told))
    return "".join(out)


def _described(name: str, thing: object, told: object, level: str = "###") -> str:
    """One name: its signature, its words, and what a class has."""
    if not inspect.isclass(thing):
        return f"\n{level} `{name}`\n\n{_signature(name, thing)}{_words(told)}"
    out = f"\n{level} `{name}`\n\n{_words(told)}"
    for member in [item for item in vars(thing) if not item.startswith("_")]:
        value, words = getattr(thing, member), getattr(told, member, None)
        if isinstance(value, property):
            out += f"\n**`{member}`** (property)\n\n{_words(words)}"
        elif inspect.isfunction(value):
            out += f"\n**`{member}`**\n\n{_signature(member, value)}{_words(words)}"
    return out


def _signature(name: str, function: object) -> str:
    text = str(inspect.signature(function)).replace("self, ", "").replace("(self)", "()")
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).replace("os.PathLike[str]", "PathLike")
    if len(text) + len(name) > 100:
        parts = re.split(r", (?=\*|\w+:)", text[1 : text.rindex(")")])
        text = "(\n    " + ",\n    ".join(parts) + ",\n" + text[text.rindex(")") :]
    return f"```python\n{name}{text}\n```\n\n"


def _words(thing: object) -> str:
    """A docstring as Markdown: paragraphs stay, sections become lists."""
    text = inspect.getdoc(thing) or ""
    out: list[str] = []
    section = ""
    for block in re.sub(r"(?m)^(Args|Attributes|Raises|Returns|Source):\n", r"\n\1:\n", text).split("\n\n"):
        lines = block.strip("\n").splitlines()
        if not lines:
            continue
        section = lines[0].rstrip(":") if lines[0] in ("Args:", "Attributes:", "Raises:", "Returns:", "Source:") else ""
        if not section:
            out.append("\n".join(line.strip() for line in lines))
            continue
        items: list[str] = []
        for line in lines[1:]:
            if line.startswith("        ") and items:
                items[-1] += f" {line.strip()}"
            else:
                head, colon, rest = line.strip().partition(": ")
                names = ", ".join(f"`{part}`" for part in head.split(", "))
                items.append(f"- {names}: {rest}" if colon else f"- {line.strip()}")
        out.append("\n".join(([f"{section}:", ""] if section != "Args" else []) + items))
    return "\n\n".join(out) + "\n"


def main() -> int:
    wrong = []
    made = {
        "checks": checks,
        "portable-schemas": portable,
        "files": files,
        "backends": backends,
        "commands": commands,
        "python-api": api,
    }
    for name, make in made.items():
        path = PAGES / f"{name}.md"
        text = make()
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong.append(path.name)
    if wrong:
        print(f"not what the code says: {', '.join(wrong)}; run python docs/generate.py", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
