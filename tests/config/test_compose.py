"""Backends from compose files: what is taken over, and what the few words of YAML mean."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.load import load_backend
from harness.config.problems import ConfigProblems, Problem
from harness.config.yaml import MAX_NODES, parse_yaml
from harness.model.plan import BackendSpec, ReadySpec, VolumeSpec

BACKEND = """\
schema = 1
name = "shop"
[versions.1]
[secrets]
password = 24
[compose]
file = "compose.yaml"
ports = { http = "web:80" }
variables = { PASSWORD = "${secret.password}", TAG = "${version}", EMPTY = "", NAME = "shop" }
[outputs]
url = "http://${address.http}/"
"""
HEALTHY = 'healthcheck: { test: ["CMD", "true"] }'


@pytest.fixture
def read(write):
    """Reads a backend with one compose file beside it."""

    def run(compose: str, backend: str = BACKEND, **more: str) -> BackendSpec:
        files = {"backend.toml": backend, "compose.yaml": compose, "conf/a": "a", "Dockerfile": "FROM x\n", **more}
        folder = write({f"shop/{name}": text for name, text in files.items()}) / "shop"
        return load_backend(folder, base=folder.parent)

    return run


def web(**more: object) -> str:
    """A compose file with one service; JSON is YAML."""
    return json.dumps({"services": {"web": {"image": "web", **more}}})


def said(read, compose: str, backend: str = BACKEND) -> str:
    with pytest.raises(ConfigProblems) as caught:
        read(compose, backend)
    return str(caught.value)


def test_a_service_is_taken_over(read) -> None:
    spec = read(
        web(
            environment={"A": "1", "B": 2, "C": True, "P": "${PASSWORD}"},
            command="serve --name 'a b' $NAME",
            entrypoint=["/init"],
            user="1000:1000",
            working_dir="/srv",
            tmpfs=["/run", "/tmp:size=1m"],
            ports=["80", "127.0.0.1:8080:80/tcp", {"target": 80, "published": "80"}],
            healthcheck={"test": "curl -f http://127.0.0.1/ || exit 1", "interval": "1m30s", "retries": 3},
            restart="always",
            container_name="web",
            labels=["a=b"],
            privileged=False,
        )
    )
    (service,) = spec.services
    assert service.env == {"A": "1", "B": "2", "C": "true", "P": "${secret.password}"}
    assert service.command == ("serve", "--name", "a b", "shop")
    assert (service.entrypoint, service.user, service.working_dir) == (("/init",), "1000:1000", "/srv")
    assert service.tmpfs == ("/run", "/tmp:size=1m")
    assert service.ports == {"http": 80}
    assert service.ready == ReadySpec(exec=("/bin/sh", "-c", "curl -f http://127.0.0.1/ || exit 1"))
    assert service.ready_timeout_s == 270


@pytest.mark.parametrize(
    ("test", "argv"),
    [
        (["CMD", "pg_isready", "-U", "app"], ("pg_isready", "-U", "app")),
        (["CMD-SHELL", "pg_isready"], ("/bin/sh", "-c", "pg_isready")),
        ("pg_isready", ("/bin/sh", "-c", "pg_isready")),
        (["NONE"], None),
    ],
)
def test_the_forms_of_a_health_check(read, test, argv) -> None:
    (service,) = read(web(healthcheck={"test": test})).services
    assert service.ready == (ReadySpec(exec=argv) if argv else None)


def test_a_ready_of_the_backend_goes_before_the_health_check(read) -> None:
    ready = BACKEND.replace("[outputs]", '[compose.ready.web]\nhttp = "http"\nbody = "ok"\n[outputs]')
    (service,) = read(web(healthcheck={"test": "true"}), ready).services
    assert service.ready == ReadySpec(http="http", body="ok")


def test_dependencies_become_needs_and_one_shot_services(read) -> None:
    spec = read(f"""\
services:
  web:
    image: web
    depends_on:
      db: {{ condition: service_healthy, restart: true }}
      load: {{ condition: service_completed_successfully }}
      cache: {{ condition: service_started }}
  load: {{ image: db, depends_on: [db] }}
  cache: {{ image: cache }}
  db:
    image: db
    {HEALTHY}
""")
    services = {service.name: service for service in spec.services}
    assert services["web"].needs == ("db", "load", "cache")
    assert {name for name, service in services.items() if service.init} == {"load"}
    assert services["load"].needs == ("db",)


def test_volumes_and_files_of_the_folder(read) -> None:
    spec = read("""\
services:
  web:
    image: web
    volumes:
      - ./conf:/conf
      - ./conf/a:/a:ro
      - data:/data
      - data:/again:ro
      - /scratch
      - { type: bind, source: conf/a, target: /b, read_only: true }
      - { type: tmpfs, target: /t }
      - { type: volume, source: data, target: /third }
volumes: { data: }
""")
    (service,) = spec.services
    assert service.mounts == {"/conf": "conf", "/a": "conf/a", "/b": "conf/a"}
    assert service.tmpfs == ("/t",)
    assert service.volumes == (
        VolumeSpec(name="data", target="/data"),
        VolumeSpec(name="data", target="/again", read_only=True),
        VolumeSpec(target="/scratch"),
        VolumeSpec(name="data", target="/third"),
    )


@pytest.mark.parametrize(
    ("build", "context", "dockerfile", "args"),
    [
        (".", ".", "Dockerfile", {}),
        ("./conf", "conf", "Dockerfile", {}),
        ({"context": ".", "dockerfile": "conf/Dockerfile", "args": ["A=b"]}, ".", "conf/Dockerfile", {"A": "b"}),
        ({"context": "conf", "args": {"TAG": "${TAG}"}}, "conf", "Dockerfile", {"TAG": "${version}"}),
    ],
)
def test_builds(read, build, context, dockerfile, args) -> None:
    spec = read(json.dumps({"services": {"web": {"build": build}}}), **{"conf/Dockerfile": "FROM x\n"})
    (service,) = spec.services
    assert (service.context, service.dockerfile, service.image) == (context, dockerfile, None)
    assert service.build_args == args


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}-$NAME", "shop-shop"),
        ("${NOT:-x ${NAME}}", "x shop"),
        ("${EMPTY-x}${EMPTY:-y}", "y"),
        ("${NAME:+set}${NOT+unset}", "set"),
        ("${NAME:?must be}", "shop"),
        ("$$HOME $$5", "$HOME $5"),
        ("$${HOME}", "${$}{HOME}"),
        ("${PASSWORD}", "${secret.password}"),
        ("5 < 6 {a}", "5 < 6 {a}"),
    ],
)
def test_variables_have_the_values_that_are_given(read, text: str, value: str) -> None:
    (service,) = read(web(environment={"A": text})).services
    assert service.env["A"] == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$HOME", "the variable HOME has no value"),
        ("${NAM}", "did you mean 'NAME'?"),
        ("${EMPTY:?say it}", "the variable EMPTY has no value: say it"),
        ("${env.HOME}", "is no variable of compose"),
        ("100$", "a dollar sign alone is written $$"),
    ],
)
def test_the_callers_environment_is_never_asked(read, monkeypatch, text: str, words: str) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("env.HOME", "/nowhere")
    message = said(read, web(environment={"A": text}))
    assert message.startswith("shop/compose.yaml:1 [services.web.environment] A: ")
    assert words in message


def test_a_link_out_of_the_folder_is_no_way_out(read, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "link").symlink_to("/etc")
    for more in ({"volumes": ["./link/passwd:/x"]}, {"build": "link", "image": None}):
        assert "leads out of the backend's folder" in said(read, web(**more))


@pytest.mark.parametrize(
    ("compose", "words"),
    [
        ("services: { web: { image: web, image: web } }", "compose.yaml:1: the key 'image' stands twice"),
        ("services:\n  web: [\n", "compose.yaml:3: not YAML: "),
        ("a: 1\n---\nb: 2\n", "compose.yaml:2: not YAML: but found another document"),
        ("services: { web: !reset { image: web } }", "compose.yaml:1: the tag '!reset' is not taken over"),
        ("services: &a { web: *a }", "nested deeper than 50 levels"),
        ("", "compose.yaml: there are no services in this file"),
        ("#" * 1_000_001, "compose.yaml: larger than 1000 kB"),
        ('services: { web: { image: "\\ud83d" } }', "compose.yaml:1: a character that no program can be given"),
        ("- a\n", "compose.yaml:1: there are no services in this file"),
        ("services: { web: { image: web, depends_on: [web] } }", "services need each other in a circle: web -> web"),
        ("services: { db: { image: db } }", "backend.toml:8 [compose.ports] http: there is no service 'web'"),
        (
            "services: { web: { image: w, volumes: ['~/x:/x'] } }",
            "the mounted path '~/x' is not inside the backend's folder",
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(read, compose: str, words: str) -> None:
    assert words in said(read, compose)


def test_a_compose_file_stands_for_services_and_not_beside_them(read) -> None:
    both = BACKEND + '[services.web]\nimage = "x"\nports = { http = 80 }\nready = { http = "http" }\n'
    assert "backend.toml:6 [compose]: there is [services] too" in said(read, web(), both)
    assert "there is no 'c.yaml' beside this file" in said(read, web(), BACKEND.replace("compose.yaml", "c.yaml"))
    unversioned = BACKEND.replace("[versions.1]\n", "")
    assert "[compose]: there is no [versions.<name>]" in said(read, web(), unversioned)
    unknown = BACKEND.replace('NAME = "shop"', 'NAME = "${address.http}"')
    assert "[compose.variables] NAME: ${address.http} has no value here" in said(read, web(), unknown)


# --- YAML ---------------------------------------------------------------------------------------


def test_anchors_and_merge_keys_are_followed_and_lines_known() -> None:
    text = "a: &x\n  k: 1\n  l: 22:22\nb:\n  <<: *x\n  k: 'true'\nc: *x\nd: [true, ~, yes]\n"
    document = parse_yaml(text.encode(), file="f")
    assert not isinstance(document, Problem)
    assert document.data == {
        "a": {"k": "1", "l": "22:22"},
        "b": {"k": "true", "l": "22:22"},
        "c": {"k": "1", "l": "22:22"},
        "d": [True, None, "yes"],
    }
    assert [document.lines[path] for path in (("a", "l"), ("b", "k"), ("b", "l"), ("d", 2))] == [3, 6, 3, 8]


def test_a_few_lines_that_stand_for_a_million_values_are_refused() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    found = parse_yaml("\n".join(rows).encode(), file="f")
    assert isinstance(found, Problem)
    assert found.message == f"more than {MAX_NODES:,} values"


@given(
    st.one_of(st.binary(max_size=200), st.text(alphabet="ab:-[]{}&*!|>'\"#, \n\t<~?%@", max_size=120).map(str.encode))
)
def test_any_bytes_are_a_document_or_a_problem(data: bytes) -> None:
    parse_yaml(data, file="f")


WORDS = st.text(alphabet=st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=5)
WORDS = WORDS.filter(lambda word: "\0" not in word)


@given(st.recursive(WORDS, lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner)))
def test_json_is_read_as_it_is(value: object) -> None:
    document = parse_yaml(json.dumps(value).encode(), file="f")
    assert not isinstance(document, Problem)
    assert document.data == value
