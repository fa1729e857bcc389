"""The Docker engine of this host: whether it is there, and everything that we ask of it. The SDK is used here only.

Each request has a client of its own (half a millisecond), so that one can be cut off without harm to another. Every
wait is bounded; a cancelled request is cut off at its socket, so that its thread ends.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from harness.errors import StackError
from harness.model.plan import VolumeSpec

if TYPE_CHECKING:
    import docker as sdk

__all__ = [
    "CALL_TIMEOUT_S",
    "NEWEST_API",
    "OLDEST_API",
    "PROBE_TIMEOUT_S",
    "Binding",
    "ContainerState",
    "Engine",
    "EngineLost",
    "EngineProbe",
    "EngineRefused",
    "ExecResult",
    "Thing",
    "base_images",
    "capacity",
    "credential_trouble",
    "image_fingerprint",
    "open_engine",
    "probe",
]

OLDEST_API = (1, 40)  # of the engine, that we speak
NEWEST_API = (1, 51)
PROBE_TIMEOUT_S = 2.0
CALL_TIMEOUT_S = 30.0  # of one ordinary request
BUILD_SILENCE_S = 900.0  # a build step may print nothing for this long
PULL_SILENCE_S = 120.0
HELPER_TIMEOUT_S = 10.0
EXEC_OUTPUT_LIMIT_BYTES = 1024 * 1024
LOG_LIMIT_LINES = 20_000
KEPT_BUILD_LINES = 200
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_IN_CONTEXT_NOT = {"backend.toml"}  # it says how an image is used, not what is in it

T = TypeVar("T")


# --- is it there? -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProbe:
    """What there is to know of the Docker engine without using it.

    Attributes:
        available: It answers, on this host, and we speak its API.
        cause: Why not, in a sentence; "" when it is available.
        endpoint: Where it was looked for, and why there.
        server_version: As the engine says; "" if it did not answer.
        rootless: Whether it runs without root; None where it did not say.
        api: The API version to use, e.g. "1.41"; "" unless available.
        hint: What may help.
    """

    available: bool
    cause: str
    endpoint: str
    server_version: str = ""
    rootless: bool | None = None
    api: str = ""
    hint: str = ""


class _Unusable(Exception):
    def __init__(self, cause: str, *, hint: str = "", version: str = "") -> None:
        super().__init__(cause)
        self.cause, self.hint, self.version = cause, hint, version


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.timeout)
        try:
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def probe() -> EngineProbe:
    """Looks for the engine; takes at most a few seconds, no time where there is none, and never raises."""
    endpoint = "unknown"
    try:
        url, source = _endpoint()
        endpoint = f"{url} ({source})"
        path = _socket_path(url, source)
        answer = _get(path, "/version")
        version = str(answer.get("Version", "unknown"))
        api = _negotiate(answer, version)
        rootless: bool | None = None
        with suppress(_Unusable):
            options = _get(path, "/info").get("SecurityOptions")
            rootless = any("rootless" in str(option) for option in options or ())
        return EngineProbe(
            available=True, cause="", endpoint=endpoint, server_version=version, rootless=rootless, api=api
        )
    except _Unusable as error:
        return EngineProbe(
            available=False, cause=error.cause, endpoint=endpoint, server_version=error.version, hint=error.hint
        )
    except Exception as error:  # a probe that fails is an answer
        return EngineProbe(available=False, cause=f"the Docker engine cannot be asked: {error!r}", endpoint=endpoint)


def capacity() -> tuple[int, int]:
    """Cores and bytes of memory that the engine has, 0 for what it does not say.

    Raises:
        Exception: There is no engine to ask.
    """
    info = _get(_socket_path(*_endpoint()), "/info")
    cores, memory = info.get("NCPU"), info.get("MemTotal")
    return (cores if isinstance(cores, int) else 0), (memory if isinstance(memory, int) else 0)


def _endpoint() -> tuple[str, str]:
    """Where the engine is, and who says so: DOCKER_HOST, else the context in force, else the default."""
    if url := os.environ.get("DOCKER_HOST", "").strip():
        return url, "from DOCKER_HOST"
    context = os.environ.get("DOCKER_CONTEXT", "").strip()
    source = f"context {context!r} from DOCKER_CONTEXT"
    if not context:
        config = _client_config()
        context = str(config.get("currentContext") or "")
        source = f"context {context!r} from {_config_file()}"
    if context and context != "default":
        meta = _config_file().parent / "contexts" / "meta" / hashlib.sha256(context.encode()).hexdigest() / "meta.json"
        try:
            return str(json.loads(meta.read_text(encoding="utf-8"))["Endpoints"]["docker"]["Host"]), source
        except (OSError, ValueError, KeyError, TypeError):
            raise _Unusable(f"{source} is not there ({meta} cannot be read)", hint="docker context ls") from None
    default = "/var/run/docker.sock"
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}") / "docker.sock"
    if not os.path.exists(default) and own.exists():
        return f"unix://{own}", "default of a rootless engine"
    return f"unix://{default}", "default"


def _socket_path(url: str, source: str) -> str:
    scheme, _, path = url.partition("://")
    if scheme != "unix" or not path:
        raise _Unusable(
            f"the Docker engine at {url} ({source}) is not a Unix socket of this host; a remote engine is refused, "
            "because the ports of its containers are not ours",
            hint="unset DOCKER_HOST, or set it to unix:///var/run/docker.sock",
        )
    return "/" + path.lstrip("/")


def _get(path: str, what: str) -> Mapping[str, Any]:
    connection = _Connection(path, PROBE_TIMEOUT_S)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        data = json.loads(answer.read(1024 * 1024))
        if answer.status != 200 or not isinstance(data, dict):
            raise _Unusable(f"what answers at {path} is no Docker engine (status {answer.status} for {what})")
        return data
    except FileNotFoundError:
        raise _Unusable(f"no Docker engine: {path} does not exist", hint="install and start Docker") from None
    except PermissionError:
        raise _Unusable(
            f"no permission for the Docker engine at {path}", hint="is this user in the group 'docker'?"
        ) from None
    except ConnectionRefusedError:
        raise _Unusable(f"no Docker engine: nothing listens at {path}", hint="start Docker") from None
    except TimeoutError:
        raise _Unusable(f"the Docker engine at {path} did not answer within {PROBE_TIMEOUT_S:g} s") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _Unusable(f"what is at {path} does not answer as a Docker engine ({error!r})") from None
    finally:
        connection.close()


def _negotiate(answer: Mapping[str, Any], version: str) -> str:
    newest = _version(answer.get("ApiVersion"))
    oldest = _version(answer.get("MinAPIVersion") or "1.12")
    if newest is None or oldest is None:
        raise _Unusable("the Docker engine does not say which API versions it speaks", version=version)
    if newest < OLDEST_API or oldest > NEWEST_API:
        ours = f"{OLDEST_API[0]}.{OLDEST_API[1]} to {NEWEST_API[0]}.{NEWEST_API[1]}"
        what = "the engine" if newest < OLDEST_API else "mcp-rollcall"
        raise _Unusable(
            f"Docker engine {version} speaks API {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}, we speak {ours}",
            hint=f"upgrade {what}",
            version=version,
        )
    major, minor = min(newest, NEWEST_API)
    return f"{major}.{minor}"


def _version(text: object) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d+)\.(\d+)", str(text))
    return (int(match[1]), int(match[2])) if match else None


# --- the client's own configuration -------------------------------------------------------------


def _config_file() -> Path:
    folder = os.environ.get("DOCKER_CONFIG") or os.path.join(os.path.expanduser("~"), ".docker")
    return Path(folder) / "config.json"


def _client_config() -> Mapping[str, Any]:
    try:
        data = json.loads(_config_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def credential_trouble() -> str | None:
    """What is wrong with the Docker client's credentials, None if nothing is seen; needed for pulling only."""
    file = _config_file()
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"{file} cannot be read ({error}); going on without credentials"
    if not isinstance(data, dict):
        return f"{file} holds no JSON object; going on without credentials"
    names = [data.get("credsStore"), *(data.get("credHelpers") or {}).values()]
    for name in names:
        if name and shutil.which(f"docker-credential-{name}") is None:
            return f"{file} names the credential helper docker-credential-{name}, which is not installed"
    return None


def _credentials(registry: str) -> dict[str, str]:
    """The credentials for a registry, {} for none.

    Raises:
        StackError: They are in a helper that does not work.
    """
    from docker import auth

    config = _client_config()
    key = auth.INDEX_URL if registry == auth.INDEX_NAME else registry
    name = (config.get("credHelpers") or {}).get(key) or config.get("credsStore")
    if name:
        helper = f"docker-credential-{name}"
        hint = f"install {helper}, or remove it from {_config_file()}"
        broken = f"credentials for {registry} are needed and {_config_file()} says to ask {helper}, which "
        try:
            done = subprocess.run(
                [helper, "get"], input=key, capture_output=True, text=True, timeout=HELPER_TIMEOUT_S, check=False
            )
        except FileNotFoundError:
            raise StackError(f"{broken}is not installed", hint=hint) from None
        except subprocess.TimeoutExpired:
            raise StackError(f"{broken}gave no answer within {HELPER_TIMEOUT_S:g} s", hint=hint) from None
        except OSError as error:
            raise StackError(f"{broken}cannot be started: {error}", hint=hint) from None
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            if "credentials not found" in said.lower():
                return {}
            raise StackError(f"{broken}failed with exit code {done.returncode}", hint=hint, log=said)
        try:
            found = json.loads(done.stdout)
            return {"username": found["Username"], "password": found["Secret"], "serveraddress": key}
        except (ValueError, KeyError, TypeError):
            raise StackError(f"{broken}gave something else than credentials", hint=hint) from None
    entry: Any = (config.get("auths") or {}).get(key)
    try:
        user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return {"username": user, "password": password, "serveraddress": key}
    except (TypeError, KeyError, ValueError):
        return {}


# --- images: what goes into one -----------------------------------------------------------------


def base_images(dockerfile: str, args: Mapping[str, str]) -> tuple[str, ...]:
    """The images that a Dockerfile starts from, as far as its text says, without its own stages and `scratch`."""
    values: dict[str, str] = {}
    stages: set[str] = set()
    out: list[str] = []
    text = re.sub(r"\\\r?\n", " ", dockerfile)
    for line in text.splitlines():
        if (arg := re.match(r"\s*ARG\s+(\w+)(?:=(\S*))?", line, re.IGNORECASE)) and not out and not stages:
            values[arg[1]] = args.get(arg[1], (arg[2] or "").strip("\"'"))
        elif start := re.match(r"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", line, re.IGNORECASE):
            image = re.sub(
                r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))",
                lambda found: values.get(found[1] or found[3]) or found[2] or "",
                start[1],
            )
            if image and image.lower() not in stages and image != "scratch" and image not in out:
                out.append(image)
            if start[2]:
                stages.add(start[2].lower())
    return tuple(out)


def _context_files(folder: Path) -> Iterator[tuple[str, Path]]:
    from docker.utils import exclude_paths

    patterns: list[str] = []
    with suppress(OSError):
        lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
        patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    for name in sorted(exclude_paths(str(folder), patterns)):
        if name not in _IN_CONTEXT_NOT:
            yield name, folder / name


def image_fingerprint(folder: Path, dockerfile: str, args: Mapping[str, str], bases: Sequence[str]) -> str:
    """Of all that goes into an image: the files of the folder, the arguments, the ids of the images it starts from."""
    digest = hashlib.sha256(json.dumps([1, dockerfile, sorted(args.items()), list(bases)]).encode())
    for name, path in _context_files(folder):
        mode = path.lstat().st_mode
        digest.update(f"\0{name}\0{mode & 0o100:o}\0".encode("utf-8", "surrogateescape"))
        if path.is_symlink():
            digest.update(os.fsencode(path.readlink()))
        elif path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _context(folder: Path) -> io.BytesIO:
    """The build context as a tar, the same bytes on every machine."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, path in _context_files(folder):
            info = tar.gettarinfo(str(path), arcname=name)
            if info is None:  # a socket
                continue
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            if info.isfile():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    out.seek(0)
    return out


# --- the engine in use --------------------------------------------------------------------------


class EngineRefused(StackError):
    """The engine answered a request with an error; `status` is its HTTP status."""

    def __init__(self, message: str, *, status: int, said: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.said = said


class EngineLost(StackError):
    """The engine went away in mid-run."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a container's port is published."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """A container at one moment.

    Attributes:
        status: As the engine says: created, running, paused, restarting, removing, exited or dead.
        exit_code: Meaningful once it has ended.
        ports: Container port -> where it is published.
    """

    status: str
    exit_code: int
    error: str
    oom_killed: bool
    ports: Mapping[int, tuple[Binding, ...]]

    @property
    def ended(self) -> bool:
        """Whether it ran and is over; a container that was only created has not ended."""
        return self.status in ("exited", "dead", "removing")

    @property
    def removed(self) -> bool:
        """Whether its removal has begun, or was tried: none of ours is removed while we ask for it."""
        return self.status in ("dead", "removing")

    def __str__(self) -> str:
        if not self.ended:
            return self.status
        more = "; it was out of memory" if self.oom_killed else ""
        return f"{self.status} with exit code {self.exit_code}{more}" + (f"; {self.error}" if self.error else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What a command in a container did. Outputs are cut at EXEC_OUTPUT_LIMIT_BYTES."""

    code: int | None
    out: bytes
    err: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A container, network or volume in the engine. `kind` is the word that `docker KIND rm` knows."""

    kind: str
    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class _Line:
    """What one request has open, so that it can be cut off from outside its thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Any] = []
        self._cut = False

    def opened(self, response: Any, *_: object, **__: object) -> None:
        with self._lock:
            self._open.append(response)
            if self._cut:
                self._shut(response)

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            for response in self._open:
                self._shut(response)

    @staticmethod
    def _shut(response: Any) -> None:
        with suppress(Exception):  # it may be over already
            response.raw.shutdown()

    def close(self) -> None:
        with self._lock:
            for response in self._open:
                with suppress(Exception):
                    response.close()
            self._open.clear()


def open_engine() -> Engine:
    """The engine of this host.

    Raises:
        StackError: There is none that we can use.
    """
    found = probe()
    if not found.available:
        raise StackError(
            f"Docker cannot be used: {found.cause}",
            hint=found.hint or "--runtime process needs no Docker, where a backend has a process form",
        )
    url, source = _endpoint()
    return Engine(_socket_path(url, source), found.api)


class Engine:
    """The engine, asked from async code; every method raises StackError where the engine fails.

    Args:
        path: Of its Unix socket.
        api: The API version to speak.
    """

    def __init__(self, path: str, api: str) -> None:
        self.path = path
        self.api = api

    async def call(self, what: str, work: Callable[[sdk.APIClient], T], *, timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Runs some work with a client in a thread; cancelled, the thread is cut off and left to end.

        Args:
            what: What it is, for an error ("start the container of redis").
            timeout_s: Seconds that the engine may stay silent.
        """
        line = _Line()
        try:
            return await anyio.to_thread.run_sync(
                partial(self.call_now, what, work, timeout_s=timeout_s, line=line), abandon_on_cancel=True
            )
        except anyio.get_cancelled_exc_class():
            line.cut()
            raise

    def call_now(
        self,
        what: str,
        work: Callable[[sdk.APIClient], T],
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        line: _Line | None = None,
    ) -> T:
        """The same, here and now."""
        line = line or _Line()
        try:  # the SDK would leave a socket open where there is nobody
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(timeout_s)
                sock.connect(self.path)
        except OSError as error:
            raise _translated(error, what, self.path, timeout_s) from error
        client = self._client(timeout_s)
        client.hooks["response"].append(line.opened)
        try:
            return work(client)
        except StackError:
            raise
        except Exception as error:
            raise _translated(error, what, self.path, timeout_s) from error
        finally:
            line.close()
            client.close()

    def _client(self, timeout_s: float) -> sdk.APIClient:
        try:
            import docker as sdk

            client = sdk.APIClient(base_url=f"unix://{self.path}", version=self.api, timeout=int(timeout_s))
        except Exception as error:
            if isinstance(error, ImportError):
                raise StackError(f"the Docker client library cannot be imported: {error}", hint=_FIT) from error
            raise StackError(
                f"the Docker client cannot start: {error}", hint=f"is {_config_file()} a Docker configuration?"
            ) from error
        client.trust_env = False  # no proxy stands between us and a socket
        # Credentials are found by `_credentials`, when an image is pulled: a missing helper breaks no local build.
        setattr(client, "_set_auth_headers", lambda _headers: None)  # noqa: B010 - no part of its typed interface
        return client

    # images

    async def image_id(self, name: str) -> str | None:
        """The id of a local image, None if it is not here."""
        try:
            return str((await self._image(name))["Id"])
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise

    async def image_check(self, name: str) -> tuple[str, ...] | None:
        """The command of an image's own HEALTHCHECK, None if it has none."""
        config = (await self._image(name)).get("Config") or {}
        test = (config.get("Healthcheck") or {}).get("Test") or []
        if not test or test[0] == "NONE":
            return None
        if test[0] == "CMD-SHELL":
            return (*(config.get("Shell") or ("/bin/sh", "-c")), *test[1:])
        return tuple(test[1:])

    async def _image(self, name: str) -> Mapping[str, Any]:
        def work(client: Any) -> Mapping[str, Any]:
            found: Mapping[str, Any] = client.inspect_image(name)
            return found

        return await self.call(f"look at the image {name}", work)

    async def pull(self, image: str) -> None:
        """Pulls an image, with the credentials that the Docker client has for its registry."""
        from docker.auth import resolve_repository_name
        from docker.utils import parse_repository_tag

        def work(client: sdk.APIClient) -> None:
            repository, tag = parse_repository_tag(image)
            registry = resolve_repository_name(repository)[0]
            for event in client.pull(
                repository, tag=tag or "latest", stream=True, decode=True, auth_config=_credentials(registry)
            ):
                if "error" in event:
                    raise StackError(
                        f"the image {image} is not here and cannot be pulled: {event['error']}", hint=_PULL_HINT
                    )

        try:
            await self.call(f"pull the image {image}", work, timeout_s=PULL_SILENCE_S)
        except EngineRefused as error:
            raise StackError(
                f"the image {image} is not here and cannot be pulled: {error.said}", hint=_PULL_HINT
            ) from error

    async def build(
        self,
        folder: Path,
        dockerfile: str,
        *,
        tag: str,
        args: Mapping[str, str],
        labels: Mapping[str, str],
        seen: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Builds an image from a folder; what it starts from must be here.

        Args:
            seen: Told each line of output, in another thread, so it should only take it down.
        Raises:
            StackError: A step failed; the message says which, the log has the last lines.
        """
        lines: deque[str] = deque(maxlen=KEPT_BUILD_LINES)
        step = ""

        def work(client: sdk.APIClient) -> None:
            nonlocal step
            with _context(folder) as context:
                for event in client.build(
                    fileobj=context,
                    custom_context=True,
                    dockerfile=dockerfile,
                    tag=tag,
                    buildargs=dict(args),
                    labels=dict(labels),
                    rm=True,
                    forcerm=True,
                    decode=True,
                ):
                    for line in str(event.get("stream", "")).split("\n"):
                        text = _ANSI.sub("", line.rstrip().rpartition("\r")[2])  # what a terminal would be left with
                        if re.match(r"Step \d+/\d+ ", text):
                            step = text
                        if text:
                            lines.append(text)
                            seen(text)
                    if "error" in event:
                        raise _build_failed(folder, dockerfile, step, str(event["error"]), lines)

        try:
            await self.call(f"build {folder / dockerfile}", work, timeout_s=BUILD_SILENCE_S)
        except EngineRefused as error:
            raise _build_failed(folder, dockerfile, step, error.said, lines) from error

    # networks and containers

    async def create_network(self, name: str, labels: Mapping[str, str]) -> None:
        """A network of its own, in which containers find each other by name."""
        try:
            await self.call(
                "create a network", lambda client: client.create_network(name, driver="bridge", labels=dict(labels))
            )
        except EngineRefused as error:
            if "address pool" in error.said:
                error.hint = "too many networks on this engine: `mcp-rollcall reap`, or `docker network prune`"
            raise

    async def create_container(
        self,
        name: str,
        image: str,
        *,
        alias: str,
        network: str,
        labels: Mapping[str, str],
        env: Mapping[str, str],
        command: Sequence[str] | None,
        ports: Sequence[int],
        mounts: Mapping[str, Path],
        tmpfs: Sequence[str],
        volumes: Sequence[tuple[str, VolumeSpec]] = (),
        entrypoint: Sequence[str] | None = None,
        user: str | None = None,
        working_dir: str | None = None,
    ) -> str:
        """Creates a container and gives its id. Ports go to free ones of 127.0.0.1; mounts are read-only.

        Args:
            tmpfs: Paths, each perhaps with ":" and mount options.
            volumes: (name on the engine or "", volume); they bear the labels and are made where they are not there.
        """

        def work(client: sdk.APIClient) -> str:
            from docker.types import EndpointConfig, LogConfig, Mount, NetworkingConfig

            host = client.create_host_config(
                network_mode=network,
                port_bindings={f"{port}/tcp": ("127.0.0.1", None) for port in ports},
                mounts=[
                    *(Mount(target, str(source), type="bind", read_only=True) for target, source in mounts.items()),
                    *(
                        Mount(volume.target, name or None, labels=dict(labels), read_only=volume.read_only)
                        for name, volume in volumes
                    ),
                ],
                tmpfs={path: options for path, _, options in (item.partition(":") for item in tmpfs)},
                init=True,
                restart_policy={"Name": "no"},
                log_config=LogConfig(type="json-file", config={"max-size": "20m", "max-file": "1"}),
            )
            endpoints: Any = {network: EndpointConfig(client.api_version, aliases=[alias])}
            made = client.create_container(
                image,
                name=name,
                hostname=alias,
                command=list(command) if command is not None else None,
                entrypoint=list(entrypoint) if entrypoint is not None else None,
                user=user,
                working_dir=working_dir,
                environment=dict(env),
                ports=[(port, "tcp") for port in ports],
                labels=dict(labels),
                host_config=host,
                networking_config=NetworkingConfig(endpoints),
                healthcheck={"test": ["NONE"]},  # we look ourselves; the engine's cadence would cost the machine
                use_config_proxy=False,
            )
            return str(made["Id"])

        return await self.call(f"create the container of {alias}", work)

    async def start(self, container: str, alias: str) -> None:
        """Starts a container."""
        await self.call(f"start the container of {alias}", lambda client: client.start(container))

    async def state(self, container: str) -> ContainerState:
        """A container at this moment."""
        data = await self.call("look at a container", lambda client: client.inspect_container(container))
        state = data["State"]
        ports = {
            int(port.partition("/")[0]): tuple(Binding(item["HostIp"], int(item["HostPort"])) for item in bound or ())
            for port, bound in (data["NetworkSettings"].get("Ports") or {}).items()
            if port.endswith("/tcp")
        }
        return ContainerState(
            status=state["Status"],
            exit_code=state["ExitCode"],
            error=state.get("Error") or "",
            oom_killed=bool(state.get("OOMKilled")),
            ports=ports,
        )

    async def logs(self, container: str, *, lines: int = LOG_LIMIT_LINES, since: float | None = None) -> bytes:
        """The last lines that a container printed; what is wrong with its log, if it cannot be read.

        Args:
            since: Only what it printed from this time on.
        """
        try:
            data: bytes = await self.call(
                "read the log of a container",
                lambda client: client.logs(container, stdout=True, stderr=True, tail=lines, since=since),
            )
        except EngineRefused as error:
            return f"(the log cannot be read: {error.said})\n".encode()
        return data

    async def execute(self, container: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> ExecResult:
        """Runs a command in a container to its end, with variables added to the container's."""

        def work(client: sdk.APIClient) -> ExecResult:
            made = client.exec_create(container, list(argv), environment=dict(env or {}))["Id"]
            kept = {0: bytearray(), 1: bytearray()}
            for pair in client.exec_start(made, stream=True, demux=True):
                for index, chunk in enumerate(pair):
                    room = EXEC_OUTPUT_LIMIT_BYTES - len(kept[index])
                    kept[index] += (chunk or b"")[: max(0, room)]
            code = client.exec_inspect(made).get("ExitCode")
            return ExecResult(code=code, out=bytes(kept[0]), err=bytes(kept[1]))

        return await self.call(f"run {argv[0]!r} in a container", work)

    # what there is, and its end

    async def things(self, label: str) -> tuple[Thing, ...]:
        """All containers, networks and volumes with a label, in the order in which they can be removed."""
        return await self.call("list what we made", partial(_things, label=label))

    def things_now(self, label: str) -> tuple[Thing, ...]:
        """The same, here and now."""
        return self.call_now("list what we made", partial(_things, label=label))

    async def remove(self, thing: Thing) -> None:
        """Removes it by force, a container with its anonymous volumes; no error if it is gone."""
        await self.call(f"remove the {thing.kind} {thing.name}", partial(_remove, thing=thing))

    def remove_now(self, thing: Thing) -> None:
        """The same, here and now."""
        self.call_now(f"remove the {thing.kind} {thing.name}", partial(_remove, thing=thing))


def _things(client: sdk.APIClient, *, label: str) -> tuple[Thing, ...]:
    filters = {"label": label}
    out = [
        Thing(kind="container", id=item["Id"], name=item["Names"][0].lstrip("/"), labels=item["Labels"])
        for item in client.containers(all=True, filters=filters)
    ]
    out += [
        Thing(kind="network", id=item["Id"], name=item["Name"], labels=item["Labels"])
        for item in client.networks(filters=filters)
    ]
    out += [
        Thing(kind="volume", id=item["Name"], name=item["Name"], labels=item["Labels"] or {})
        for item in client.volumes(filters=filters).get("Volumes") or ()
    ]
    return tuple(out)


def _remove(client: sdk.APIClient, *, thing: Thing) -> None:
    from docker.errors import APIError

    try:
        match thing.kind:
            case "container":
                client.remove_container(thing.id, v=True, force=True)
            case "network":
                client.remove_network(thing.id)
            case _:
                client.remove_volume(thing.id, force=True)
    except APIError as error:
        gone = error.response is not None and error.response.status_code == 404
        if not gone and "already in progress" not in str(error):
            raise


_FIT = "the packages docker, requests and urllib3 may not fit together: upgrade docker"
_PULL_HINT = "is its name right, and is its registry reachable from here? `docker pull` shows the same"


def _translated(error: Exception, what: str, path: str, timeout_s: float) -> StackError:
    import requests
    from docker.errors import APIError
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    if isinstance(error, APIError):
        said = str(error.explanation or error).strip()
        status = error.response.status_code if error.response is not None else 0
        return EngineRefused(f"the Docker engine refused to {what}: {said}", status=status, said=said)
    if isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return StackError(f"the Docker client could not {what}: {error}", hint=_FIT)
    if isinstance(error, requests.exceptions.Timeout | ReadTimeoutError | TimeoutError):
        return StackError(
            f"the Docker engine at {path} gave no answer for {timeout_s:g} s when asked to {what}",
            hint="is it overloaded or stopped? `docker version` shows it",
        )
    if isinstance(error, requests.exceptions.RequestException | HTTPError | OSError | http.client.HTTPException):
        return EngineLost(
            f"the Docker engine at {path} went away when asked to {what} ({type(error).__name__}: {error})",
            hint="was it stopped? `mcp-rollcall reap` removes what is left when it is back",
        )
    return StackError(f"the Docker client could not {what}: {type(error).__name__}: {error}")


def _build_failed(folder: Path, dockerfile: str, step: str, error: str, lines: deque[str]) -> StackError:
    at = f" at '{step}'" if step else ""
    return StackError(
        f"the image of {folder / dockerfile} could not be built{at}: {error}",
        hint=f"to see it again: docker build -f {folder / dockerfile} {folder}",
        log="\n".join(lines),
    )
