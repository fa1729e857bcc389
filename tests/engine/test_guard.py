"""The guard: where a server may be pointed. Ours; the classifier's cases are the field's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.guard import MAX_VALUE_CHARS, check_roots, check_targets, is_loopback, numeric_host

HANDED_OUT = (("127.0.0.1", 6379), ("127.0.0.1", 49153))


def judge(env, argv=(), *, folders=(Path("/scratch"), Path("/repo"))):
    return check_targets(
        env, ("server", *argv), allowed=HANDED_OUT, own_port=8123, names=("redis", "minio"), folders=folders
    )


GOOD = [
    ({"A": "a:b"}, ()),
    ({"A": "12:30"}, ()),
    ({"A": "python:3.11"}, ()),
    ({"A": "redis:7"}, ()),
    ({"A": "node:18"}, ()),
    ({"A": "postgres:16-alpine"}, ()),
    ({}, ("--flag=x",)),
    ({"A": r"C:\Users\x"}, ()),
    ({"A": "1.2.3"}, ()),
    ({"A": "error"}, ()),
    ({"A": '{"port":5432,"a":"b:1"}'}, ()),
    ({"A": "timeout:5000,retries:3"}, ()),
    ({"A": "12:30:45"}, ()),
    ({"A": "2024-01-01T12:30:00Z"}, ()),
    ({"A": "1000:1000"}, ()),
    (
        {},
        (
            "-u",
            "1000:1000",
        ),
    ),
    ({"A": "std::vector"}, ()),
    ({"A": "a::b"}, ()),
    ({"A": "00:11:22:33:44:55"}, ()),
    ({"A": "sha256:abcdef"}, ()),
    ({"A": "git@github.com:org/repo"}, ()),
    ({"A": "main.py:10"}, ()),
    ({"A": "src/main.py:1234"}, ()),
    ({"TIMEOUT": "127.1"}, ()),
    ({"A": "urn:isbn:12345"}, ()),
    ({"REDIS_HOST": "127.0.0.1", "REDIS_PORT": "6379"}, ()),
    ({"PGHOST": "127.0.0.1", "PGPORT": "6379"}, ()),
    ({"REDIS_URL": "redis://127.0.0.1:6379/0"}, ()),
    ({"REDIS_URL": "redis://:pa%40ss@127.0.0.1:6379"}, ()),
    ({"URL": "http://redis:99/x"}, ()),
    (
        {},
        (
            "--host",
            "127.0.0.1",
            "--port",
            "6379",
        ),
    ),
    (
        {},
        (
            "--redis-host=127.0.0.1",
            "--redis-port=6379",
        ),
    ),
    (
        {},
        (
            "127.0.0.1",
            "6379",
        ),
    ),
    ({}, ("127.0.0.1:6379",)),
    ({}, ("http://127.0.0.1:8123/mcp",)),
    ({"DB": "sqlite:////scratch/x.db"}, ()),
    ({"DB": "sqlite:///:memory:"}, ()),
    ({"DB": "sqlite://"}, ()),
    ({"DATABASE_URL": "sqlite:///data.db"}, ()),
    ({"D": "file:///repo/x"}, ()),
    ({"D": "sqlite:x.db"}, ()),
    ({"ENDPOINT": "/api/v1"}, ()),
    ({"USE_URL": "true"}, ()),
    ({"REDIS_URL": ""}, ()),
    ({"KAFKA": "127.0.0.1:6379,127.0.0.1:49153"}, ()),
    ({"M": "mongodb://127.0.0.1:6379,127.0.0.1:49153/db"}, ()),
    ({"DSN": "host=127.0.0.1 port=6379 dbname=x"}, ()),
    ({"NO_PROXY": "10.0.0.1,localhost"}, ()),
    ({"NETS": "10.0.0.0/8"}, ()),
    ({"APP_VERSION": "1.2.3.4"}, ()),
    ({"A": "120.0.6099.109"}, ()),
    ({"LOG_LEVEL": "error"}, ()),
    (
        {},
        (
            "sh",
            "-c",
            "exec x --url http://127.0.0.1:6379/",
        ),
    ),
    ({"A": "10:20"}, ()),
    ({"GHOST": "boo"}, ()),
    (
        {},
        (
            "-y",
            "@modelcontextprotocol/server-memory@1.0",
        ),
    ),
    ({"A": "key:1,b:22x"}, ()),
    ({"A": "x-y:z"}, ()),
    ({"A": "// a comment"}, ()),
    ({"A": "//a"}, ()),
    ({"A": "gpt-4:free"}, ()),
    (
        {},
        (
            "--ratio",
            "16:9",
        ),
    ),
    (
        {},
        (
            "--model",
            "llama3:70",
        ),
    ),
    ({"A": "mysql-user:pw@tcp(127.0.0.1:6379)/db"}, ()),
    ({"U": "http://127.0.0.1:6379,http://127.0.0.1:49153"}, ()),
    ({"OTEL": "k=v,a=b"}, ()),
    ({"JSON": '{"url":"http://127.0.0.1:6379/x","n":[1,2]}'}, ()),
    ({"A": "3.11"}, ()),
    ({}, ("3.11",)),
    ({"IMAGE": "node:22"}, ()),
    ({"IMAGE": "eclipse-temurin:21"}, ()),
    ({"MODEL": "anthropic.claude-3-5-sonnet-20241022-v2:0"}, ()),
    ({"TAGS": "release:2025"}, ()),
    ({"A": "is:open created:2024"}, ()),
    ({"LIMITS": "upload:5000"}, ()),
    ({"A": "sha256:1234"}, ()),
    ({"A": "a::1"}, ()),
    ({"A": "01:02:03:04:05:06:07:08"}, ()),
    ({"A": "2024-01-01T12:25"}, ()),
    ({"FROM_ADDRESS": "me@example.org"}, ()),
    ({"CONTRACT_ADDRESS": "0xdAC17F958D2ee523a2206206994597C13D831ec7"}, ()),
    ({"AUTH_TRUST_HOST": "1"}, ()),
    ({"SSL_VERIFYHOST": "0"}, ()),
    ({"USE_LOCALHOST": "1"}, ()),
    ({"BASE_URL": "/", "PUBLIC_URL": "/"}, ()),
    ({"RABBITMQ_VHOST": "/"}, ()),
    ({"NODES": "3"}, ()),
    ({"MCP_SERVER": "memory"}, ()),
    ({"PORT": "3000", "SERVER_PORT": "3000", "LISTEN_PORT": "1", "METRICS_PORT": "9090", "DEBUG_PORT": "5678"}, ()),
    ({"REDIS_PORT": "6379", "TRANSPORT": "1"}, ()),
    ({"U": "postgresql://u:p@127.0.0.1:6379/db?sslmode=disable&application_name=x"}, ()),
    ({"U": "postgresql://127.0.0.1:6379/db?host=127.0.0.1&port=49153"}, ()),
    ({"U": "jdbc:sqlserver://127.0.0.1:6379;databaseName=x"}, ()),
    ({"C": "Server=127.0.0.1,6379;Database=x"}, ()),
    ({"C": '{"redis":{"host":"127.0.0.1","port":6379,"timeout":3000}}'}, ()),
    ({"U": "['http://127.0.0.1:6379', 'http://127.0.0.1:49153']"}, ()),
    ({"Y": "url: http://127.0.0.1:6379/\nname: x"}, ()),
    ({}, ("sh", "-c", 'exec x --url "http://127.0.0.1:6379/" -h 127.0.0.1:6379')),
    ({}, ("-rredis://127.0.0.1:6379", "-la", "--verbose")),
    (
        {},
        (
            "--python",
            "3.11.7",
        ),
    ),
]
BAD = [
    ({"A": "http://example.com"}, ()),
    ({"A": "https://127.0.0.1:6379@evil.example/"}, ()),
    ({"A": "http://127.0.0.1:6380"}, ()),
    ({"A": "http://127.0.0.1"}, ()),
    ({"A": "http://localhost:6379"}, ()),
    ({"A": "http://[::1]:6379"}, ()),
    ({"A": "http://127.0.0.2:6379"}, ()),
    ({"A": "http://0x7f.1:6379"}, ()),
    ({"A": "http://0177.0.0.1:6379"}, ()),
    ({"A": "http://2130706433:6379"}, ()),
    ({"A": "http://127.1:6379"}, ()),
    ({"A": "http://127.0.0.1.:6379"}, ()),
    ({"A": "http://127.0.0.1\\@evil.example:6379/"}, ()),
    ({"A": "http://１２７.0.0.1:6379"}, ()),
    ({"A": "http://127。0。0。1:6379"}, ()),
    ({"A": "http://[::ffff:127.0.0.1]:6379"}, ()),
    ({"A": "http://[::1%eth0]:6379"}, ()),
    ({"A": "http://%31%32%37.0.0.1:6379"}, ()),
    ({"A": "http://127.0.0.1:6379\t@evil/"}, ()),
    ({"A": "http:evil.com"}, ()),
    ({"A": "http:/evil.com"}, ()),
    ({"A": "//evil.com/x"}, ()),
    ({"REDIS_HOST": "prod"}, ()),
    ({"REDIS_HOST": "127.0.0.1"}, ()),
    ({"REDIS_HOST": "127.0.0.1", "REDIS_PORT": "6380"}, ()),
    ({"REDIS_HOST": "localhost", "REDIS_PORT": "6379"}, ()),
    ({"PGHOST": "/var/run/postgresql"}, ()),
    ({"A": "db:5432"}, ()),
    ({"A": "prod.example.com:80"}, ()),
    ({"A": "localhost:6379"}, ()),
    ({"A": "10.0.0.5"}, ()),
    ({"A": "::1"}, ()),
    ({"A": "fe80::1"}, ()),
    ({"A": "0.0.0.0:6379"}, ()),
    ({"A": "[::]:6379"}, ()),
    ({"A": "0:6379"}, ()),
    ({"A": "2130706433:6379"}, ()),
    ({"A": "k1:9092,k2:9092"}, ()),
    (
        {},
        (
            "--host",
            "prod",
        ),
    ),
    ({}, ("--url=http://prod/",)),
    (
        {},
        (
            "--host",
            "127.0.0.1",
        ),
    ),
    (
        {},
        (
            "--host",
            "127.0.0.1",
            "--port",
            "1",
        ),
    ),
    (
        {},
        (
            "-h",
            "prod",
        ),
    ),
    ({}, ("REDIS_HOST=prod",)),
    (
        {},
        (
            "sh",
            "-c",
            "x --url http://prod",
        ),
    ),
    (
        {},
        (
            "sh",
            "-c",
            "redis-cli -h x.example.com:6379",
        ),
    ),
    ({"DB": "sqlite:////etc/passwd"}, ()),
    ({"DB": "file:///etc/passwd"}, ()),
    ({"DB": "sqlite:////scratch/../../etc/passwd"}, ()),
    ({"DB": "sqlite:///etc/passwd"}, ()),
    ({"A": "unix:///var/run/docker.sock"}, ()),
    ({"A": "/var/run/docker.sock"}, ()),
    ({"A": "unix:/x.sock"}, ()),
    ({"A": "redis:///0"}, ()),
    ({"A": "postgresql:///db"}, ()),
    ({"A": "http+unix://%2Fvar/x"}, ()),
    ({"DSN": "host=prod port=6379 dbname=x"}, ()),
    ({"A": "user:pw@tcp(prod:3306)/db"}, ()),
    ({"M": "mongodb://127.0.0.1:6379,prod:27017/db"}, ()),
    ({"U": "http://127.0.0.1:6379,http://evil.com"}, ()),
    ({"A": "http://127.0.0.1:06379"}, ()),
    ({"A": "http://127.0.0.1:6379#@evil.com"}, ()),
    ({"URL": "prod.example.com/api"}, ()),
    ({"DATABASE_URL": "/etc/passwd"}, ()),
    ({"A": "http://user@127.0.0.1:6379@evil/"}, ()),
    ({"A": "１２７.0.0.1:6379"}, ()),
    ({"A": "jdbc:postgresql://prod:5432/x"}, ()),
    ({"API_ENDPOINT": "metadata"}, ()),
    ({"A": "169.254.169.254"}, ()),
    ({"A": "HTTP://EVIL"}, ()),
    ({"MY_ADDR": "prod"}, ()),
    ({"A": "http:／／evil.com"}, ()),
    ({"A": "ldap://"}, ()),
    ({"A": "tcp://127.0.0.1:6380"}, ()),
    ({"A": '{"url":"http://prod:6379/x"}'}, ()),
    ({"HOST": "0"}, ()),
    ({"A": "127.0.0.1 6379"}, ()),
    ({"A": "http://redis.evil.com:6379"}, ()),
    ({"A": "localhost.:6379"}, ()),
    ({"A": "LOCALHOST:6379"}, ()),
    ({"A": "ftp://127.0.0.1:6379:80/"}, ()),
    ({"A": "http://127.0.0.1:6379:1/"}, ()),
    ({"A": "0x7f000001:6379"}, ()),
    ({"A": "0x7f.0.0.1"}, ()),
    ({"A": "::ffff:127.0.0.1"}, ()),
    # parameters of a good URL
    ({"U": "postgresql://127.0.0.1:6379/db?host=prod"}, ()),
    ({"U": "postgresql://127.0.0.1:6379/db?%68ost=prod"}, ()),
    ({"U": "postgresql://127.0.0.1:6379/db?hostaddr=10.0.0.5"}, ()),
    ({"U": "postgresql://127.0.0.1:6379/db?port=5432"}, ()),
    ({"U": "postgresql://127.0.0.1:6379/db?service=prod"}, ()),
    ({"U": "postgresql://127.0.0.1:6379/db?options=-hprod"}, ()),
    ({"U": "mysql://127.0.0.1:6379/db?unix_socket=/run/x"}, ()),
    ({"U": "mysql://127.0.0.1:6379/db#host=prod"}, ()),
    ({"U": "jdbc:sqlserver://127.0.0.1:6379;serverName=prod"}, ()),
    ({"U": "mongodb+srv://127.0.0.1:6379"}, ()),
    # arguments that begin with a dash
    ({}, ("-rredis://prod",)),
    ({}, ("-h10.1.2.3",)),
    ({}, ("-hprod.example.com",)),
    ({}, ("--db:redis://prod",)),
    ({}, ("--x=redis://prod",)),
    ({}, ("--redis-host:prod",)),
    ({}, ("-redis-host", "prod")),
    ({}, ("-Dredis.host=prod",)),
    ({}, ("--set", "redis.host=prod")),
    ({}, ("--redis-port", "1234")),
    # a shell's words
    ({}, ("sh", "-c", "export REDIS_HOST=prod; x")),
    ({}, ("sh", "-c", "A=1 REDIS_HOST=prod x")),
    ({}, ("sh", "-c", "x --host prod")),
    ({}, ("sh", "-c", "sh -c 'x --host prod'")),
    ({}, ("sh", "-c", "REDIS_PORT=1234 x")),
    # characters at which some parsers stop
    *(({"U": f"redis://127.0.0.1:6379{odd}@prod/0"}, ()) for odd in "|'`<>\" \t\n;,{^"),
    ({"U": "'http://127.0.0.1:6379'@prod/"}, ()),
    ({"U": "http:/\t/prod/"}, ()),
    ({"U": "redis:\\\\prod"}, ()),
    ({"U": "\\\\prod\\share"}, ()),
    # schemes with a host
    ({"DB": "sqlite+libsql://prod.turso.io?secure=true"}, ()),
    ({"DB": "libsql:prod.turso.io"}, ()),
    ({"DB": "memory+redis://prod"}, ()),
    ({"DB": "sqlite://prod"}, ()),
    ({"DB": "duckdb:md:prod"}, ()),
    # pairs
    ({"A": "tcp:prod:6379"}, ()),
    ({"A": "amqp:prod:5672"}, ()),
    ({"A": "/prod.example.com:6379"}, ()),
    ({"A": "prod:6379-slave"}, ()),
    ({"A": "prod:5432:db"}, ()),
    ({"A": "127.0.0.1:6379.example.com"}, ()),
    ({"A": "127.0.0.1:006379"}, ()),
    ({"A": "broker.firma.rs:9092"}, ()),
    ({"A": "broker.sh:9092"}, ()),
    ({"A": "cache:6379"}, ()),
    ({"A": "prod-index:9200"}, ()),
    ({"A": "prod-redis:16379"}, ()),
    ({"A": "user%40prod.example.com:6379"}, ()),
    ({"MQ_BROKER": "prod:1"}, ()),
    # JSON and kin
    ({"C": '{"host":"prod","port":6379}'}, ()),
    ({"C": '{"host":"127.0.0.1","port":1234}'}, ()),
    ({"C": '{"host":"prod","host":"127.0.0.1","port":6379}'}, ()),
    ({"C": '{"u":"redis:\\/\\/prod"}'}, ()),
    ({"C": '{"u":"redis:\\u002f\\u002fprod"}'}, ()),
    ({"C": r"x=redis:\/\/prod"}, ()),
    ({"C": '{"redis_port":1234}'}, ()),
    ({"C": "host: prod\nport: 6379"}, ()),
    ({"DSN2": "host=prod"}, ()),
    ({"JAVA_OPTS": "-Xmx1g -Dredis.host=prod"}, ()),
    # names
    ({"REDIS_PORT": "1234"}, ()),
    ({"PGPORT": "5432"}, ()),
    ({"FOO_PORT": "5432"}, ()),
    ({"REDIS_HOST": "", "REDIS_PORT": "6379"}, ()),
    ({"REDIS_HOSTS": "prod"}, ()),
    ({"REDIS_HOSTS": "127.0.0.1:6379,prod"}, ()),
    ({"BROKERS": "prod"}, ()),
    ({"SERVERS": "a,b"}, ()),
    ({"ES_URLS": "prod"}, ()),
    ({"ENDPOINTS": '["prod"]'}, ()),
    ({"NODES": "a,b"}, ()),
    ({"P_HOST_2": "prod"}, ()),
    ({"redisHost": "prod"}, ()),
    ({"NO_PROXY": "redis://prod"}, ()),
    ({"CURL": "https://prod"}, ()),
    ({"A": "path=/var/run/x.sock"}, ()),
]


@pytest.mark.parametrize(("env", "argv"), GOOD, ids=str)
def test_what_is_no_target_or_one_of_ours_is_let_through(env, argv):
    assert judge(env, argv) == ()


@pytest.mark.parametrize(("env", "argv"), BAD, ids=str)
def test_everything_else_is_refused(env, argv):
    assert judge(env, argv) != ()


@pytest.mark.parametrize("name", ["localhost", "a.localhost", "127.0.0.1", "0x7f.1", "2130706433", "::1", "0"])
def test_a_service_cannot_be_called_like_this_machine(name):
    said = check_targets(
        {"A": f"http://{name}:5432/"}, (), allowed=HANDED_OUT, own_port=None, names=(name,), folders=()
    )
    assert said != ()


@pytest.mark.parametrize(
    "env",
    [{"A": "redis://hunter2"}, {"A": "redis://me:hunter2@hunter2:1/hunter2"}, {"A_HOST": "hunter2"},
     {"A": "hunter2.example:80"}, {"A": '{"host":"hunter2"}'}, {"A": "host=hunter2"}, {"A": "file:///hunter2"}],
)  # fmt: skip
def test_no_message_holds_a_piece_of_a_value(env):
    said = judge(env, ("--x=redis://hunter2", "-rredis://hunter2", "sh", "-c", "x --host hunter2"))
    assert len(said) >= 4
    assert "hunter2" not in "".join(said)


@pytest.mark.parametrize(
    "text",
    ["://" * 60_000, "http://" * 30_000, "a.b:1 " * 30_000, "a" * 200_000, "1." * 100_000, "a=b " * 50_000,
     "[" * 200_000, "x" * (MAX_VALUE_CHARS + 1)],
    ids=range(8),
)  # fmt: skip
def test_no_value_takes_long(text):
    judge({"A_URL": text, "B": text})


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "[::1]", "127.0.0.2", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "127.0.0.1."],
)
def test_another_spelling_of_an_address_of_ours_is_refused_with_the_right_one(host):
    (said,) = judge({"A": f"http://{host}:6379/"})
    assert "write it so" in said
    assert "127.0.0.1:6379" in said


def test_all_violations_are_told_and_passwords_are_not():
    said = judge({"A": "redis://me:pa55word@prod:1", "B_HOST": "prod"}, ("--url=http://x",))
    assert [line.split(":")[0].split(" (")[0] for line in said] == ["variable A", "variable B_HOST", "argument 1"]
    assert "pa55word" not in "".join(said)


def test_files_are_judged_where_they_really_lie(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    assert judge({"A": f"sqlite:///{inside}/a.db"}, folders=(inside,)) == ()
    assert judge({"A": f"sqlite:///{inside}/link/a.db"}, folders=(inside,)) != ()
    assert judge({"A": f"file://{inside}/%2e%2e/out/a"}, folders=(inside,)) != ()


def test_a_unix_socket_is_refused_by_what_it_is(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert judge({"A": str(tmp_path / "s")}) != ()


# --- the classifier -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.255.0.9", "::1", "[::1]", "::ffff:127.0.0.1", "0177.0.0.1", "0x7f.1", "2130706433", "127.1"],
)
def test_loopback_is_known_by_its_number(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["::", "::2", "::ff:1", "0.0.0.0", "0", "10.0.0.1", "169.254.169.254", "fe80::1", "localhost", "127.example.com",
     "", "127.0.0.1.example.com", "::ffff:10.0.0.1", "1.2.3.4.5", "127.0.0.256", "09.0.0.1", "0x", "127..1", "fc00::1"],
)  # fmt: skip
def test_nothing_else_is_loopback(host):
    assert not is_loopback(host)


@given(st.integers(0, 2**32 - 1))
def test_every_spelling_of_a_number_is_read_as_a_c_library_does(value):
    a, b, c, d = value.to_bytes(4)
    spellings = [
        str(value),
        hex(value),
        f"0{value:o}",
        f"{a}.{b}.{c}.{d}",
        f"{a}.{value & 0xFFFFFF}",
        f"{a:#x}.0{b:o}.{c}.{d}",
    ]
    assert {numeric_host(item) for item in spellings} == {value}


@given(st.text(max_size=60))
def test_no_text_makes_the_guard_fail(text):
    judge({"A": text, "A_HOST": text, "B_URL": text}, (text, f"--x={text}", "--host", text))


hosts = st.from_regex(r"\A[a-z][a-z0-9]{0,8}(\.[a-z]{2,5}){0,2}\Z").filter(lambda host: host not in ("redis", "minio"))


@given(hosts, st.integers(1, 65535), st.sampled_from(["http", "redis", "postgresql", "wss", "tcp"]))
def test_no_url_leads_to_a_strangers_host(host, port, scheme):
    for url in (f"{scheme}://{host}:{port}", f"{scheme}://u:p@{host}:{port}/x", f"see {scheme}://{host}/x"):
        assert judge({"A": url}) != ()


@given(st.text(alphabet="127.0x:@/[]\\#?%1\t ", max_size=24))
def test_an_url_that_is_let_through_names_an_address_of_ours(rest):
    if judge({"A": f"http://{rest}"}) == ():
        host = rest.split("/")[0].split("?")[0].split("#")[0].rpartition("@")[2].rstrip()
        assert host.split(" ")[0] in {"127.0.0.1:6379", "127.0.0.1:49153", "127.0.0.1:8123"}


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("file://{tmp}/x", ""),
        ("file://{tmp}", ""),
        ("file://{tmp}/not%20there/yet", ""),
        ("file:///", "it is a path outside of ${tmp} and ${repo}"),
        ("file:///etc", "it is a path outside of ${tmp} and ${repo}"),
        ("file:///:memory:/../etc", "it is a path outside of ${tmp} and ${repo}"),
        ("file://{tmp}/../../etc", "it is a path outside of ${tmp} and ${repo}"),
        ("file://{tmp}/%2e%2e/%2e%2e/%2e%2e/etc", "it is a path outside of ${tmp} and ${repo}"),
        ("file://{tmp}/link", "it is a path outside of ${tmp} and ${repo}"),
        ("file://localhost{tmp}", "what follows file:// would be a host; write file:///…"),
        ("file://elsewhere/share", "what follows file:// would be a host; write file:///…"),
    ],
)
def test_a_root_is_a_folder_of_the_run(tmp_path, uri, said):
    (tmp_path / "link").symlink_to("/etc")
    found = check_roots(["file://" + str(tmp_path), uri.format(tmp=tmp_path)], folders=[tmp_path])
    assert found == ((f"root 2: {said}",) if said else ())
