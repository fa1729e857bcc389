"""An existing compose file -> the services of a backend, under the laws of every backend.

What has no place here is refused in words, with the line; nothing is passed over that would change what is tested.
Keys that only say how Docker looks after a container (restart, labels, logging) have no effect.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from harness.config.problems import Path, Problem, did_you_mean, quoted
from harness.config.values import escapes
from harness.config.yaml import YamlDocument
from harness.model.placeholders import names_in
from harness.model.plan import ReadySpec, ServiceSpec, VolumeSpec

__all__ = ["LITERAL_DOLLAR", "Composed", "read_services"]

LITERAL_DOLLAR = (
    "${$}"  # what `$$` becomes before a brace: our own placeholders are expanded later, and this one is a dollar sign
)
READY_TIMEOUT_S = 60.0
MAX_READY_TIMEOUT_S = 600.0

_TOP = ("services", "volumes", "networks", "name", "version")
_SERVICE = (
    "build",
    "command",
    "depends_on",
    "entrypoint",
    "environment",
    "healthcheck",
    "image",
    "networks",
    "ports",
    "tmpfs",
    "user",
    "volumes",
    "working_dir",
)
# Without effect here: the engine names, labels, starts and removes containers itself, each once.
_IDLE = frozenset(
    (
        "annotations",
        "attach",
        "container_name",
        "expose",
        "init",
        "labels",
        "logging",
        "pull_policy",
        "restart",
        "stdin_open",
        "stop_grace_period",
        "stop_signal",
        "tty",
    )
)
_HOST = "a backend has no more of the host than its own network and files"
_OUTSIDE = "a backend reaches nothing but its own services"
_REFUSED = {
    "blkio_config": _HOST,
    "cap_add": _HOST,
    "cgroup": _HOST,
    "cgroup_parent": _HOST,
    "configs": "mount a file of the folder under volumes",
    "credential_spec": _HOST,
    "deploy": "there is one container for each service; write limits into the image",
    "develop": "leave it out; it is for work on the image",
    "device_cgroup_rules": _HOST,
    "devices": _HOST,
    "dns": _OUTSIDE,
    "dns_opt": _OUTSIDE,
    "dns_search": _OUTSIDE,
    "env_file": "write the variables under environment, with values from [compose.variables]",
    "extends": "write the service out; a backend is one compose file",
    "external_links": _OUTSIDE,
    "extra_hosts": _OUTSIDE,
    "gpus": _HOST,
    "group_add": _HOST,
    "hostname": "a service is known by its name",
    "include": "write the services out; a backend is one compose file",
    "ipc": _HOST,
    "links": "a service is known by its name; say what it waits for under depends_on",
    "network_mode": "each backend has a network of its own",
    "pid": _HOST,
    "privileged": _HOST,
    "profiles": "all services are started; leave out those that are not meant",
    "provider": _HOST,
    "runtime": _HOST,
    "secrets": "give secrets as variables: [compose.variables], with values from [secrets]",
    "security_opt": _HOST,
    "sysctls": _HOST,
    "use_api_socket": _HOST,
    "userns_mode": _HOST,
    "uts": _HOST,
    "volumes_from": "name a volume that both services mount",
}
_BUILD = ("args", "context", "dockerfile")
_HEALTH = ("disable", "interval", "retries", "start_interval", "start_period", "test", "timeout")
_CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:?[-+?])(?P<other>[^{}]*(?:\$\{[^{}]*\}[^{}]*)*))?\}|(?P<bad>.?))",
    re.DOTALL,
)
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(h|ms|us|m|s))")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 0.000001}
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
MAX_SUBSTITUTIONS = 10


@dataclass(slots=True, kw_only=True)
class Composed:
    """What a compose file says; `services` are those that could be read."""

    services: tuple[ServiceSpec, ...] = ()
    problems: list[Problem] = field(default_factory=list)


def read_services(
    document: YamlDocument,
    *,
    folder: FilePath,
    variables: Mapping[str, str],
    ports: Mapping[str, tuple[str, int]],
    ready: Mapping[str, ReadySpec],
) -> Composed:
    """The services of a compose file.

    Args:
        folder: The backend's; nothing outside it is built or mounted.
        variables: What `${NAME}` in the file stands for; nothing else has a value, the caller's environment neither.
        ports: What is handed out: port name -> service and container port.
        ready: Of services, instead of their health checks.
    """
    reader = _Reader(document, folder, variables, ports, ready)
    out = Composed()
    out.services = tuple(reader.services())
    out.problems = reader.problems
    return out


class _Reader:
    def __init__(
        self,
        document: YamlDocument,
        folder: FilePath,
        variables: Mapping[str, str],
        ports: Mapping[str, tuple[str, int]],
        ready: Mapping[str, ReadySpec],
    ) -> None:
        self.document, self.folder, self.variables, self.ports, self.ready = document, folder, variables, ports, ready
        self.problems: list[Problem] = []
        self.once: set[str] = set()  # services that others wait to end
        self.waits: dict[str, list[tuple[str, str]]] = {}  # service -> what it depends on, and how

    def wrong(self, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(self.document.problem(path, message, hint))

    # the file

    def services(self) -> Iterator[ServiceSpec]:
        data = self.document.data
        if not isinstance(data, dict) or not isinstance(data.get("services"), dict) or not data["services"]:
            self.wrong(("services",) if isinstance(data, dict) else (), "there are no services in this file")
            return
        data = {key: value if key == "services" else self.filled((key,), value) for key, value in data.items()}
        for key in data:
            if key in _REFUSED:
                self.wrong((key,), "this is not taken over", _REFUSED[key])
            elif key not in _TOP and not key.startswith("x-"):
                self.wrong((key,), "unknown key", did_you_mean(key, _TOP))
        self.networks(data.get("networks"))
        self.volumes(data.get("volumes"))
        known = data["services"]
        self.waits = {name: list(self.depends(name, value)) for name, value in known.items()}
        for waits in self.waits.values():
            self.once |= {other for other, condition in waits if condition == "service_completed_successfully"}
        for name, value in known.items():
            found = self.service(name, value, known, data)
            if found is not None:
                yield found

    def networks(self, value: Any) -> None:
        for name, network in self.table(("networks",), value).items():
            path: Path = ("networks", name)
            for key, item in self.table(path, network).items():
                if key == "external" and item:
                    self.wrong((*path, key), "an external network", _OUTSIDE)
                elif key == "driver" and item not in (None, "bridge"):
                    self.wrong((*path, key), f"the driver {quoted(item)} is not taken over", _OUTSIDE)
                elif key not in ("external", "driver", "internal", "name", "labels", "attachable"):
                    self.wrong((*path, key), "this is not taken over", "a backend has one network of its own")

    def volumes(self, value: Any) -> None:
        for name, volume in self.table(("volumes",), value).items():
            path: Path = ("volumes", name)
            for key, item in self.table(path, volume).items():
                if key == "external" and item:
                    self.wrong(
                        (*path, key), "an external volume", "volumes are new for every stack, and removed with it"
                    )
                elif key in ("driver_opts", "driver") and item not in (None, "local", {}):
                    self.wrong((*path, key), "this is not taken over", "volumes are local and new for every stack")
                elif key not in ("external", "driver", "driver_opts", "name", "labels"):
                    self.wrong((*path, key), "unknown key", did_you_mean(key, ("driver", "external", "labels", "name")))

    # one service

    def service(self, name: str, raw: Any, known: Mapping[str, Any], top: Mapping[str, Any]) -> ServiceSpec | None:
        path: Path = ("services", name)
        before = len(self.problems)
        if not _NAME.match(name):
            self.wrong(path, f"{quoted(name)} is no name for a service here", "small letters, digits, '_' and '-'")
        if not isinstance(raw, dict):
            self.wrong(path, "expected a mapping")
            return None
        value = {key: item if key == "depends_on" else self.filled((*path, key), item) for key, item in raw.items()}
        for key, item in value.items():
            self.key(path, key, item)
        build, image = value.get("build"), self.text((*path, "image"), value.get("image"))
        if build is None and image is None:
            self.wrong(path, "exactly one of image and build is needed, got none")
        if image is not None:
            self.fixed((*path, "image"), image, "version")
        dockerfile, context, args = self.build((*path, "build"), build) if build is not None else (None, ".", {})
        mounts, volumes, tmpfs = self.mounts(path, value, top)
        health = self.health((*path, "healthcheck"), value.get("healthcheck"))
        init = name in self.once
        needs: list[str] = []
        for other, condition in self.waits[name]:
            where = (*path, "depends_on", other) if isinstance(raw.get("depends_on"), dict) else (*path, "depends_on")
            if other not in known:
                self.wrong(where, f"there is no service {quoted(other)}", did_you_mean(other, known))
            elif condition == "service_healthy" and other in self.once:
                self.wrong(where, f"{other} runs once for another service, so it cannot be healthy for this one")
            elif condition == "service_healthy" and not (self.has_health(known[other]) or other in self.ready):
                hint = f"or say it in backend.toml: [compose.ready.{other}]"
                if not isinstance(known[other], dict) or known[other].get("build") is None:
                    hint += "; the image's own HEALTHCHECK is meant by image = true there"
                self.wrong(where, f"{other} has no healthcheck", hint)
            else:
                needs.append(other)
        mine = {port: number for port, (service, number) in self.ports.items() if service == name}
        if init and mine:
            self.wrong(path, "it runs once, so none of its ports can be handed out")
        ready, timeout_s = health
        environment = self.environment((*path, "environment"), value.get("environment"))
        self.container_ports((*path, "ports"), value.get("ports"))
        command, entrypoint = (self.words((*path, key), value.get(key)) for key in ("command", "entrypoint"))
        user, cwd = (self.text((*path, key), value.get(key)) for key in ("user", "working_dir"))
        if len(self.problems) > before:
            return None
        return ServiceSpec(
            name=name,
            dockerfile=dockerfile,
            image=image if dockerfile is None else None,
            ports=mine,
            env=environment,
            command=command,
            needs=tuple(dict.fromkeys(needs)),
            init=init,
            mounts=mounts,
            tmpfs=tmpfs,
            ready=None if init else self.ready.get(name, ready),
            ready_timeout_s=timeout_s,
            context=context,
            build_args=args,
            entrypoint=entrypoint,
            user=user,
            working_dir=cwd,
            volumes=volumes,
        )

    def key(self, path: Path, key: str, item: Any) -> None:
        where = (*path, key)
        if key in _REFUSED:
            if item in (False, None, [], {}):
                return
            said = "host network" if (key, item) == ("network_mode", "host") else "this is not taken over"
            self.wrong(where, said, _REFUSED[key])
        elif key == "networks":
            for name, settings in item.items() if isinstance(item, dict) else ():
                for inner in self.table((*where, name), settings):
                    self.wrong((*where, name, inner), "this is not taken over", "a service is known by its name alone")
        elif key not in _SERVICE and key not in _IDLE and not key.startswith("x-"):
            self.wrong(where, "unknown key", did_you_mean(key, (*_SERVICE, *_IDLE)))

    def build(self, path: Path, value: Any) -> tuple[str | None, str, dict[str, str]]:
        settings = {"context": value} if isinstance(value, str) else self.table(path, value)
        for key in settings:
            if key not in _BUILD:
                self.wrong((*path, key), "this is not taken over", f"known: {', '.join(_BUILD)}")
        context = self.text((*path, "context"), settings.get("context")) or "."
        inline = isinstance(value, str)
        inside = self.inside(path if inline else (*path, "context"), context, "build context")
        if inside is None:
            return None, ".", {}
        if not (self.folder / inside).is_dir():
            self.wrong(path if inline else (*path, "context"), f"there is no folder {quoted(context)}")
            return None, ".", {}
        dockerfile = self.text((*path, "dockerfile"), settings.get("dockerfile")) or "Dockerfile"
        file = self.inside(path if inline else (*path, "dockerfile"), posixpath.join(inside, dockerfile), "Dockerfile")
        if file is not None and not (self.folder / file).is_file():
            self.wrong(path if inline else (*path, "dockerfile"), f"there is no {quoted(file)} beside backend.toml")
        elif file is not None and not (self.folder / file).resolve().is_relative_to((self.folder / inside).resolve()):
            self.wrong((*path, "dockerfile"), f"{quoted(dockerfile)} is not inside the build context")
        args = self.pairs((*path, "args"), settings.get("args"), "an argument")
        for key, item in args.items():
            self.fixed((*path, "args", key), item, "version")
        return posixpath.relpath(file, inside) if file is not None else None, inside, args

    def inside(self, path: Path, target: str, what: str) -> str | None:
        """A path of the backend's folder, without dots; None where it is none, which is told."""
        self.fixed(path, target)
        clean = posixpath.normpath(target)
        if target.endswith("docker.sock"):
            self.wrong(path, "the engine's socket", "with it a container rules the host; no backend gets it")
        elif "://" in target or escapes(clean) or target.startswith("~"):
            self.wrong(path, f"the {what} {quoted(target)} is not inside the backend's folder")
        elif not (self.folder / clean).resolve().is_relative_to(self.folder.resolve()):
            self.wrong(path, f"the {what} {quoted(target)} leads out of the backend's folder")
        else:
            return clean
        return None

    def environment(self, path: Path, value: Any) -> dict[str, str]:
        return self.pairs(path, value, "a variable")

    def pairs(self, path: Path, value: Any, what: str) -> dict[str, str]:
        """A mapping, or a list of NAME=value; what has no value would come from the caller's environment."""
        out: dict[str, str] = {}
        unset = f"{what} without a value, which compose takes from the caller's environment"
        hint = "give it a value, e.g. ${NAME} with NAME in [compose.variables]"
        if isinstance(value, list):
            for index, item in enumerate(value):
                name, equals, text = item.partition("=") if isinstance(item, str) else ("", "", "")
                if not name:
                    self.wrong((*path, index), "expected NAME=value")
                elif not equals:
                    self.wrong((*path, index), unset, hint)
                else:
                    out[name] = text
            return out
        for name, item in self.table(path, value).items():
            if item is None:
                self.wrong((*path, name), unset, hint)
            elif isinstance(item, bool | str):
                out[name] = item if isinstance(item, str) else str(item).lower()
            else:
                self.wrong((*path, name), "expected text")
        return out

    def words(self, path: Path, value: Any) -> tuple[str, ...] | None:
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        if isinstance(value, str):
            try:
                return tuple(shlex.split(value))
            except ValueError as error:
                self.wrong(path, f"this cannot be split into words: {str(error).lower()}")
                return None
        self.wrong(path, "expected text, or a list of words")
        return None

    def container_ports(self, path: Path, value: Any) -> None:
        """Ports are handed out by [compose.ports]; here they are looked at, and not published."""
        for index, item in enumerate(self.items(path, value)):
            where = (*path, index)
            if isinstance(item, dict):
                protocol, mode = item.get("protocol", "tcp"), item.get("mode", "ingress")
                target = str(item.get("target", ""))
                if mode == "host":
                    self.wrong((*where, "mode"), "a port of the host", _HOST)
            else:
                target, _, protocol = str(item).rpartition(":")[2].partition("/")
            if protocol not in ("", "tcp"):
                self.wrong(where, f"the protocol {quoted(protocol)} cannot be handed out", "only TCP ports can")
            elif not (target.isascii() and target.isdigit() and 0 < int(target) < 65536):
                self.wrong(where, f"{quoted(target)} is no single port")

    def mounts(
        self, path: Path, value: Mapping[str, Any], top: Mapping[str, Any]
    ) -> tuple[dict[str, str], tuple[VolumeSpec, ...], tuple[str, ...]]:
        mounts: dict[str, str] = {}
        volumes: list[VolumeSpec] = []
        tmpfs: list[str] = []
        declared = top.get("volumes") if isinstance(top.get("volumes"), dict) else {}
        for index, item in enumerate(self.items((*path, "volumes"), value.get("volumes"))):
            where = (*path, "volumes", index)
            kind, source, target, modes = self.mount(where, item)
            if target and not target.startswith("/"):
                self.wrong(where, f"{quoted(target)} is no absolute path inside the container")
                continue
            match kind:
                case "tmpfs":
                    tmpfs.append(target)
                case "volume":
                    if source and (not isinstance(declared, dict) or source not in declared):
                        known = declared if isinstance(declared, dict) else ()
                        hint = did_you_mean(source, known) or f"a file of the folder is written ./{source}"
                        self.wrong(where, f"there is no volume {quoted(source)}", hint)
                    volumes.append(VolumeSpec(name=source, target=target, read_only="ro" in modes))
                case "bind":
                    inside = self.inside(where, source, "mounted path")
                    if inside is None:
                        continue
                    if "rw" in modes:
                        self.wrong(
                            where, "a file of the folder cannot be written to", "mount it with :ro, or use a volume"
                        )
                    elif not (self.folder / inside).exists():
                        self.wrong(where, f"there is no {quoted(source)} beside backend.toml")
                    mounts[target] = inside
                case _:
                    continue  # told
        tmp = value.get("tmpfs")
        for index, item in enumerate([tmp] if isinstance(tmp, str) else self.items((*path, "tmpfs"), tmp)):
            if isinstance(item, str) and item.startswith("/"):
                tmpfs.append(item)
            else:
                self.wrong((*path, "tmpfs", index), "expected an absolute path inside the container")
        for target in (*mounts, *(volume.target for volume in volumes), *tmpfs):
            self.fixed((*path, "volumes"), target)
        return mounts, tuple(volumes), tuple(tmpfs)

    def mount(self, path: Path, item: Any) -> tuple[str, str, str, tuple[str, ...]]:
        """(kind or "", source, target, modes) of one entry under volumes."""
        nothing: tuple[str, str, str, tuple[str, ...]] = ("", "", "", ())
        if isinstance(item, dict):
            kind, source, target = (item.get(key) or "" for key in ("type", "source", "target"))
            for key in item:
                if key not in ("type", "source", "target", "read_only", "bind", "volume", "tmpfs", "consistency"):
                    self.wrong((*path, key), "this is not taken over")
            if kind not in ("volume", "bind", "tmpfs") or not isinstance(source, str) or not isinstance(target, str):
                self.wrong(path, f"a mount of the type {quoted(kind)} is not taken over", "volume, bind or tmpfs")
                return nothing
            modes: tuple[str, ...] = ("ro",) if item.get("read_only") in (True, "true") else ()
            return (kind, source, target, modes) if target else nothing
        parts = item.split(":") if isinstance(item, str) else []
        match parts:
            case [target] if target:
                return ("volume", "", target, ())
            case [source, target]:
                modes = ()
            case [source, target, options]:
                modes = tuple(options.split(","))
                for mode in modes:
                    if mode not in ("ro", "rw", "z", "Z", "cached", "delegated", "nocopy", "consistent"):
                        self.wrong(path, f"the mode {quoted(mode)} is not taken over")
            case _:
                self.wrong(path, "expected source:target, or source:target:ro")
                return nothing
        if source.startswith((".", "/", "~")) or "/" in source or "$" in source:
            return ("bind", source, target, modes)
        if not _VOLUME.match(source):
            self.wrong(path, f"{quoted(source)} is no name of a volume")
        return ("volume", source, target, modes)

    def has_health(self, value: Any) -> bool:
        health = value.get("healthcheck") if isinstance(value, dict) else None
        return isinstance(health, dict) and bool(health.get("test")) and health.get("disable") is not True

    def health(self, path: Path, value: Any) -> tuple[ReadySpec | None, float]:
        """How a service shows that it is healthy, and how long we wait; the check runs by our own cadence."""
        settings = self.table(path, value)
        for key in settings:
            if key not in _HEALTH:
                self.wrong((*path, key), "unknown key", did_you_mean(key, _HEALTH))
        spans = {key: self.seconds((*path, key), settings.get(key)) for key in ("interval", "start_period", "timeout")}
        retries = settings.get("retries")
        tries = int(retries) if isinstance(retries, str) and retries.isascii() and retries.isdigit() else 0
        if retries is not None and not tries:
            self.wrong((*path, "retries"), "expected a number")
        asked = spans["start_period"] + spans["interval"] * tries
        timeout_s = min(max(asked, READY_TIMEOUT_S), MAX_READY_TIMEOUT_S)
        test = settings.get("test")
        if settings.get("disable") is True or test is None or test in (["NONE"], "NONE"):
            return None, timeout_s
        match test:
            case str():
                argv: tuple[str, ...] = ("/bin/sh", "-c", test)
            case ["CMD-SHELL", str() as line]:
                argv = ("/bin/sh", "-c", line)
            case ["CMD", *words] if words and all(isinstance(word, str) for word in words):
                argv = tuple(words)
            case _:
                self.wrong((*path, "test"), 'expected text, ["CMD", …] or ["CMD-SHELL", "…"]')
                return None, timeout_s
        return ReadySpec(exec=argv), timeout_s

    def seconds(self, path: Path, value: Any) -> float:
        if value is None:
            return 0.0
        found = _DURATION.findall(value) if isinstance(value, str) else []
        if not found or "".join(number + unit for number, unit in found) != value:
            self.wrong(path, "expected a duration such as 5s or 1m30s")
            return 0.0
        return sum(float(number) * _SECONDS[unit] for number, unit in found)

    def depends(self, name: str, raw: Any) -> Iterator[tuple[str, str]]:
        value = raw.get("depends_on") if isinstance(raw, dict) else None
        path: Path = ("services", name, "depends_on")
        if isinstance(value, list):
            yield from ((item, "service_started") for item in value if isinstance(item, str))
        elif isinstance(value, dict):
            for other, settings in value.items():
                condition = settings.get("condition", "service_started") if isinstance(settings, dict) else ""
                if condition in _CONDITIONS:
                    yield other, condition
                else:
                    where = (*path, other, "condition") if isinstance(settings, dict) else (*path, other)
                    hint = did_you_mean(str(condition), _CONDITIONS)
                    self.wrong(where, f"there is no condition {quoted(condition)}", hint)
        elif value is not None:
            self.wrong(path, "expected a list of services, or a mapping")

    # values

    def table(self, path: Path, value: Any) -> Mapping[str, Any]:
        if value is None or isinstance(value, dict):
            return value or {}
        self.wrong(path, "expected a mapping")
        return {}

    def items(self, path: Path, value: Any) -> Sequence[Any]:
        if value is None or isinstance(value, list):
            return value or []
        self.wrong(path, "expected a list")
        return []

    def text(self, path: Path, value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        self.wrong(path, "expected text")
        return None

    def fixed(self, path: Path, text: str, *known: str) -> None:
        """Tells a value that depends on what is known only when the stack stands."""
        for name in names_in(text):
            if name not in known:
                hint = f"only {', '.join(f'${{{item}}}' for item in known)} is known this early" if known else ""
                self.wrong(path, f"{quoted('${' + name + '}')} has no value here", hint)

    def filled(self, path: Path, value: Any) -> Any:
        """The value with compose's own variables replaced."""
        if isinstance(value, str):
            return self.substituted(path, value, 0)
        if isinstance(value, dict):
            return {key: self.filled((*path, key), item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled((*path, index), item) for index, item in enumerate(value)]
        return value

    def substituted(self, path: Path, text: str, depth: int) -> str:
        def one(match: re.Match[str]) -> str:
            if match["dollar"]:
                return LITERAL_DOLLAR if text[match.end() : match.end() + 1] == "{" else "$"
            name, how, other = match["plain"] or match["name"], match["how"] or "", match["other"] or ""
            if name is None or depth > MAX_SUBSTITUTIONS:
                self.wrong(path, f"{quoted(match[0])} is no variable of compose", "a dollar sign alone is written $$")
                return ""
            given = self.variables.get(name)
            there = given is not None and (given != "" or not how.startswith(":"))
            if how.endswith("+"):
                return self.substituted(path, other, depth + 1) if there else ""
            if there:
                return str(given)
            if how.endswith("-"):
                return self.substituted(path, other, depth + 1)
            said = f": {other}" if how.endswith("?") and other else ""
            hint = (
                did_you_mean(name, self.variables) or "give it under [compose.variables]; the environment is not asked"
            )
            self.wrong(path, f"the variable {name} has no value{said}", hint)
            return ""

        replace: Callable[[re.Match[str]], str] = one
        return _VARIABLE.sub(replace, text)
