"""Every check there is: id, usual severity, what fires it, where the rule comes from, whether it can be excused.

One id whose severity may flip (a server that needs SIGTERM is a warning, one that needs SIGKILL an error) stays one id.
The reference page of the docs is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CHECKS", "FAMILIES", "OFF_BY_DEFAULT", "CheckSpec", "exemptable", "family_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One check.

    Attributes:
        id: `family/rule`.
        severity: The usual one; `[checks]` may lower the family.
        fires: What makes it fire, one sentence.
        source: Section of the MCP specification, or "ours".
        exempt: How an exemption names it ("" = it takes none): a short form such as "exercised", or the full id.
        subject: What the key of such an exemption is.
    """

    id: str
    severity: Literal["error", "warning"]
    fires: str
    source: str
    exempt: str = ""
    subject: Literal["", "tool", "parameter", "any"] = ""


_STDIO = "MCP basic/transports#stdio"
_HTTP = "MCP basic/transports#streamable-http"
_SESSIONS = "MCP basic/transports#session-management"
_SAFE_HTTP = "MCP basic/transports#security-warning"
_RPC = "MCP basic#messages"
_TOOLS = "MCP server/tools"
_REGEX = "JSON Schema: regular expressions are ECMA-262's"
_CLIENTS = "ours: what clients refuse"
_OUTPUT = "MCP server/tools#output-schema"

_ALL = (
    CheckSpec(id="exercised/missing", severity="error", exempt="exercised", subject="tool", source="ours",
              fires="A listed tool that no call reached, in a cell whose planned runs all finished."),
    CheckSpec(id="exercised/failed-only", severity="error", exempt="exercised", subject="tool", source="ours",
              fires="A tool that was called, but no call met the level that `[checks] exercised` asks for, and not "
                    "every call has an error of its own that says why."),
    CheckSpec(id="exercised/refused-only", severity="error", exempt="exercised", subject="tool", source="ours",
              fires="A tool whose only good calls are refusals that the suite expects."),
    CheckSpec(id="exercised/not-listed", severity="error", source="ours",
              fires="A tool that was called and is not in tools/list, without `unlisted = true`."),
    CheckSpec(id="exercised/unknown-succeeded", severity="error", source=_TOOLS,
              fires="A deliberate call (`unlisted = true`, or ours of a probed process) of a tool that is not in "
                    "tools/list succeeded."),
    CheckSpec(id="exercised/no-tools", severity="error", source=_TOOLS,
              fires="The server declares the tools capability and lists no tool."),
    CheckSpec(id="exercised/list-failed", severity="error", source=_TOOLS,
              fires="tools/list gave an error, a malformed result, or pages without end."),
    CheckSpec(id="exercised/looks-failed", severity="warning", source="ours",
              fires="An answer reads like a failure though isError is false, and the step did not ask for that text."),
    CheckSpec(id="exemption/false", severity="error", source="ours",
              fires="What the entry excuses happened after all."),
    CheckSpec(id="exemption/stale", severity="error", source="ours",
              fires="The entry's server, check, tool or backend does not exist."),
    CheckSpec(id="exemption/malformed", severity="error", source="ours",
              fires="No reason, a placeholder for one, an unknown key or type, or a check that takes no exemption."),
    CheckSpec(id="exemption/duplicate", severity="error", source="ours",
              fires="Two entries excuse the same thing."),
    CheckSpec(id="exemption/expired", severity="error", source="ours",
              fires="The entry's `expires` day is over."),
    CheckSpec(id="wire/stdout-not-json", severity="error", source=_STDIO,
              fires="A line on stdout that is no JSON (a banner, a log line, a blank line, NaN)."),
    CheckSpec(id="wire/framing", severity="error", source=_STDIO,
              fires="stdout is framed in another way, e.g. with Content-Length headers."),
    CheckSpec(id="wire/not-utf8", severity="error", source=_STDIO,
              fires="A line on stdout that is not UTF-8."),
    CheckSpec(id="wire/not-jsonrpc", severity="error", source=_RPC,
              fires="JSON on stdout that is no JSON-RPC 2.0 message (or a batch, where the revision has none)."),
    CheckSpec(id="wire/duplicate-key", severity="error", source=_RPC,
              fires="A message in which one object has the same key twice."),
    CheckSpec(id="wire/carriage-return", severity="warning", source=_STDIO,
              fires="Lines end in CR LF."),
    CheckSpec(id="wire/partial-line", severity="error", source=_STDIO,
              fires="Bytes without a newline at the end of the stream, or while a call waits in vain."),
    CheckSpec(id="wire/line-too-long", severity="error", source="ours",
              fires="A line over the limit; the server was stopped."),
    CheckSpec(id="wire/id-mismatch", severity="error", source=_RPC,
              fires="A reply whose id has another type than the request's (\"7\" against 7)."),
    CheckSpec(id="wire/unknown-id", severity="error", source=_RPC,
              fires="A reply to no request of ours."),
    CheckSpec(id="wire/duplicate-reply", severity="error", source=_RPC,
              fires="A second reply to one request."),
    CheckSpec(id="wire/no-reply", severity="error", source=_RPC,
              fires="A request that was never answered, though the server lived on; also one that is wrong in one "
                    "place, or calls a tool that there is not."),
    CheckSpec(id="wire/dead-after-odd-request", severity="error", source=_RPC,
              fires="A request that is wrong in one place (params that are a number, a method that is a list, "
                    "arguments that are a text), or a call of a tool that there is not, ends a probed process of the "
                    "server, or it answers nothing any more."),
    CheckSpec(id="wire/locale", severity="error", source=_STDIO,
              fires="Text that is not ASCII comes back changed, is not answered, or ends the server, where its locale "
                    "is not UTF-8 (LC_ALL=C, and PYTHONUTF8=0): it reads or writes in the encoding of the locale."),
    CheckSpec(id="wire/capability-lie", severity="error", source="MCP basic/lifecycle#capability-negotiation",
              fires="A capability is declared and its method does not exist: prompts, resources, logging, completions; "
                    "a warning where the list of it gives another error."),
    CheckSpec(id="wire/list-order", severity="warning", source="MCP server/tools",
              fires="Two processes of the server list the same tools in another order."),
    CheckSpec(id="wire/empty-cursor", severity="warning", source="MCP server/utilities/pagination",
              fires="A list whose nextCursor is an empty string; it is taken for the end."),
    CheckSpec(id="wire/malformed-result", severity="error", source=_TOOLS,
              fires="A result that has not the shape that its method demands, the first answer of the session among "
                    "them, or that is of an unknown kind."),
    CheckSpec(id="wire/undeclared-request", severity="error", source="MCP client/elicitation",
              fires="The server asks the client for something that the client has not declared."),
    CheckSpec(id="wire/pushed-request", severity="error", source="MCP basic/patterns/mrtr",
              fires="A server of the modern era sends the client a request of its own, where it has to answer "
                    "`input_required`."),
    CheckSpec(id="wire/malformed-request", severity="error", source="MCP client/elicitation",
              fires="The server asks the client for something in another shape than the specification has: no message, "
                    "a mode that there is not, no URL, no requestedSchema, sampling without messages or maxTokens, "
                    "`input_required` that says nothing."),
    CheckSpec(id="wire/elicit-schema", severity="error", source="MCP client/elicitation#requested-schema",
              fires="A form that is no flat object of texts, numbers, booleans and choices of texts: nested objects, "
                    "`$ref`, other formats or types, a default of another type."),
    CheckSpec(id="wire/elicit-empty", severity="error", source="ours",
              fires="A form without any field: clients show nothing, and nothing can be accepted."),
    CheckSpec(id="wire/elicit-secret", severity="error", source="MCP client/elicitation#user-interaction-model",
              fires="A form with a field of free text that is called like a password, a key, a token of access or a "
                    "card number; these take mode url."),
    CheckSpec(id="wire/progress-token", severity="error", source="MCP basic/utilities/progress",
              fires="Progress with a token that no request under way has given."),
    CheckSpec(id="wire/late-progress", severity="warning", source="MCP basic/utilities/progress",
              fires="Progress of a request that has been answered."),
    CheckSpec(id="wire/progress-order", severity="warning", source="MCP basic/utilities/progress",
              fires="Progress that does not increase from one notification to the next; clients take it."),
    CheckSpec(id="wire/malformed-notification", severity="error", source="MCP server/utilities/logging",
              fires="Progress without a token or a number, or a log notification without data or with a level that "
                    "there is not."),
    CheckSpec(id="wire/undeclared-log", severity="warning", source="MCP server/utilities/logging",
              fires="Log notifications though the server has not declared `logging`; in the modern era, and then an "
                    "error, though no request under way asked for any with `logLevel`."),
    CheckSpec(id="wire/dead-after-cancel", severity="error", source="MCP basic/utilities/cancellation",
              fires="A server that answers nothing any more after notifications/cancelled for a call of a step with "
                    "`cancel_after_s`."),
    CheckSpec(id="wire/notification-not-ignored", severity="error", source="MCP basic/utilities/cancellation",
              fires="notifications/cancelled for an unknown request, or an unknown notification, is answered, or ends "
                    "the server."),
    CheckSpec(id="wire/request-state-changed", severity="warning", source="MCP basic/patterns/mrtr",
              fires="A `requestState` that we have changed is taken, though the call needs one and reads it; an error "
                    "where what we wrote into it comes back in the answer."),
    CheckSpec(id="wire/request-state-replayed", severity="warning", source="MCP basic/patterns/mrtr",
              fires="A tool that says it destroys and is not idempotent takes one consent, with one `requestState`, "
                    "twice."),
    # the HTTP layer
    CheckSpec(id="http/status", severity="error", source=_HTTP,
              fires="A request was answered with a status that carries no answer, or with one that the era forbids "
                    "beside its result or error."),
    CheckSpec(id="http/content-type", severity="error", source=_HTTP,
              fires="A request was answered with something that is neither application/json nor text/event-stream, "
                    "such as an HTML page."),
    CheckSpec(id="http/not-json", severity="error", source=_HTTP,
              fires="A response, or an event of a stream, that is to be JSON and is none."),
    CheckSpec(id="http/no-answer", severity="error", source=_HTTP,
              fires="A response or a stream came to its end without the answer, and could not be resumed."),
    CheckSpec(id="http/broken", severity="error", source=_HTTP,
              fires="No HTTP response came, or it broke off in the middle, though the server lives."),
    CheckSpec(id="http/redirect", severity="error", source=_HTTP,
              fires="A request was answered with a redirect."),
    CheckSpec(id="http/notification", severity="error", source=_HTTP,
              fires="A notification, or an answer of the client's, was answered with anything but 202 and an empty "
                    "body."),
    CheckSpec(id="http/get", severity="error", source=_HTTP,
              fires="GET gives neither an event stream nor 405; of a server of the modern era alone, not 405."),
    CheckSpec(id="http/session-lost", severity="error", source=_SESSIONS,
              fires="A request of a live session was answered with 404: the server has forgotten the session."),
    CheckSpec(id="http/session-id", severity="error", source=_SESSIONS,
              fires="A session id with other characters than visible ASCII ones."),
    CheckSpec(id="http/unknown-session", severity="error", source=_SESSIONS,
              fires="A session id that was never given is not answered with 404; a warning for a missing one that is "
                    "not answered with 400."),
    CheckSpec(id="http/version-header", severity="error", source=_HTTP,
              fires="A request with an unknown protocol version in its header is answered as any other."),
    CheckSpec(id="http/foreign-origin", severity="error", exempt="http/foreign-origin", subject="any",
              source=_SAFE_HTTP,
              fires="A request with the Origin of another site is answered as any other."),
    CheckSpec(id="http/foreign-host", severity="error", exempt="http/foreign-host", subject="any",
              source=_SAFE_HTTP,
              fires="A request for another Host is answered as any other."),
    CheckSpec(id="http/bind-all", severity="error", exempt="http/bind-all", subject="any",
              source=_SAFE_HTTP,
              fires="The server listens on every network of the machine; a warning where it asks for authorization."),
    CheckSpec(id="http/challenge", severity="error", exempt="http/challenge", subject="any",
              source="MCP basic/authorization",
              fires="401 without a WWW-Authenticate header that names resource_metadata."),
    CheckSpec(id="http/well-known", severity="error", source="MCP basic/authorization",
              fires="The metadata of a protected resource are behind the authorization that they are to explain."),
    CheckSpec(id="http/wrong-stream", severity="error", source=_HTTP,
              fires="An answer came on another stream than that of its request."),
    CheckSpec(id="http/buffered", severity="warning", source="ours",
              fires="Two or more notifications and the result came in one piece, two seconds or more after the "
                    "request."),
    CheckSpec(id="client/tool-lost", severity="error", source="ours",
              fires="A tool that is in the raw tools/list and that the official client does not hand out."),
    CheckSpec(id="client/refused", severity="error", source="ours",
              fires="The official client cannot connect, or raises instead of giving a list, though the server answers "
                    "our own session."),
    CheckSpec(id="client/era-downgraded", severity="warning", source="ours",
              fires="The official client ends up with another protocol version than our own session, such as the "
                    "handshake era with a server that speaks the modern one."),
    CheckSpec(id="client/hidden-request", severity="error", source="ours",
              fires="What a user of the official client asks for fails at a request that the user did not ask for."),
    CheckSpec(id="process/crashed", severity="error", source="ours",
              fires="The process ended by itself after its first answer: the call in flight, exit code, stderr tail."),
    CheckSpec(id="process/late-exit", severity="warning", exempt="process/late-exit", subject="any",
              source="MCP basic/lifecycle#shutdown",
              fires="No exit when stdin closed: a warning if SIGTERM ended the process, an error if only SIGKILL did."),
    CheckSpec(id="process/secret-told", severity="error", exempt="process/secret-told", subject="any", source="ours",
              fires="A secret that the server was given, in its environment or by a header, stands in a result, an "
                    "error, a notification or on stderr; what a call brought itself may come back."),
    CheckSpec(id="process/bad-exit", severity="warning", exempt="process/bad-exit", subject="any", source="ours",
              fires="The process ended by itself when its stdin was closed, but with an exit code other than 0 (a "
                    "warning) or by a signal such as SIGSEGV (an error)."),
    CheckSpec(id="process/orphan", severity="error", exempt="process/orphan", subject="any",
              source="MCP basic/lifecycle#shutdown",
              fires="Processes of the server's, or the container that its command ran, were alive after it was gone."),
    CheckSpec(id="suite/step-failed", severity="error", source="ours",
              fires="A step's expectation did not hold."),
    CheckSpec(id="suite/timed-out", severity="error", source="ours",
              fires="A step or a case had no end in its time."),
    CheckSpec(id="suite/unresolved", severity="error", source="ours",
              fires="A capture found nothing, or a placeholder had no value when the step came."),
    CheckSpec(id="suite/cleanup-failed", severity="warning", source="ours",
              fires="A cleanup step did not do what it expects of itself."),
    CheckSpec(id="suite/command-failed", severity="error", source="ours",
              fires="A command of `[suites]`, or pytest, did not end with exit code 0 in its time, or could not be "
                    "started."),
    CheckSpec(id="suite/command-recorded-nothing", severity="error", source="ours",
              fires="A command of `[suites]`, or pytest, passed, and no server was started through the proxy or the "
                    "plugin while it ran: it proves nothing."),
    CheckSpec(id="strict/unknown-tool-is-error", severity="error", source="MCP server/tools#error-handling",
              fires="A deliberate call (`unlisted = true`, or ours) of a tool that is not in tools/list was answered "
                    "with an isError result instead of a JSON-RPC error."),
    CheckSpec(id="strict/no-request-unanswered", severity="error", source=_RPC,
              fires="A line with an id that is no JSON-RPC request is never answered, by a server that passes over "
                    "every such line, as those of the official SDKs do."),
    # what tools say of themselves
    CheckSpec(id="annotation/missing", severity="warning", source="MCP server/tools#tool",
              fires="A tool without readOnlyHint, or, where that is not true, without destructiveHint or "
                    "idempotentHint. A server none of whose tools has annotations is one finding."),
    CheckSpec(id="annotation/malformed", severity="error", source="MCP server/tools#tool",
              fires="Annotations that are no object, or a hint that is neither true nor false."),
    CheckSpec(id="annotation/contradicted", severity="error", source="ours",
              fires="A hint that a recorded call shows to be wrong, or `readOnlyHint` true on a tool that by its name "
                    "deletes; a warning where only another verb or another hint speaks against it."),
    # what calls used, and what lists cost
    CheckSpec(id="parameters/missing", severity="error", exempt="parameters", subject="parameter", source="ours",
              fires="A parameter, a listed value or a form of one that no answered call used, where `[checks] "
                    "parameters = \"require\"` asks for it, in a cell whose planned runs all finished."),
    CheckSpec(id="tokens/over-budget", severity="error", source="ours",
              fires="The list of tools costs a model more tokens, by the estimate, than `[checks] tokens` allows."),
    # what input schemas leave open; all of it off by default
    CheckSpec(id="strict/additional-properties", severity="error", source="ours",
              fires="An object with parameters, or the arguments as a whole, without `additionalProperties: false`."),
    CheckSpec(id="strict/required", severity="warning", source="ours",
              fires="A parameter that is neither required nor has a default nor takes null."),
    CheckSpec(id="strict/bounded-strings", severity="warning", source="ours",
              fires="A string without maxLength, enum, const, pattern or format."),
    CheckSpec(id="strict/bounded-numbers", severity="warning", source="ours",
              fires="A number without both a minimum and a maximum, and without enum or const."),
    CheckSpec(id="strict/bounded-arrays", severity="warning", source="ours",
              fires="An array without maxItems."),
    CheckSpec(id="strict/enum-in-prose", severity="warning", source="ours",
              fires="A string whose description names its few values, where there is no enum."),
    CheckSpec(id="strict/descriptions", severity="error", source="ours",
              fires="A tool or a parameter without a description."),
    CheckSpec(id="strict/page-limit", severity="warning", source="ours",
              fires="A tool that by its name lists things, without a parameter that limits how many, or with one that "
                    "has no maximum."),
    # what tools give
    CheckSpec(id="output-schema/missing", severity="error", exempt="output-schema", subject="tool", source="ours",
              fires="A tool that declares no output schema, in a revision that has them (2025-06-18 on). A server none "
                    "of whose tools declares one is one finding, and the subject `*` excuses it."),
    CheckSpec(id="output-schema/root", severity="error", source=_OUTPUT,
              fires="The root of an output schema has not the type `object` (null counts as declared, `$ref` or "
                    "`anyOf` alone are none), also where no revision is known; from 2026-07-28 on only what is no "
                    "JSON object at all."),
    CheckSpec(id="output-schema/invalid", severity="error", source=_OUTPUT,
              fires="An output schema that is not valid by the meta-schema of its dialect."),
    CheckSpec(id="output-schema/mismatch", severity="error", source=_OUTPUT,
              fires="structuredContent that the output schema, as listed in that run, does not allow, or that is no "
                    "object where the revision asks for one. Violations of `format` alone are a warning."),
    CheckSpec(id="output-schema/no-structured", severity="error", source=_OUTPUT,
              fires="A tool that declares an output schema gave a result that is no error, without structuredContent."),
    CheckSpec(id="output-schema/text-disagrees", severity="warning", source="MCP server/tools#structured-content",
              fires="The JSON in a result's texts contradicts its structuredContent."),
    # what schemas and names lose tools, with which client; sources of the portability family are clients' own refusals
    CheckSpec(id="portability/root-composition", severity="error", source=_CLIENTS,
              fires="oneOf, anyOf, allOf, not or enum at the root of a tool's arguments."),
    CheckSpec(id="portability/root-type", severity="error", source=_TOOLS,
              fires="The root of a tool's arguments has not `type: object`."),
    CheckSpec(id="portability/root-properties", severity="warning", source=_CLIENTS,
              fires="The root of a tool's arguments has no `properties`."),
    CheckSpec(id="portability/array-items", severity="error", source=_CLIENTS,
              fires="An array without `items`, at any depth."),
    CheckSpec(id="portability/tuple-items", severity="error", source=_CLIENTS,
              fires="`items` as a list; a warning for `prefixItems` beside `items`."),
    CheckSpec(id="portability/type-union", severity="warning", source=_CLIENTS,
              fires="`type` is a list of type names; an error where \"array\" is one and there are no `items`."),
    CheckSpec(id="portability/untyped-schema", severity="warning", source=_CLIENTS,
              fires="A schema without any constraining keyword, such as `{}` or a description alone; not directly "
                    "under `not`."),
    CheckSpec(id="portability/missing-type", severity="warning", source=_CLIENTS,
              fires="A schema that constrains something and says no type."),
    CheckSpec(id="portability/boolean-schema", severity="error", source=_CLIENTS,
              fires="`true` or `false` where a schema object is expected, in input or output; not as "
                    "`additionalProperties` and its kin."),
    CheckSpec(id="portability/enum-values", severity="error", source=_CLIENTS,
              fires="An enum of other values than strings, with an empty string, of another type, or empty; a warning "
                    "for a value that stands twice."),
    CheckSpec(id="portability/const-keyword", severity="warning", source=_CLIENTS,
              fires="`const`."),
    CheckSpec(id="portability/string-format", severity="warning", source=_CLIENTS,
              fires="A format of strings other than date-time."),
    CheckSpec(id="portability/required-unknown", severity="error", source=_CLIENTS,
              fires="`required` names what is not in `properties`."),
    CheckSpec(id="portability/keyword-mismatch", severity="error", source=_CLIENTS,
              fires="`items` on what is no array, `properties` or `required` on what is no object."),
    CheckSpec(id="portability/property-key", severity="error", source=_CLIENTS,
              fires="A property name with other characters than letters, digits, `_`, `.` and `-`, or of more "
                    "than 64."),
    CheckSpec(id="portability/pattern-lookaround", severity="error", source=_CLIENTS,
              fires="A pattern with a lookahead, a lookbehind or a back-reference."),
    CheckSpec(id="portability/pattern-syntax", severity="error", source=_REGEX,
              fires="A pattern with a construct of one engine, such as `(?i)` or `\\A`; a warning for Unicode property "
                    "classes, and for what ECMA-262 refuses with its flag u, such as `[\\w-.]`."),
    CheckSpec(id="portability/pattern-anchors", severity="warning", source=_CLIENTS,
              fires="A pattern that does not begin with ^ and end with $."),
    CheckSpec(id="portability/nested-composition", severity="warning", source=_CLIENTS,
              fires="oneOf or allOf below the root of a tool's arguments."),
    CheckSpec(id="portability/unsupported-keyword", severity="warning", source=_CLIENTS,
              fires="A keyword that Gemini's function declarations have not: exclusive bounds, multipleOf, "
                    "uniqueItems, "
                    "patternProperties, propertyNames, contains, not, if, dependent and unevaluated ones."),
    CheckSpec(id="portability/local-ref", severity="warning", source=_CLIENTS,
              fires="A reference to #/$defs/… or #/definitions/… in a tool's arguments."),
    CheckSpec(id="portability/ref-target", severity="error", source=_CLIENTS,
              fires="A reference to another place of the same schema, such as #/properties/…."),
    CheckSpec(id="portability/recursive-ref", severity="error", source=_CLIENTS,
              fires="A schema that holds itself; a warning in an output schema, unless nobody can follow it."),
    CheckSpec(id="portability/dangling-ref", severity="error", source="JSON Schema: $ref has to be resolvable",
              fires="A reference to what is not there, in input or output."),
    CheckSpec(id="portability/remote-ref", severity="error", source="MCP basic#json-schema-usage",
              fires="`$ref` to another document, in input or output; clients must not fetch it."),
    CheckSpec(id="portability/ref-expansion", severity="error", source="ours",
              fires="References that make more than 10,000 schemas of a schema where they are written out."),
    CheckSpec(id="portability/default-value", severity="warning", source=_CLIENTS,
              fires="A default of another type than its schema's, or one that its enum has not."),
    CheckSpec(id="portability/dialect", severity="warning", source="MCP basic#json-schema-usage",
              fires="A keyword that means nothing in the dialect in force, or a `$schema` that nobody knows; an error "
                    "for a spelling that only an old draft allows."),
    CheckSpec(id="validity/input-schema", severity="error", source=_TOOLS,
              fires="A tool without an inputSchema, or with one that is no object."),
    CheckSpec(id="validity/schema", severity="error", source="JSON Schema: the meta-schema of the dialect in force",
              fires="An input schema that is none; a warning where draft-07 allows it and no revision says "
                    "which dialect "
                    "is meant."),
    CheckSpec(id="validity/pattern", severity="error", source=_REGEX,
              fires="A pattern that no engine reads."),
    CheckSpec(id="validity/too-deep", severity="error", source="ours",
              fires="A schema of more than 128 levels, or an answer to tools/list that is nested too deeply to "
                    "be read."),
    CheckSpec(id="validity/too-large", severity="error", source="ours",
              fires="A schema of more than 50,000 subschemas or a million characters; it is not judged."),
    CheckSpec(id="names/empty", severity="error", source=_TOOLS,
              fires="A tool whose name is missing, empty or no text."),
    CheckSpec(id="names/characters", severity="error", source=_TOOLS,
              fires="A tool name with other characters than letters, digits, `_` and `-`; a warning for a dot, "
                    "and for a "
                    "digit or `-` at the beginning."),
    CheckSpec(id="names/length", severity="error", source=_CLIENTS,
              fires="A tool name of more than 64 characters."),
    CheckSpec(id="names/prefixed-length", severity="warning", source=_CLIENTS,
              fires="A tool name that is too long together with the server's name and a client's prefix."),
    CheckSpec(id="names/duplicate", severity="error", source=_TOOLS,
              fires="Two tools of one name."),
    CheckSpec(id="names/look-alike", severity="warning", source="ours",
              fires="Tool names that differ only by case, or by a character that clients replace."),
    CheckSpec(id="names/too-many", severity="warning", source=_CLIENTS,
              fires="More than 40 tools, and more than 128."),
    CheckSpec(id="contract/breaking", severity="error", source="ours",
              fires="The lists are not what contract.json says, and calls or readers of results that were right may "
                    "fail now: a tool or parameter is gone, the input is narrower, the output wider."),
    CheckSpec(id="contract/unknown", severity="error", source="ours",
              fires="The lists are not what contract.json says, and whether that breaks a caller could not be told."),
    CheckSpec(id="contract/additive", severity="error", source="ours",
              fires="The lists are more than contract.json says: a new tool or optional parameter, a wider input, a "
                    "narrower output."),
    CheckSpec(id="contract/routing", severity="error", source="ours",
              fires="A description, title or annotation is not what contract.json says: no call breaks, and models "
                    "choose and fill tools by it."),
    CheckSpec(id="contract/differs", severity="error", source="ours",
              fires="The lists of some eras, profiles or backends are not those of the others, and contract.json does "
                    "not say so."),
)  # fmt: skip

CHECKS: dict[str, CheckSpec] = {check.id: check for check in _ALL}
OFF_BY_DEFAULT: frozenset[str] = frozenset({"strict"})  # families that are judged where `[checks]` names them
FAMILIES: tuple[str, ...] = tuple(sorted({check.id.partition("/")[0] for check in _ALL}))


def family_of(check: str) -> str:
    """The part before the slash."""
    return check.partition("/")[0]


def exemptable() -> dict[str, tuple[str, ...]]:
    """How exemptions name checks -> the ids that each such name excuses."""
    out: dict[str, tuple[str, ...]] = {}
    for check in _ALL:
        if check.exempt:
            out[check.exempt] = (*out.get(check.exempt, ()), check.id)
    return out
