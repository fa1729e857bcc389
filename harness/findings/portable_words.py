"""What clients do with schemas that not all of them read, and the spelling that all of them take.

One entry for each kind of fault. The facts are about clients in their ordinary path; none of the texts says that a
legal schema breaks the specification. Where something is not legal, the text says in which revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.model.finding import Severity

__all__ = ["KINDS", "Kind", "Library", "library_of"]

Library = Literal["zod", "pydantic", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault.

    Attributes:
        check: Id of the check.
        words: The fault in a few words.
        severity: "error" where an official SDK or a provider refuses it in the ordinary path.
        clients: Short names of those that are known to refuse or misread it.
        does: What they do, a sentence.
        instead: What to write, a sentence.
        zod: The same in the words of zod.
        pydantic: The same in the words of pydantic.
        legal: Whether it is legal JSON Schema and legal MCP, as far as this goes; else `does` says what is to be said.
    """

    check: str
    words: str
    severity: Severity = "error"
    clients: tuple[str, ...]
    does: str
    instead: str
    zod: str = ""
    pydantic: str = ""
    legal: bool = True

    def hint(self, library: Library) -> str:
        """The advice in the words of a schema library, "" where there is none."""
        if library == "zod" and self.zod:
            return f"In zod: {self.zod}."
        if library == "pydantic" and self.pydantic:
            return f"In pydantic: {self.pydantic}."
        return ""


_GEMINI = ("gemini-api", "vertex", "gemini-cli")
_GEMINI_SKIPS = (
    "Gemini's OpenAPI-style function declarations have no such keyword: the request is refused where the client "
    "does not strip it"
)

KINDS: Mapping[str, Kind] = {
    "root-composition": Kind(
        check="portability/root-composition",
        words="a composition at the root of the arguments",
        clients=("anthropic-api", "claude-code", "openai-api", "bedrock", "vertex"),
        does="Anthropic and OpenAI refuse a tool whose arguments have oneOf, anyOf or allOf at the root (OpenAI "
        "also not and "
        "enum), and with it the whole request",
        instead='Write one object with `"properties"`, make optional what only some branches need, and check the '
        "combination in the tool, or make a tool of each branch",
        zod="one z.object() with .optional() members instead of z.union(), z.discriminatedUnion() or .and()",
        pydantic="one model with optional fields and a model_validator instead of a union of models",
    ),
    "root-type": Kind(
        check="portability/root-type",
        words='arguments whose root is not "type": "object"',
        legal=False,
        clients=("mcp-typescript-sdk", "anthropic-api", "openai-api", "bedrock"),
        does='Every revision of MCP asks for "type": "object" at the root of inputSchema; the official '
        "TypeScript SDK "
        "refuses the whole list, and providers the tool",
        instead='Write {"type": "object", "properties": {…}}',
        zod="z.object({...}) as the input schema",
        pydantic="a model, not a RootModel or a bare type, as the arguments",
    ),
    "root-ref": Kind(
        check="portability/root-type",
        words="arguments that are a reference",
        legal=False,
        clients=("mcp-typescript-sdk", "anthropic-api", "openai-api"),
        does='Every revision of MCP asks for "type": "object" at the root of inputSchema itself; the official '
        "TypeScript "
        "SDK refuses the whole list, and providers the tool",
        instead="Write what the reference leads to at the root",
        zod='z.toJSONSchema(schema, {reused: "inline"}), or zod-to-json-schema without `name` and with '
        '$refStrategy: "none"',
        pydantic="the schema of the model itself, not one that refers to it",
    ),
    "root-properties": Kind(
        check="portability/root-properties",
        words='arguments without "properties"',
        severity="warning",
        clients=("openai-api", "windsurf-gpt5"),
        does="OpenAI's API answers 'object schema missing properties' where the client does not add them",
        instead='Add "properties": {}',
        zod="z.object({}) as the input schema",
        pydantic="a model without fields gives an empty properties object",
    ),
    "array-items": Kind(
        check="portability/array-items",
        words="an array without items",
        clients=("vscode-copilot", "openai-api", "gemini-api"),
        does="OpenAI, Gemini and VS Code refuse the tool ('array schema missing items')",
        instead='Say what is in it: "items": {"type": "string"}, or whatever it holds',
        zod="z.array(z.string()) instead of z.array(z.any())",
        pydantic="list[str] instead of a bare list",
    ),
    "prefix-items-alone": Kind(
        check="portability/array-items",
        words="a tuple without items",
        clients=("vscode-copilot", "openai-api", "gemini-api"),
        does="OpenAI, Gemini and VS Code look for `items` and refuse the tool where there is none",
        instead='Write one schema for all places, {"items": {…}, "minItems": n, "maxItems": n}, or an object with a '
        "property for each",
        zod="z.array(item).length(n), or z.object({...}), instead of z.tuple([...])",
        pydantic="Annotated[list[T], Field(min_length=n, max_length=n)], or a model, instead of tuple[...]",
    ),
    "tuple-items": Kind(
        check="portability/tuple-items",
        words="items as a list",
        clients=("anthropic-api", "claude-desktop", "xai", "gemini-api", "chatgpt", "mcpo"),
        does="It is the tuple of draft-07; providers read 2020-12, where `items` is one schema, and refuse the tool",
        instead='Write one schema for all places, {"items": {…}, "minItems": n, "maxItems": n}, or an object with a '
        "property for each",
        zod="z.array(item).length(n), or z.object({...}), instead of z.tuple([...])",
        pydantic="Annotated[list[T], Field(min_length=n, max_length=n)], or a model, instead of tuple[...]",
    ),
    "prefix-items": Kind(
        check="portability/tuple-items",
        words="prefixItems",
        severity="warning",
        clients=(*_GEMINI, "draft-07 readers"),
        does=f"{_GEMINI_SKIPS}; readers of draft-07 ignore it",
        instead='Write one schema for all places, {"items": {…}, "minItems": n, "maxItems": n}, or an object with a '
        "property for each",
        zod="z.array(item).length(n), or z.object({...}), instead of z.tuple([...])",
        pydantic="Annotated[list[T], Field(min_length=n, max_length=n)], or a model, instead of tuple[...]",
    ),
    "type-union": Kind(
        check="portability/type-union",
        words="a list of types",
        severity="warning",
        clients=("gemini-api", "adk-js", "5ire", "opencode"),
        does="Gemini's `type` is one word; clients for it refuse the tool, or split the list and lose what "
        "stands beside it",
        instead='Write "anyOf" with one type in each branch',
        zod="zod-to-json-schema (zod 3), and zod itself from 4.5 on, write .nullable() and unions of primitives in "
        "this way; .optional() instead of .nullable() does without, else an `override` (zod-to-json-schema: "
        "`postProcess`) that writes anyOf",
        pydantic="it writes anyOf by itself; the list comes from json_schema_extra or a hand-written schema",
    ),
    "type-union-array": Kind(
        check="portability/type-union",
        words='a list of types with "array" in it, without items',
        clients=("openai-api", "gemini-api"),
        does="OpenAI refuses an array without items in a list of types too, and Gemini's `type` is one word",
        instead='Write "anyOf" with one type in each branch and "items" in that of the array, or take a string '
        "that holds "
        "JSON",
        zod="z.union([z.string(), z.array(z.string())]) of what is really taken, instead of z.any() or z.json()",
        pydantic="a union of what is really taken, such as str | list[str]",
    ),
    "untyped": Kind(
        check="portability/untyped-schema",
        words="a schema that says nothing",
        severity="warning",
        clients=("gemini-cli", "vertex"),
        does="Gemini CLI drops a tool with such a parameter, Vertex AI refuses one without a type, and models guess",
        instead='Give it a "type"; where really anything goes, "anyOf" of the types that are taken, or a string '
        "that holds "
        "JSON",
        zod="the type that is meant, or a union, instead of z.any() or z.unknown()",
        pydantic="the type that is meant, or a union, instead of Any",
    ),
    "untyped-additional": Kind(
        check="portability/untyped-schema",
        words="additionalProperties: {}",
        severity="warning",
        clients=("claude-code",),
        does="It means the same as true, yet is read as false by a client, so that the map is never filled",
        instead='Write "additionalProperties": true, or say what the values are: {"type": "string"}',
        zod="z.record(z.string(), z.string()), or what the values are, instead of z.record(z.string(), z.any())",
        pydantic="dict[str, str], or what the values are, instead of dict[str, Any]",
    ),
    "missing-type": Kind(
        check="portability/missing-type",
        words="a schema without a type",
        severity="warning",
        clients=("vertex", "gemini-cli"),
        does='Vertex AI answers "schema didn\'t specify the schema type field" where the client does not guess one',
        instead='Write the "type" beside the other keywords',
        zod="the typed schema, such as z.string(), instead of z.custom() or z.any()",
        pydantic="annotate the field; a hand-written schema needs its type",
    ),
    "boolean": Kind(
        check="portability/boolean-schema",
        words="a boolean where a schema object is expected",
        legal=False,
        clients=(
            "claude-code",
            "claude-agent-sdk",
            "mcp-python-sdk",
            "mcp-typescript-sdk",
            "strict-zod-clients",
            "opencode",
            "gemini-api",
            "fireworks",
        ),
        does="JSON Schema allows it, and MCP from 2026-07-28 on; the official SDKs of the revisions before take "
        "objects only, "
        "and lose the tool or the whole list, and several providers refuse it",
        instead='Write the type that is meant; where anything goes, "anyOf" of the types that are taken; leave out a '
        "property that is never allowed",
        zod="the type that is meant instead of z.any(), z.unknown() or z.never()",
        pydantic="the type that is meant instead of Any or Never",
    ),
    "enum-not-strings": Kind(
        check="portability/enum-values",
        words="an enum of other values than strings",
        clients=("gemini-api", "gemini-cli", "vertex"),
        does="Gemini's enum holds strings only: 'Invalid value (TYPE_STRING)', and the request is refused",
        instead='Write "minimum" and "maximum" for a range of numbers, "type": "boolean" for both of its values, '
        "or strings "
        '({"type": "string", "enum": ["0", "2"]}) that the tool converts',
        zod='z.enum(["0", "2"]) or .min().max() instead of numeric literals',
        pydantic='Literal["0", "2"] or Field(ge=…, le=…) instead of Literal of numbers or an IntEnum',
    ),
    "enum-null": Kind(
        check="portability/enum-values",
        words="null in an enum",
        clients=("gemini-api", "gemini-cli", "vertex"),
        does="Gemini's enum holds strings only, and the request is refused",
        instead='Leave the parameter out of "required" instead, or write "anyOf" of the enum and {"type": "null"}',
        zod='z.enum(["a", "b"]).optional() instead of a literal null',
        pydantic='Literal["a", "b"] | None instead of Literal["a", "b", None]',
    ),
    "enum-type": Kind(
        check="portability/enum-values",
        words="an enum of strings under another type",
        clients=("gemini-api", "vertex"),
        does="No value fits both, and Gemini takes an enum for the type string only",
        instead='Write "type": "string", or drop the enum',
    ),
    "enum-empty-string": Kind(
        check="portability/enum-values",
        words="an empty string in an enum",
        clients=("gemini-api",),
        does="Gemini answers 'enum[…]: cannot be empty' and refuses the request",
        instead='Drop it and leave the parameter out of "required"',
        zod="z.enum([...]).optional() without the empty member",
        pydantic="Literal[...] | None = None without the empty member",
    ),
    "enum-empty": Kind(
        check="portability/enum-values",
        words="an enum without values",
        clients=("openai-api", "gemini-api"),
        does="No value can ever be right, and providers refuse it",
        instead="Name the values, or drop the enum",
    ),
    "enum-twice": Kind(
        check="portability/enum-values",
        words="a value that stands twice in an enum",
        severity="warning",
        clients=("openai-api", "ajv"),
        does="Strict validators refuse it ('has non-unique elements')",
        instead="Name each value once",
    ),
    "const": Kind(
        check="portability/const-keyword",
        words="const",
        severity="warning",
        clients=("gemini-api", "zed"),
        does=_GEMINI_SKIPS,
        instead='Write {"type": "string", "enum": [the value]}',
        zod='z.enum(["a"]) instead of z.literal("a")',
        pydantic="a one-member str Enum, or json_schema_extra that writes enum, instead of a Literal of one value",
    ),
    "format": Kind(
        check="portability/string-format",
        words="a format of strings other than date-time",
        severity="warning",
        clients=("gemini-api", "gemini-cli", "openai-strict"),
        does="Gemini knows the formats date-time and enum for strings only, and refuses the request where the "
        "client does "
        "not strip it",
        instead="Say it in the description, or with a pattern, and check in the tool",
        zod='z.string().describe("a URL") instead of z.url(), z.email() and their kin',
        pydantic="str with a description instead of AnyUrl, EmailStr, UUID, date, bytes and their kin",
    ),
    "required-unknown": Kind(
        check="portability/required-unknown",
        words="a required name that is no property",
        clients=("gemini-api", "opencode"),
        does="Gemini answers 'required[…]: property is not defined' and refuses the request",
        instead='Describe it under "properties", or drop it from "required"',
    ),
    "items-elsewhere": Kind(
        check="portability/keyword-mismatch",
        words="items on what is no array",
        clients=("gemini-api",),
        does="JSON Schema ignores it; Gemini refuses the request",
        instead='Write "type": "array", or drop it',
    ),
    "properties-elsewhere": Kind(
        check="portability/keyword-mismatch",
        words="properties or required on what is no object",
        clients=("gemini-api", "opencode"),
        does="JSON Schema ignores them; Gemini answers 'only allowed for OBJECT type' and refuses the request",
        instead='Write "type": "object", or drop them',
    ),
    "key-characters": Kind(
        check="portability/property-key",
        words="a property name with other characters than letters, digits, _ . -",
        clients=("anthropic-api", "claude-code"),
        does="Anthropic's API takes ^[a-zA-Z0-9_.-]{1,64}$ only, and refuses the request",
        instead="Rename it in the schema and map it in the tool",
        zod="a plain key in z.object({...}), mapped where the tool uses it",
        pydantic="no `alias` of that form in the schema, or by_alias=False",
    ),
    "key-length": Kind(
        check="portability/property-key",
        words="a property name of more than 64 characters",
        clients=("anthropic-api",),
        does="Anthropic's API takes ^[a-zA-Z0-9_.-]{1,64}$ only, and refuses the request",
        instead="Shorten it in the schema and map it in the tool",
    ),
    "key-empty": Kind(
        check="portability/property-key",
        words="a property with an empty name",
        clients=("anthropic-api",),
        does="Anthropic's API takes ^[a-zA-Z0-9_.-]{1,64}$ only, and refuses the request",
        instead="Give it a name",
    ),
    "pattern-looking": Kind(
        check="portability/pattern-lookaround",
        words="a pattern that looks around",
        clients=("openai-api", "codex", "llama.cpp", "cline"),
        does="OpenAI, and every engine without backtracking (RE2, Rust, grammar converters such as llama.cpp's), "
        "refuses "
        "lookaheads and lookbehinds",
        instead="Say the simple part as a pattern and check the rest in the tool",
        zod="z.string() with a simple .regex() instead of z.email(), whose pattern looks ahead",
        pydantic="a simple Field(pattern=…) and a field_validator",
    ),
    "pattern-back": Kind(
        check="portability/pattern-lookaround",
        words="a pattern that refers back",
        clients=("openai-api", "codex", "llama.cpp"),
        does="OpenAI, and every engine without backtracking (RE2, Rust, grammar converters such as llama.cpp's), "
        "refuses "
        "back-references",
        instead="Say the simple part as a pattern and check the rest in the tool",
    ),
    "pattern-foreign": Kind(
        check="portability/pattern-syntax",
        words="a pattern of one engine only",
        legal=False,
        clients=("ajv", "openai-api", "llama.cpp"),
        does="JSON Schema means ECMA-262 expressions; other engines refuse it or read something else",
        instead="Write it in plain ECMA-262: ^ and $ for the ends, (…) for groups, [Aa] for both cases",
        pydantic="Field(pattern=…) is handed out as written: use no construct of Python's re or of Rust's regex alone",
    ),
    "pattern-unicode": Kind(
        check="portability/pattern-syntax",
        words="a pattern with a Unicode property class",
        severity="warning",
        clients=("python-jsonschema", "llama.cpp"),
        does="Python's re does not know it, and JavaScript only with the u flag",
        instead="Write the ranges that are meant, such as [A-Za-z], and check the rest in the tool",
    ),
    "pattern-loose": Kind(
        check="portability/pattern-syntax",
        words="a pattern that ECMA-262 reads without its flag u only",
        severity="warning",
        clients=("ajv",),
        does="JSON Schema recommends the flag u, and validators that set it, such as ajv, refuse the whole schema",
        instead="Escape nothing but ^ $ \\ . * + ? ( ) [ ] { } | / (and - in a class), each of them wherever it is "
        "meant literally, and write a hyphen last in its class",
    ),
    "pattern-anchors": Kind(
        check="portability/pattern-anchors",
        words="a pattern without ^ and $",
        severity="warning",
        clients=("llama.cpp", "lm-studio", "ollama"),
        does="llama.cpp, and what is built on it, takes patterns that begin with ^ and end with $ only",
        instead="Write ^…$, with .* where text may stand around it",
    ),
    "one-of": Kind(
        check="portability/nested-composition",
        words="oneOf below the root",
        severity="warning",
        clients=("openai-api", "openai-strict", "gemini-api"),
        does="OpenAI's strict mode and Gemini's function declarations know anyOf only",
        instead='Write "anyOf", which all read; the tool sees which branch it is',
        zod="z.union([...]) instead of z.discriminatedUnion(...)",
        pydantic="a plain union instead of Field(discriminator=…)",
    ),
    "all-of": Kind(
        check="portability/nested-composition",
        words="allOf below the root",
        severity="warning",
        clients=("openai-strict", "gemini-api"),
        does="OpenAI's strict mode and Gemini's function declarations do not know it",
        instead="Merge the branches into one schema",
        zod=".extend() instead of .and() or z.intersection()",
        pydantic="pydantic 2.9 and later write a single reference without allOf",
    ),
    "keyword": Kind(
        check="portability/unsupported-keyword",
        words="a keyword that not every client takes",
        severity="warning",
        clients=(*_GEMINI, "openai-strict"),
        does=_GEMINI_SKIPS,
        instead="Say it in the description and check in the tool",
    ),
    "exclusive-bound": Kind(
        check="portability/unsupported-keyword",
        words="an exclusive bound",
        severity="warning",
        clients=_GEMINI,
        does=_GEMINI_SKIPS,
        instead='Write "minimum" or "maximum": for integers the next one, else say it in the description',
        zod=".min(1) instead of .positive(), .gte() and .lte() instead of .gt() and .lt()",
        pydantic="Field(ge=1) instead of Field(gt=0) or PositiveInt",
    ),
    "local-ref": Kind(
        check="portability/local-ref",
        words="a reference to a definition",
        severity="warning",
        clients=("vscode-copilot", "claude-desktop", "gemini-cli", "zed", "kimi"),
        does="Some clients strip the definitions, or refuse references",
        instead="Write what it leads to in its place",
        zod='z.toJSONSchema(schema, {reused: "inline"}), or $refStrategy: "none" in zod-to-json-schema',
        pydantic="Literal[...] instead of an Enum; inline nested models before the schema is handed out",
    ),
    "ref-elsewhere": Kind(
        check="portability/ref-target",
        words="a reference to another place than a definition",
        clients=("kimi", "mcpo", "open-webui"),
        does="Clients that resolve references know #/$defs/… and #/definitions/… only, and refuse others",
        instead="Write what it leads to in its place",
        zod='$refStrategy: "none" in zod-to-json-schema, or z.toJSONSchema(schema, {reused: "inline"}); it comes '
        "of one "
        "schema object that is used twice",
    ),
    "recursive": Kind(
        check="portability/recursive-ref",
        words="a schema that holds itself",
        clients=("google-adk", "gemini-api", "gemini-cli"),
        does="Clients that write out references never come to an end, or refuse it; Gemini refuses it",
        instead="Write the levels that are needed, or take a list of items with a parent's id, or a string that "
        "holds JSON",
        zod="a fixed number of levels instead of z.lazy()",
        pydantic="a fixed number of levels instead of a model that refers to itself",
    ),
    "recursive-output": Kind(
        check="portability/recursive-ref",
        words="an output schema that holds itself",
        severity="warning",
        clients=("mastra", "eager-resolving-clients"),
        does="Clients that write out references drop the tool",
        instead="Write the levels that are needed, or a list of items with a parent's id",
        zod="a fixed number of levels instead of z.lazy()",
        pydantic="a fixed number of levels instead of a model that refers to itself",
    ),
    "endless": Kind(
        check="portability/recursive-ref",
        words="references that lead back to themselves",
        legal=False,
        clients=("mcp-typescript-sdk", "mcp-python-sdk", "gemini-api"),
        does="It describes nothing: no validator comes to an end with it, and JSON Schema says that nobody "
        "should write it",
        instead="Write what is meant in the place of one of them",
    ),
    "dangling": Kind(
        check="portability/dangling-ref",
        words="a reference to nothing",
        legal=False,
        clients=("openai-api", "mcp-typescript-sdk", "gemini-cli", "claude-code", "opencode", "cursor", "kiro"),
        does="The schema cannot be resolved by anybody; in an output schema the official TypeScript SDK fails "
        "the whole list "
        "over it",
        instead="Hand out the definitions with the schema, each below the root of the schema that refers to it",
        pydantic="take model_json_schema() whole: what is cut out of it loses its $defs",
        zod="convert the whole schema at once: what is cut out of it loses its $defs",
    ),
    "remote": Kind(
        check="portability/remote-ref",
        words="a reference to another document",
        legal=False,
        clients=("anthropic-api", "gemini-api", "mcp-typescript-sdk"),
        does="Clients must not fetch what a schema refers to, so nobody resolves it",
        instead="Write what it leads to in its place",
    ),
    "expansion": Kind(
        check="portability/ref-expansion",
        words="references that multiply",
        clients=("gemini-cli", "vscode-copilot", "google-adk"),
        does="Clients that write out references run out of memory, or send more than a model takes",
        instead="Have fewer references to schemas that have references themselves",
    ),
    "default-type": Kind(
        check="portability/default-value",
        words="a default that the schema itself refuses",
        severity="warning",
        clients=("forms of inspectors", "ajv useDefaults"),
        does="A client that fills in defaults sends a value that is refused",
        instead="Give a default of the right type, or none",
        zod=".optional() instead of a default of null",
        pydantic="str | None = None instead of str = None",
    ),
    "dialect-unknown": Kind(
        check="portability/dialect",
        words="a dialect that is none of JSON Schema's",
        severity="warning",
        clients=("ajv", "mcp-typescript-sdk"),
        does="Validators that do not know it refuse the schema; the official TypeScript SDK fails a whole list "
        "over such an "
        "output schema",
        instead='Leave "$schema" out, or write "https://json-schema.org/draft/2020-12/schema"',
    ),
    "dialect-ignored": Kind(
        check="portability/dialect",
        words="a keyword that means nothing in the dialect in force",
        severity="warning",
        clients=("validators",),
        does="Validators ignore it, so it constrains nothing, while a model may believe it",
        instead="Write it as that dialect does",
    ),
    "dialect-refused": Kind(
        check="portability/dialect",
        words="a spelling of an old draft",
        clients=("anthropic-api",),
        does="It is valid in the draft that `$schema` declares; providers read 2020-12, where it is no schema, "
        "and refuse "
        "the tool",
        instead="Write it as 2020-12 does",
    ),
}


def library_of(schema: Any) -> Library:
    """The schema library whose handwriting it is: pydantic gives fields titles, zod's converters declare a dialect."""
    if not isinstance(schema, Mapping):
        return ""
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for key, value in properties.items():
            title = value.get("title") if isinstance(value, Mapping) else None
            if isinstance(title, str) and isinstance(key, str) and title == key.replace("_", " ").title():
                return "pydantic"
    declared = schema.get("$schema")
    if isinstance(declared, str) and "json-schema.org" in declared:
        return "zod"
    return ""
