"""backend.toml and the folder around it -> BackendSpec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from harness.config.compose import Composed, read_services
from harness.config.problems import Path, Problem, did_you_mean, quoted
from harness.config.toml import Document, Files
from harness.config.validate import check, other_version
from harness.config.values import (
    Scope,
    bad_pattern,
    escapes,
    items,
    python_problem,
    strings,
    table,
    text,
    texts,
    unknown_placeholders,
)
from harness.config.yaml import parse_yaml
from harness.model.choices import EMBEDDED
from harness.model.plan import (
    BackendSpec,
    EmbeddedSpec,
    OutputSpec,
    ProvisionSpec,
    ReadySpec,
    ResetSpec,
    ServiceSpec,
    VersionSpec,
)
from harness.model.regular import read_regular

__all__ = ["FILE", "Shelf", "read_backend"]

FILE = "backend.toml"


class Shelf:
    """The backends that can be had: a project's own ones first, then the shipped ones. Each is read once."""

    def __init__(self, files: Files, catalogue: Sequence[FilePath]) -> None:
        self._files = files
        self._catalogue = tuple(catalogue)
        self._read: dict[FilePath, BackendSpec | None] = {}

    def find(self, name: str, root: FilePath) -> BackendSpec | Sequence[str] | None:
        """The backend of this name for a project.

        Returns:
            The backend; None if it has problems (they have been added); else the names that there are.
        """
        shelves = (root / "backends", *self._catalogue)
        for shelf in shelves:
            folder = shelf / name
            if not escapes(name) and "/" not in name and (folder / FILE).is_file():
                key = folder.resolve()
                if key not in self._read:
                    self._read[key] = read_backend(self._files, folder)
                return self._read[key]
        return self.names(root)

    def names(self, root: FilePath) -> list[str]:
        """The names of all backends that a project can use."""
        shelves = (root / "backends", *self._catalogue)
        return sorted({file.parent.name for shelf in shelves for file in shelf.glob(f"*/{FILE}")})


def read_backend(files: Files, folder: FilePath) -> BackendSpec | None:
    """The backend in a folder; None where its problems have been added instead."""
    document = files.read(folder / FILE)
    if document is None:
        return None
    other = other_version(document, "backend")
    if other is not None:
        files.add(other)
        return None
    before = len(files.problems)
    told = list(check(document, "backend"))
    composed = _composed(files, document, folder, sound=not told)
    problems = [*told, *_problems(document, folder, composed), *composed.problems]
    files.add(*problems)
    # a compose file that cannot be read is among the files' problems already
    return None if len(files.problems) > before else _build(document, folder.absolute(), composed)


def _composed(files: Files, document: Document, folder: FilePath, *, sound: bool) -> Composed:
    """The services of the compose file that a backend names; none where it names none.

    Args:
        sound: The backend fits its schema.
    """
    settings = table(document.data.get("compose"))
    name = text(settings.get("file"))
    if not name:
        return Composed()
    if "services" in document.data:
        hint = "put all services into one of them"
        return Composed(problems=[document.problem(("compose",), "there is [services] too", hint, table=True)])
    wrong = list(_beside(document, ("compose", "file"), name, folder))
    if wrong:
        return Composed(problems=wrong)
    data = files.read_bytes(folder / name)
    if data is None:
        return Composed(problems=[])
    found = parse_yaml(data, file=files.name(folder / name))
    if isinstance(found, Problem):
        return Composed(problems=[found])
    ports = {}
    for port, value in table(settings.get("ports")).items():
        service, colon, number = value.partition(":") if isinstance(value, str) else ("", "", "")
        if colon and number.isascii() and number.isdigit():
            ports[port] = (service, int(number))
    out = read_services(
        found,
        folder=folder.absolute(),
        variables={key: item for key, item in table(settings.get("variables")).items() if isinstance(item, str)},
        ports=ports,
        ready={
            key: _ready(item) if sound else ReadySpec(image=True) for key, item in table(settings.get("ready")).items()
        },
    )
    data_services = table(table(found.data).get("services"))
    for port, (service, inside) in ports.items():
        if data_services and service not in data_services:
            hint = did_you_mean(service, data_services)
            out.problems.append(
                document.problem(("compose", "ports", port), f"there is no service {quoted(service)}", hint)
            )
        elif not 0 < inside < 65536:
            out.problems.append(document.problem(("compose", "ports", port), f"{inside} is no port"))
    for service, ready in table(settings.get("ready")).items():
        path: Path = ("compose", "ready", service)
        if data_services and service not in data_services:
            out.problems.append(
                document.problem(path, f"there is no service {quoted(service)}", did_you_mean(service, data_services))
            )
        mine = {port: item[1] for port, item in ports.items() if item[0] == service}
        out.problems += _ready_problems(document, path, ready, mine)
    if not out.problems:
        for cycle in _cycles({service.name: list(service.needs) for service in out.services}):
            where: Path = ("services", cycle[0], "depends_on")
            out.problems.append(found.problem(where, f"services need each other in a circle: {' -> '.join(cycle)}"))
    return out


# --- what a schema cannot say -------------------------------------------------------------------


def _problems(document: Document, folder: FilePath, composed: Composed) -> Iterator[Problem]:
    data = document.data
    services, process = table(data.get("services")), table(data.get("process"))
    for path, string in strings(data, ()):
        if "\0" in string:
            yield document.problem(path, "a NUL character, which no program can be given")
    name = text(data.get("name"))
    if name is not None and name != folder.absolute().name:
        yield document.problem(
            ("name",), f"{quoted(name)} stands in a folder named {quoted(folder.absolute().name)}", "give both one name"
        )
    if "compose" in data and (composed.problems or not composed.services):
        return  # without its services there is more that does not fit than there are faults
    yield from _service_problems(document, services, folder)
    if composed.services:
        services = {item.name: {"ports": dict(item.ports), "init": item.init} for item in composed.services}
    yield from _version_problems(document, services)
    yield from _provision_problems(document, services, folder)
    yield from _reset_problems(document, services)
    yield from _process_problems(document, process, services)
    yield from _placeholder_problems(document, services, process)


def _version_problems(document: Document, services: Mapping[str, Any]) -> Iterator[Problem]:
    data = document.data
    versions = table(data.get("versions"))
    default = text(data.get("default"))
    if services and "versions" not in data:
        yield document.problem(
            ("compose" if "compose" in data else "services",),
            "there is no [versions.<name>]",
            "containers have a version",
            table=True,
        )
    if EMBEDDED in versions:
        yield document.problem(
            ("versions", EMBEDDED), f"{EMBEDDED} is what the process form is called; use another name"
        )
    if default is not None and default not in versions:
        yield document.problem(("default",), f"there is no version {quoted(default)}", did_you_mean(default, versions))
    if "default" not in data and len(versions) > 1:
        yield document.problem((), "the key default is missing", f"one of the versions: {', '.join(versions)}")
    for version, settings in versions.items():
        for service in table(table(settings).get("images")):
            if service not in services:
                hint = did_you_mean(service, services)
                yield document.problem(("versions", version, "images", service), "there is no such service", hint)


def _service_problems(document: Document, services: Mapping[str, Any], folder: FilePath) -> Iterator[Problem]:
    ports: dict[str, str] = {}
    for name, value in services.items():
        service, path = table(value), ("services", name)
        for port in table(service.get("ports")):
            if port in ports:
                yield document.problem(
                    (*path, "ports", port),
                    f"the service {ports[port]} has a port of this name too",
                    "names of ports are unique in a backend: ${address.…} goes by them",
                )
            ports.setdefault(port, name)
        beside: list[tuple[Path, Any]] = [((*path, "dockerfile"), service.get("dockerfile"))]
        beside += [((*path, "mounts", key), target) for key, target in table(service.get("mounts")).items()]
        for where, target in beside:
            if isinstance(target, str):
                yield from _beside(document, where, target, folder)
        for index, other in enumerate(items(service.get("needs"))):
            if isinstance(other, str) and other not in services:
                hint = did_you_mean(other, services)
                yield document.problem((*path, "needs", index), f"there is no service {quoted(other)}", hint)
        if service.get("init") is True:
            if "ready" in service:
                hint = "an init service is ready when it has ended with 0"
                yield document.problem((*path, "ready"), "an init service takes no such check", hint)
        elif isinstance(value, dict) and "ready" not in service:
            yield document.problem(
                path,
                "the key ready is missing",
                "say how to see that the service is ready; a port is not enough",
                table=True,
            )
        yield from _ready_problems(document, (*path, "ready"), service.get("ready"), table(service.get("ports")))
    for cycle in _cycles({name: texts(table(service).get("needs")) for name, service in services.items()}):
        where = ("services", cycle[0], "needs")
        yield document.problem(where, f"services need each other in a circle: {' -> '.join(cycle)}")


def _beside(document: Document, path: Path, target: str, folder: FilePath) -> Iterator[Problem]:
    if escapes(target) or not (folder / target).resolve().is_relative_to(folder.resolve()):
        yield document.problem(path, f"{quoted(target)} is not inside the backend's folder")
    elif not (folder / target).exists():
        yield document.problem(path, f"there is no {quoted(target)} beside this file")
    elif path[-1] in ("dockerfile", "script") and not (folder / target).is_file():
        yield document.problem(path, f"{quoted(target)} is no file")


def _ready_problems(document: Document, path: Path, ready: Any, ports: Any) -> Iterator[Problem]:
    for kind in ("http", "tcp"):
        port = table(ready).get(kind)
        if isinstance(port, str) and port not in ports:
            hint = did_you_mean(port, ports, what="ports") or "it has no ports"
            yield document.problem((*path, kind), f"there is no port {quoted(port)} here", hint)


def _cycles(needs: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Circles of services, the first one again at the end of each."""
    done: set[str] = set()
    for start in needs:
        trail: list[str] = []
        branches = [iter([start])]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                if trail:
                    done.add(trail.pop())
            elif name in trail:
                yield [*trail[trail.index(name) :], name]
            elif name in needs and name not in done:
                trail.append(name)
                branches.append(iter(needs[name]))


def _provision_problems(document: Document, services: Mapping[str, Any], folder: FilePath) -> Iterator[Problem]:
    for index, value in enumerate(items(document.data.get("provision"))):
        step, path = table(value), ("provision", index, "service")
        service = text(step.get("service"))
        if isinstance(step.get("script"), str):
            yield from _script_problems(document, ("provision", index, "script"), step["script"], folder)
            if services and "service" not in step:
                hint = f"the service that it runs in: {' or '.join(services)}"
                yield document.problem(("provision", index, "script"), "this goes with service, which is missing", hint)
        elif "service" in step and "exec" not in step:
            yield document.problem(path, "this goes with exec or script, which is missing")
        if service is not None and service not in services:
            yield document.problem(path, f"there is no service {quoted(service)}", did_you_mean(service, services))
        elif service is not None and table(services[service]).get("init") is True:
            yield document.problem(path, "an init service has ended by then", "name a service that stays")


def _reset_problems(document: Document, services: Mapping[str, Any]) -> Iterator[Problem]:
    reset = table(document.data.get("reset"))
    if reset and not services:
        hint = "how the form without Docker is reset stands in [process.reset]"
        yield document.problem(("reset",), "there are no services to reset", hint, table=True)
        return
    for part, index, step in _reset_steps(reset):
        path, service = ("reset", part, index, "service"), text(step.get("service"))
        if "service" in step and "exec" not in step:
            yield document.problem(path, "this goes with exec, which is missing")
        if service is None:
            continue
        if service not in services:
            yield document.problem(path, f"there is no service {quoted(service)}", did_you_mean(service, services))
        elif table(services[service]).get("init") is True:
            yield document.problem(path, "an init service has ended by then", "name a service that stays")


def _reset_steps(reset: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """The steps of a reset: where they stand, their number there from 0, and what they say."""
    for part in ("prepare", "steps", "verify"):
        for index, step in enumerate(items(reset.get(part))):
            yield part, index, table(step)


def _script_problems(document: Document, path: Path, name: str, folder: FilePath) -> Iterator[Problem]:
    wrong = list(_beside(document, path, name, folder))
    yield from wrong
    if wrong:
        return
    try:
        first = read_regular(folder / name, 200).partition(b"\n")[0]
    except OSError as error:
        yield document.problem(path, f"{quoted(name)} cannot be read: {(error.strerror or '').lower()}")
        return
    if not first.startswith(b"#!"):
        yield document.problem(path, f"{quoted(name)} does not begin with #!", "say what runs it, e.g. #!/bin/sh")
    elif first.endswith(b"\r"):
        hint = "write it with LF line ends; .gitattributes: *.sh text eol=lf"
        yield document.problem(path, f"the first line of {quoted(name)} ends with CR, so that nothing can run it", hint)


def _process_problems(document: Document, process: Mapping[str, Any], services: Mapping[str, Any]) -> Iterator[Problem]:
    python = text(process.get("python"))
    if python and (said := python_problem(python)) is not None:
        yield document.problem(("process", "python"), *said)
    for index, item in enumerate(items(process.get("install"))):
        if isinstance(item, str) and not _is_requirement(item):
            hint = 'write e.g. "radicale==3.5.0"'
            yield document.problem(("process", "install", index), f"{quoted(item)} is no requirement", hint)
    matches = text(table(process.get("version")).get("matches"))
    if matches and (wrong := bad_pattern(matches)):
        yield document.problem(("process", "version", "matches"), wrong)
    for name in table(process.get("files")):
        if escapes(name):
            yield document.problem(("process", "files", name), "not inside ${dir}", "write a relative path")
    if "image" in table(process.get("ready")):
        yield document.problem(("process", "ready", "image"), "the process form has no image", "use http, tcp or exec")
    yield from _ready_problems(document, ("process", "ready"), process.get("ready"), _process_ports(process, services))


def _is_requirement(item: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(item)
    except InvalidRequirement:
        return False
    return True


def _process_ports(process: Mapping[str, Any], services: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(texts(process["ports"]))) if "ports" in process else _service_ports(services)


def _service_ports(services: Mapping[str, Any]) -> list[str]:
    return [port for service in services.values() for port in table(table(service).get("ports"))]


def _placeholder_problems(
    document: Document, services: Mapping[str, Any], process: Mapping[str, Any]
) -> Iterator[Problem]:
    data = document.data
    secrets = {f"secret.{name}" for name in table(data.get("secrets"))} | {"version"}
    outer = _service_ports(services) if services else _process_ports(process, services)
    names = {f"service.{name}" for name in services}
    reached = secrets | names | {f"{kind}.{port}" for port in outer for kind in ("address", "port")}
    early = {
        "provisioned": "provisioning comes after the services are ready; outputs and later steps can use it",
        "dir": "only the process form has a folder of its own",
    }
    late = {**early, "provisioned": "only what an earlier step captures has a value"}
    unborn = "Docker chooses it when the container starts; from inside, a service is its name and the container's port"
    scope = Scope(known=secrets | names, elsewhere={**early, "address": unborn, "port": unborn})
    for key in ("versions", "services"):
        yield from unknown_placeholders(document, (key,), data.get(key), scope.judge)
    given = table(data.get("compose"))
    yield from unknown_placeholders(document, ("compose", "variables"), given.get("variables"), scope.judge)
    standing = Scope(known=reached, elsewhere=early)
    yield from unknown_placeholders(document, ("compose", "ready"), given.get("ready"), standing.judge)
    captured: set[str] = set()
    for index, step in enumerate(items(data.get("provision"))):
        body = {key: value for key, value in table(step).items() if key != "capture"}
        scope = Scope(known=reached | captured, elsewhere=late if not captured else {"dir": early["dir"]})
        yield from unknown_placeholders(document, ("provision", index), body, scope.judge)
        captured |= {f"provisioned.{name}" for name in table(table(step).get("capture"))}
    scope = Scope(known=reached | captured, elsewhere={"dir": early["dir"]})
    yield from unknown_placeholders(document, ("outputs",), data.get("outputs"), scope.judge)
    former = {f"former.{name}" for name in table(data.get("secrets"))}
    yield from _reset_placeholders(document, ("reset",), reached | captured, former, {"dir": early["dir"]})
    if not process:
        return
    ports = _process_ports(process, services)
    inner = secrets | {"dir"} | {f"{kind}.{port}" for port in ports for kind in ("address", "port")}
    inside = {"service": "without Docker there is no network of services", "provisioned": early["provisioned"]}
    scope = Scope(known=inner, elsewhere=inside)
    own = {key: value for key, value in process.items() if key != "reset"}
    yield from unknown_placeholders(document, ("process",), own, scope.judge)
    inside.pop("provisioned")
    yield from _reset_placeholders(document, ("process", "reset"), inner | captured, former, inside)
    if services and "ports" in process:  # the outputs are those of both forms
        lost = {f"{kind}.{port}" for port in set(outer) - set(ports) for kind in ("address", "port")}
        hint = f"[process] ports names {', '.join(ports) or 'none'}"
        for key in ("provision", "outputs"):
            yield from unknown_placeholders(
                document,
                (key,),
                data.get(key),
                lambda name: (f"${{{name}}} has no value in the process form", hint) if name in lost else None,
            )


def _reset_placeholders(
    document: Document, path: Path, known: set[str], former: set[str], elsewhere: Mapping[str, str]
) -> Iterator[Problem]:
    """Only the steps know the secrets that were in force until then."""
    late = {**elsewhere, "former": "only the steps of a reset know what was in force until then"}
    value: Any = document.data
    for key in path:
        value = table(value.get(str(key)))
    for part, index, step in _reset_steps(value):
        scope = (
            Scope(known=known | former, elsewhere=elsewhere) if part == "steps" else Scope(known=known, elsewhere=late)
        )
        yield from unknown_placeholders(document, (*path, part, index), step, scope.judge)


# --- building -----------------------------------------------------------------------------------


def _build(document: Document, folder: FilePath, composed: Composed) -> BackendSpec:
    data = document.data
    versions = {
        name: VersionSpec(name=name, build_args=dict(value.get("build_args", {})), images=dict(value.get("images", {})))
        for name, value in data.get("versions", {}).items()
    }
    services = data.get("services", {})
    ports = services or {item.name: {"ports": item.ports} for item in composed.services}
    return BackendSpec(
        name=data["name"],
        folder=folder,
        place=document.place(),
        summary=data.get("summary", ""),
        default=data.get("default", next(iter(versions), "")),
        versions=versions,
        secrets=dict(data.get("secrets", {})),
        services=composed.services or tuple(_service(name, value) for name, value in services.items()),
        provision=tuple(_provision(value) for value in data.get("provision", [])),
        outputs=tuple(
            OutputSpec(name=name, value=value)
            if isinstance(value, str)
            else OutputSpec(name=name, value=value["value"], secret=value.get("secret", False))
            for name, value in data.get("outputs", {}).items()
        ),
        process=_embedded(data["process"], ports) if "process" in data else None,
        reset=_reset(data.get("reset")),
    )


def _service(name: str, value: Mapping[str, Any]) -> ServiceSpec:
    return ServiceSpec(
        name=name,
        dockerfile=value.get("dockerfile"),
        image=value.get("image"),
        ports=dict(value.get("ports", {})),
        env=dict(value.get("env", {})),
        command=tuple(value["command"]) if "command" in value else None,
        needs=tuple(value.get("needs", ())),
        init=value.get("init", False),
        mounts=dict(value.get("mounts", {})),
        tmpfs=tuple(value.get("tmpfs", ())),
        ready=_ready(value["ready"]) if "ready" in value else None,
        ready_timeout_s=float(value.get("ready_timeout_s", 60.0)),
    )


def _ready(value: Mapping[str, Any]) -> ReadySpec:
    return ReadySpec(
        http=value.get("http"),
        path=value.get("path", "/"),
        method=value.get("method", "GET"),
        user=value.get("user"),
        password=value.get("password"),
        status=_statuses(value),
        body=value.get("body"),
        tcp=value.get("tcp"),
        send=value.get("send"),
        expect=value.get("expect"),
        exec=tuple(value["exec"]) if "exec" in value else None,
        image=value.get("image", False),
    )


def _statuses(value: Mapping[str, Any]) -> tuple[int, ...]:
    status = value.get("status", 200)
    return tuple(status) if isinstance(status, list) else (status,)


def _provision(value: Mapping[str, Any]) -> ProvisionSpec:
    http = value.get("http", {})
    return ProvisionSpec(
        service=value.get("service"),
        exec=tuple(value["exec"]) if "exec" in value else None,
        script=value.get("script"),
        env=dict(value.get("env", {})),
        url=http.get("url"),
        method=http.get("method", "GET"),
        user=http.get("user"),
        password=http.get("password"),
        headers=dict(http.get("headers", {})),
        body=http.get("body"),
        status=_statuses(http),
        capture=dict(value.get("capture", {})),
        timeout_s=float(value.get("timeout_s", 30.0)),
    )


def _reset(value: Mapping[str, Any] | None) -> ResetSpec | None:
    if value is None:
        return None
    return ResetSpec(
        prepare=tuple(_provision(step) for step in value.get("prepare", ())),
        steps=tuple(_provision(step) for step in value["steps"]),
        verify=tuple(_provision(step) for step in value["verify"]),
    )


def _embedded(value: Mapping[str, Any], services: Mapping[str, Any]) -> EmbeddedSpec:
    version = value.get("version", {})
    return EmbeddedSpec(
        command=tuple(value["command"]),
        install=tuple(value.get("install", ())),
        python=value.get("python"),
        ports=tuple(_process_ports(value, services)),
        env=dict(value.get("env", {})),
        files=dict(value.get("files", {})),
        version_command=tuple(version.get("command", ())),
        version_matches=version.get("matches"),
        ready=_ready(value["ready"]),
        ready_timeout_s=float(value.get("ready_timeout_s", 60.0)),
        reset=_reset(value.get("reset")),
    )
