"""Backends as people look for them: the catalogue, everything of one, and the outputs of one that stands.

Text and JSON; the JSON documents are published: `schema/backends.schema.json` and `schema/backend-try.schema.json`.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from harness.model.plan import BackendSpec, EmbeddedSpec, ProvisionSpec, ReadySpec, ResetSpec, ServiceSpec
from harness.report.ansi import Paint
from harness.report.escape import visible, wrap

__all__ = [
    "MASK",
    "SCHEMA",
    "Shelved",
    "Stood",
    "backend_to_text",
    "backends_to_json",
    "backends_to_text",
    "forms_of",
    "published_schema",
    "stood_to_json",
    "stood_to_text",
]

SCHEMA = 1
MASK = "****"
_HEAD = ("backend", "versions", "forms", "from", "outputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    """A backend that can be had. `shipped`: it came with mcp-rollcall, else it is a project's own."""

    spec: BackendSpec
    shipped: bool

    @property
    def source(self) -> str:
        """Where it comes from, for people."""
        return "shipped" if self.shipped else self.spec.place.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """A backend that was stood up.

    Attributes:
        runtime: "docker" or "process".
        reported: The version that the service says itself, "" if it does not.
        seconds: From the start of its first service to the end of provisioning; without builds and installations.
        outputs: Name -> value, masked where it was not asked for; of secrets None then.
        addresses: host:port, all that was handed out.
    """

    spec: BackendSpec
    version: str
    runtime: str
    reported: str
    seconds: float
    outputs: Mapping[str, str | None]
    addresses: tuple[str, ...]


def forms_of(spec: BackendSpec) -> list[str]:
    """The forms that a backend has: "docker", "embedded"."""
    return [*(["docker"] if spec.services else []), *(["embedded"] if spec.process is not None else [])]


def published_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document: "backends" or "backend-try"."""
    path = files("harness.report") / "schema" / f"{name}.schema.json"
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


# --- the catalogue --------------------------------------------------------------------------------


def backends_to_text(items: Sequence[Shelved], *, color: bool, width: int) -> str:
    """A line for each backend and its summary below it, with a newline at its end."""
    if not items:
        return "there is no backend\n"
    paint = Paint(color)
    table = [_HEAD, *(_row(item) for item in items)]
    widths = [max(len(row[index]) for row in table) for index in range(len(_HEAD) - 1)]
    out = []
    for number, row in enumerate(table):
        line = "  ".join([*(part.ljust(size) for part, size in zip(row, widths, strict=False)), row[-1]]).rstrip()
        out.append(paint("bold", line) if number == 0 else line)
        if number and items[number - 1].spec.summary:
            out += wrap(visible(items[number - 1].spec.summary), width, first="    ", rest="    ")
    return "\n".join([*out, "", "* is the default version; (secret) outputs are masked wherever they are shown"]) + "\n"


def _row(item: Shelved) -> tuple[str, ...]:
    spec = item.spec
    marked = [f"{name}*" if name == spec.default else name for name in spec.versions]
    outputs = [f"{output.name} (secret)" if output.secret else output.name for output in spec.outputs]
    source = item.source if item.shipped else "project"
    forms = ", ".join({"docker": "Docker"}.get(form, form) for form in forms_of(spec))
    return (spec.name, ", ".join(marked) or "-", forms, source, ", ".join(outputs))


def backends_to_json(items: Sequence[Shelved]) -> str:
    """All of them, with everything, as one JSON document with a newline at its end."""
    return _dump({"schema": SCHEMA, "backends": [_json(item) for item in items]})


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


# --- one of them ----------------------------------------------------------------------------------


def backend_to_text(item: Shelved, *, color: bool, width: int) -> str:
    """Everything of one backend, with a newline at its end."""
    paint, spec = Paint(color), item.spec
    out = [paint("bold", spec.name) + (f": {visible(spec.summary)}" if spec.summary else "")]
    out.append(f"  from      {item.source if not item.shipped else f'{spec.place.file} (shipped)'}")
    out.append(f"  forms     {', '.join(forms_of(spec))}")
    for version in spec.versions.values():
        facts = [f"{key}={value}" for key, value in version.build_args.items()]
        facts += [f"{service}: {image}" for service, image in version.images.items()]
        default = " (default)" if version.name == spec.default else ""
        out.append(f"  version   {version.name}{default}{': ' + ', '.join(facts) if facts else ''}")
    for name, length in spec.secrets.items():
        out.append(f"  secret    {name}: {length} random characters, new for every stack")
    for service in spec.services:
        out += [
            "",
            f"{paint('bold', 'service')} {service.name}{' (runs once, must end with 0)' if service.init else ''}",
        ]
        out += [f"  {key:<9} {visible(text)}" for key, text in _service_lines(service)]
    if spec.process is not None:
        out += ["", paint("bold", "embedded, without Docker")]
        out += [f"  {key:<9} {visible(text)}" for key, text in _process_lines(spec.process)]
    if spec.provision:
        out += ["", paint("bold", "provisioning")]
        for number, step in enumerate(spec.provision, start=1):
            gives = f"; gives {', '.join(step.capture)}" if step.capture else ""
            out += wrap(visible(f"{_step(step)}{gives}"), width, first=f"  {number}  ", rest="     ")
    if resets := _resets(spec):
        out += ["", paint("bold", "reset after a run, with --reuse-stacks")]
        for form, reset in resets.items():
            looks = "a check" if len(reset.verify) == 1 else f"{len(reset.verify)} checks"
            steps = "a step" if len(reset.steps) == 1 else f"{len(reset.steps)} steps"
            out.append(f"  {form:<9} {steps}, proved by {looks}")
    out += ["", paint("bold", "outputs")]
    size = max((len(output.name) for output in spec.outputs), default=0)
    for output in spec.outputs:
        out.append(f"  {output.name:<{size}}  {visible(output.value)}{'  (secret)' if output.secret else ''}")
    if not spec.outputs:
        out.append("  none")
    return "\n".join(out) + "\n"


def _resets(spec: BackendSpec) -> dict[str, ResetSpec]:
    """The forms that can be made as good as new, and how."""
    embedded = spec.process.reset if spec.process is not None else None
    return {form: reset for form, reset in (("docker", spec.reset), ("embedded", embedded)) if reset is not None}


def _service_lines(service: ServiceSpec) -> Iterator[tuple[str, str]]:
    if service.dockerfile is not None:
        yield "built", f"from {posixpath.normpath(posixpath.join(service.context, service.dockerfile))}"
    if service.image is not None:
        yield "image", service.image
    for name, port in service.ports.items():
        yield "port", f"{name}: {port} inside, an ephemeral one on 127.0.0.1"
    if service.needs:
        yield "needs", ", ".join(service.needs)
    for key, value in service.env.items():
        yield "env", f"{key}={value}"
    if service.command is not None:
        yield "command", json.dumps(list(service.command), ensure_ascii=False)
    for target, source in service.mounts.items():
        yield "mount", f"{source} at {target}, read-only"
    for volume in service.volumes:
        yield "volume", f"{volume.name or 'a new one'} at {volume.target}{', read-only' if volume.read_only else ''}"
    for target in service.tmpfs:
        yield "tmpfs", target
    if not service.init:
        yield "ready", f"{_ready(service.ready)}, within {service.ready_timeout_s:g} s"


def _process_lines(process: EmbeddedSpec) -> Iterator[tuple[str, str]]:
    for requirement in process.install:
        yield "install", requirement
    if process.python is not None:
        yield "python", process.python
    yield "command", json.dumps(list(process.command), ensure_ascii=False)
    for port in process.ports:
        yield "port", f"{port}: a free one on 127.0.0.1"
    for key, value in process.env.items():
        yield "env", f"{key}={value}"
    for name in process.files:
        yield "file", f"${{dir}}/{name}"
    yield "ready", f"{_ready(process.ready)}, within {process.ready_timeout_s:g} s"


def _ready(ready: ReadySpec | None) -> str:
    if ready is None or ready.image:
        return "the image's own HEALTHCHECK"
    if ready.exec is not None:
        return f"exec {json.dumps(list(ready.exec), ensure_ascii=False)} ends with 0"
    if ready.http is not None:
        wanted = " or ".join(map(str, ready.status)) + (f" and {ready.body!r} in it" if ready.body else "")
        return f"{ready.method} {ready.path} on port {ready.http} is answered with {wanted}"
    return f"port {ready.tcp} answers {ready.send or ''!r} with {ready.expect or ''!r}"


def _step(step: ProvisionSpec) -> str:
    if step.exec is not None:
        return f"exec in {step.service or 'the first service'}: {json.dumps(list(step.exec), ensure_ascii=False)}"
    if step.script is not None:
        return f"script {step.script}" + (f" in {step.service}" if step.service else "")
    return f"{step.method} {step.url}"


def _json(item: Shelved) -> dict[str, Any]:
    spec = item.spec
    return {
        "name": spec.name,
        "summary": spec.summary,
        "shipped": item.shipped,
        "file": spec.place.file,
        "forms": forms_of(spec),
        "default": spec.default or None,
        "versions": [
            {"name": version.name, "build_args": dict(version.build_args), "images": dict(version.images)}
            for version in spec.versions.values()
        ],
        "secrets": dict(spec.secrets),
        "services": [
            {
                "name": service.name,
                "dockerfile": service.dockerfile,
                "image": service.image,
                "ports": dict(service.ports),
                "needs": list(service.needs),
                "init": service.init,
                "mounts": dict(service.mounts),
                "tmpfs": list(service.tmpfs),
                "environment": dict(service.env),
                "command": list(service.command) if service.command is not None else None,
                "ready": None if service.init else _ready(service.ready),
            }
            for service in spec.services
        ],
        "embedded": None
        if spec.process is None
        else {
            "install": list(spec.process.install),
            "command": list(spec.process.command),
            "ports": list(spec.process.ports),
            "ready": _ready(spec.process.ready),
        },
        "provision": [{"step": _step(step), "gives": list(step.capture)} for step in spec.provision],
        "reset": list(_resets(spec)),
        "outputs": [{"name": item.name, "value": item.value, "secret": item.secret} for item in spec.outputs],
    }


# --- one that stands ------------------------------------------------------------------------------


def stood_to_text(stood: Stood, *, color: bool) -> str:
    """The outputs, with a newline at the end."""
    paint = Paint(color)
    form = "in Docker" if stood.runtime == "docker" else "as a process"
    reported = f", which says it is {stood.reported}" if stood.reported else ""
    out = [paint("bold", f"{stood.spec.name}@{stood.version}") + f" stands {form}{visible(reported)}"]
    secret = {output.name for output in stood.spec.outputs if output.secret}
    size = max(map(len, stood.outputs), default=0)
    for name, value in stood.outputs.items():
        note = "  (secret)" if name in secret else ""
        out.append(f"  {name:<{size}}  {MASK if value is None else visible(value)}{note}")
    if not stood.outputs:
        out.append("  it has no outputs")
    if None in stood.outputs.values():
        out.append("  --show-secrets shows the secret ones")
    return "\n".join(out) + "\n"


def stood_to_json(stood: Stood) -> str:
    """The same as one JSON document, with a newline at its end."""
    secret = {output.name for output in stood.spec.outputs if output.secret}
    return _dump(
        {
            "schema": SCHEMA,
            "backend": stood.spec.name,
            "version": stood.version,
            "runtime": stood.runtime,
            "reported_version": stood.reported or None,
            "ready_s": round(stood.seconds, 3),
            "addresses": list(stood.addresses),
            "outputs": {name: {"value": value, "secret": name in secret} for name, value in stood.outputs.items()},
        }
    )
