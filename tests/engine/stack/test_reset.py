"""One stack for several runs: what the first left never reaches the second, and whatever is in doubt is thrown away."""

import base64
import dataclasses
import http.client
import json
import os
import re
import sys
import urllib.request
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from harness.engine.docker import open_engine
from harness.engine.lend import MAX_KEPT, Stacks, open_stacks
from harness.engine.lend_link import Borrowed, Order, lending
from harness.engine.mask import Masker
from harness.engine.scope import LABEL, open_scope, start_time
from harness.errors import StackError
from harness.model.plan import EmbeddedSpec, OutputSpec, ProvisionSpec, ReadySpec, ResetSpec, RoleChoice

pytestmark = pytest.mark.anyio

SERVER = """
import http.server, json, os, sys
kept, password = [], os.environ["PASSWORD"]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global password
        text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        word, _, rest = text.partition(" ")
        print("told", word, rest, flush=True)
        if word == "keep":
            kept.append(rest)
        elif word == "die":
            os._exit(7)
        elif word in ("set", "wipe"):
            former, new = rest.split()
            if former == password:
                password = new
                if word == "wipe":
                    kept.clear()
        body = json.dumps({"kept": kept, "password": password}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def post(text):
    return ProvisionSpec(method="POST", url="http://${address.http}/", body=text)


WIPE = post("wipe ${former.password} ${secret.password}")


def looking(*, before=""):
    """A check that says what is kept, by a command beside the service."""
    code = (
        f"import os, urllib.request; {before}print(urllib.request.urlopen('http://${{address.http}}/').read().decode())"
    )
    return ProvisionSpec(exec=(sys.executable, "-c", code))


def backend(bench, *, steps=(WIPE,), verify=None, prepare=(), name="thing"):
    process = EmbeddedSpec(
        command=(sys.executable, "-c", SERVER, "${port.http}"),
        ports=("http",),
        env={"PASSWORD": "${secret.password}"},
        ready=ReadySpec(http="http", body="${secret.password}"),
        reset=ResetSpec(steps=tuple(steps), verify=tuple(verify or (looking(),)), prepare=tuple(prepare)),
    )
    return bench.backend(
        name=name,
        process=process,
        secrets={"password": 24},
        provision=(post("keep first"),),
        outputs=(
            OutputSpec(name="url", value="http://${address.http}/"),
            OutputSpec(name="password", value="${secret.password}", secret=True),
        ),
    )


def say(lent, text="keep something"):
    """Does what a server under test might, and gives what is kept then."""
    url = next(value for name, value in lent.stack.values.items() if name.endswith(".url"))
    with urllib.request.urlopen(urllib.request.Request(url, data=text.encode()), timeout=5) as answer:
        return json.loads(answer.read())


async def printed(lent):
    """The log of the only service, once what it was told last is in it."""
    with anyio.fail_after(30):
        while True:
            (log,) = (await lent.stack.logs()).values()
            if b"told keep something" in log:
                return log
            await anyio.sleep(0.02)


class Lender:
    def __init__(self, bench, stacks):
        self.bench, self.stacks = bench, stacks

    @asynccontextmanager
    async def lend(self, *specs, role="", peace=True, wanted=True, version="embedded", masker=None, once=False):
        async with self.stacks.lend(
            [RoleChoice(role=role or spec.name, backend=spec.name, version=version) for spec in specs],
            {spec.name: spec for spec in specs},
            runtime="process" if version == "embedded" else "docker",
            masker=masker or Masker(),
            subject="test",
            state=self.bench.state,
            wanted=lambda: wanted,
            once=once,
        ) as lent:
            yield lent
            lent.in_peace = peace


@asynccontextmanager
async def lender(bench, *, again=True):
    async with open_stacks(again=again, scope=bench.scope, progress=bench.steps) as stacks:
        yield Lender(bench, stacks)


def living(bench):
    out = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(bench.scope.tmp).encode() in (entry / "environ").read_bytes():
                out.append(entry.name)
        except OSError:
            continue
    return out


def starts(bench):
    return [what.partition(" ")[0] for what in bench.steps.begun]


async def test_a_stack_serves_one_run_after_the_other_and_each_finds_it_new(bench):
    spec = backend(bench)
    seen = []
    async with lender(bench) as shop:
        for number in (1, 2, 3):
            async with shop.lend(spec, role=f"role-{number}") as lent:
                assert lent.stack.use == number
                assert lent.stack.note == ""
                answer = say(lent)
                assert answer["kept"] == ["first", "something"]  # provisioning came again, and nothing else is there
                assert answer["password"] == lent.stack.values[f"backend.role-{number}.password"]
                assert (await printed(lent)).count(b"told keep something") == 1
                seen.append((answer["password"], lent.stack.addresses))
        assert len(living(bench)) == 1
    assert len({password for password, _ in seen}) == 3
    assert len({addresses for _, addresses in seen}) == 1
    assert starts(bench) == ["start", "reset", "reset", "stop"]
    assert living(bench) == []


async def test_the_secrets_of_the_run_before_are_masked_too(bench):
    spec = backend(bench)
    async with lender(bench) as shop:
        async with shop.lend(spec) as lent:
            former = lent.stack.values["backend.thing.password"]
        masker = Masker()
        choice = [RoleChoice(role="r", backend="thing", version="embedded")]
        async with shop.stacks.lend(
            choice,
            {"thing": spec},
            runtime="process",
            masker=masker,
            subject="t",
            state=bench.state,
            wanted=lambda: False,
        ) as lent:
            assert masker.text(f"{former} {lent.stack.values['backend.r.password']}") == f"{'*' * 24} {'*' * 24}"


FORGETS = post("set ${former.password} ${secret.password}")  # a new password, and all data left
NO_STEP = ProvisionSpec(exec=(sys.executable, "-c", "import sys; sys.exit('no way back')"))
LISTENS_NO_MORE = ProvisionSpec(exec=(sys.executable, "-c", "import time; time.sleep(600)"), timeout_s=0.5)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((FORGETS,), """"kept": ["first", "something", "first"]"""),
        ((NO_STEP,), "ended with exit code 1: no way back"),
        ((LISTENS_NO_MORE,), "steps 1 had not ended after 0.5 s"),
    ],
)
async def test_a_reset_that_forgets_or_fails_is_caught_and_a_fresh_stack_comes(bench, steps, said):
    spec = backend(bench, steps=steps)
    async with lender(bench) as shop:
        async with shop.lend(spec) as lent:
            say(lent)
        async with shop.lend(spec, wanted=False) as lent:
            assert lent.stack.use == 1
            assert say(lent)["kept"] == ["first", "something"]
            assert lent.stack.note.startswith("its stack could not be reset, and a fresh one took its place: ")
            assert said in lent.stack.note
            assert len(living(bench)) == 1
    assert starts(bench) == ["start", "reset", "stop", "start", "stop"]
    assert living(bench) == []


async def test_a_password_that_stayed_the_same_is_caught_by_the_ready_check(bench):
    spec = backend(bench, steps=(post("wipe x y"),))
    spec = dataclasses.replace(spec, process=dataclasses.replace(spec.process, ready_timeout_s=1))
    async with lender(bench) as shop:
        async with shop.lend(spec):
            pass
        async with shop.lend(spec) as lent:
            assert lent.stack.use == 1
            assert "was not ready within 1 s" in lent.stack.note
            assert "*" * 24 in lent.stack.note


async def test_what_cannot_be_told_by_its_check_is_never_reset(bench):
    silent = ProvisionSpec(exec=(sys.executable, "-c", "print()"))
    spec = backend(bench, verify=(silent,), prepare=(post("keep prepared"),))
    async with lender(bench) as shop:
        for note in ("its stack will not be reset: ", ""):
            async with shop.lend(spec) as lent:
                assert lent.stack.use == 1
                assert say(lent)["kept"] == ["first", "something"]  # nor does it meet what was prepared
                assert lent.stack.note.startswith(note)
                assert ("verify 1 said nothing" in lent.stack.note) == bool(note)
    assert starts(bench) == ["start", "stop", "start", "stop", "start", "stop"]


async def test_what_differs_from_look_to_look_makes_fresh_stacks_and_no_error(bench):
    spec = backend(bench, verify=(looking(before="print(os.urandom(8).hex()); "),))
    async with lender(bench) as shop:
        async with shop.lend(spec):
            pass
        async with shop.lend(spec) as lent:
            assert lent.stack.use == 1
            assert "verify 1 says" in lent.stack.note


async def fails_in(lending):
    async with lending as lent:
        lent.in_peace = True
        raise ValueError("of the run")


async def test_a_stack_in_doubt_or_of_no_more_use_is_thrown_away(bench):
    spec = backend(bench)
    async with lender(bench) as shop:
        async with shop.lend(spec, peace=False):
            pass
        assert living(bench) == []
        async with shop.lend(spec, wanted=False):
            pass
        assert living(bench) == []
        async with shop.lend(spec):
            pass
        async with shop.lend(spec, once=True) as lent:  # it may have one that another had
            assert lent.stack.use == 2
        async with shop.lend(spec) as lent:
            assert lent.stack.use == 3
            async with shop.lend(spec, once=True) as lent:
                assert lent.stack.use == 1
            assert len(living(bench)) == 1
        with pytest.raises(ValueError, match="of the run"):
            await fails_in(shop.lend(spec))
        assert living(bench) == []
        with anyio.CancelScope() as scope:
            async with shop.lend(spec) as lent:
                lent.in_peace = True
                scope.cancel()
                await anyio.sleep(60)
        assert living(bench) == []
        async with shop.lend(spec) as lent:
            (pid,) = living(bench)
            with suppress(OSError):
                say(lent, "die now")
            with anyio.fail_after(30):
                while start_time(int(pid)) is not None:
                    await anyio.sleep(0.02)
        async with shop.lend(spec) as lent:
            assert lent.stack.use == 1
            assert "ended with exit code 7 while a run used it" in lent.stack.note
    assert living(bench) == []
    (note,) = bench.steps.notes
    assert note.rpartition(": ")[2] == lent.stack.note.rpartition(": ")[2]


async def test_an_interruption_in_the_midst_of_a_reset_leaves_nothing(bench):
    slow = ProvisionSpec(exec=(sys.executable, "-c", "import time; time.sleep(600)"))
    spec = backend(bench, steps=(slow,))
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with lender(bench) as shop:
            async with shop.lend(spec):
                pass

            async def interrupt():
                while "reset thing@embedded" not in bench.steps.begun:
                    await anyio.sleep(0.01)
                scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(interrupt)
                async with shop.lend(spec):
                    pytest.fail("it was reset")
    assert scope.cancelled_caught
    assert living(bench) == []


async def test_few_stacks_stand_idle_and_two_runs_never_have_one(bench):
    specs = [backend(bench, name=f"thing-{number}") for number in range(MAX_KEPT + 1)]
    async with lender(bench) as shop:
        for spec in specs:
            async with shop.lend(spec):
                pass
        assert len(living(bench)) == MAX_KEPT
        async with shop.lend(specs[0], wanted=False) as lent:  # it had waited longest
            assert lent.stack.use == 1
        async with shop.lend(specs[1]) as one, shop.lend(specs[1], wanted=False) as other:
            assert (one.stack.use, other.stack.use) == (2, 1)
            assert not set(one.stack.addresses) & set(other.stack.addresses)
    assert living(bench) == []


async def test_unless_it_is_asked_for_and_every_backend_can_each_run_has_its_own(bench):
    able, unable = backend(bench), backend(bench, name="other")
    unable = dataclasses.replace(unable, process=dataclasses.replace(unable.process, reset=None))
    for again, specs in ((False, (able,)), (True, (able, unable))):
        bench.steps.begun.clear()
        async with lender(bench, again=again) as shop:
            for _ in range(2):
                async with shop.lend(*specs) as lent:
                    assert (lent.stack.use, lent.stack.note) == (1, "")
        assert "reset" not in starts(bench)
        assert starts(bench).count("start") == 2 * len(specs)


# --- lent to other processes ----------------------------------------------------------------------


class Told(list):
    """What a borrower hears."""

    def begin(self, subject, what):
        self.append((subject, what))

    def end(self, subject, what, *, ok, seconds, detail=""):
        self.append((subject, f"{what}: {ok}"))

    def waiting(self, subject, what, detail):
        pass

    def note(self, subject, text):
        self.append((subject, text))


class Borrower(Lender):
    """As another process would borrow; what it stands up by itself shows as its own steps."""

    def __init__(self, bench, address, name):
        own_steps = type(bench.steps)()
        own = Stacks(again=True, scope=bench.scope, progress=own_steps)
        self.told, self.own = Told(), own_steps
        super().__init__(bench, Borrowed(address, name, own=own, progress=self.told))


@asynccontextmanager
async def link(bench, *specs, wanted=True):
    """Gives a maker of borrowers; those called "stranger" may have nothing."""
    order = Order(backends={spec.name: spec for spec in specs}, wanted=lambda _kind: wanted)
    async with open_stacks(again=True, scope=bench.scope, progress=bench.steps) as stacks:
        orders = {"alpha": order, "beta": order}.get
        async with lending(stacks, bench.scope, orders=orders) as address:
            yield lambda name: Borrower(bench, address, name)


async def none_lives(bench):
    with anyio.fail_after(30):
        while living(bench):
            await anyio.sleep(0.02)


async def test_a_borrowed_stack_is_as_an_own_one_and_serves_the_next_borrower(bench):
    spec = backend(bench)
    async with link(bench, spec) as borrower:
        alpha, beta = borrower("alpha"), borrower("beta")
        async with alpha.lend(spec, role="store", wanted=False) as lent:
            assert (lent.stack.use, lent.stack.note) == (1, "")
            assert say(lent)["kept"] == ["first", "something"]
            former = lent.stack.values["backend.store.password"]
            assert (await printed(lent)).count(b"told keep something") == 1
            assert list(await lent.stack.logs()) == ["store.thing"]
        assert [words for _, words in alpha.told] == ["start thing@embedded", "start thing@embedded: True"]
        masker = Masker()
        async with beta.lend(spec, role="cache", masker=masker) as lent:
            assert lent.stack.use == 2
            answer = say(lent)
            assert answer["kept"] == ["first", "something"]
            assert answer["password"] == lent.stack.values["backend.cache.password"] != former
            assert masker.text(f"{former} {answer['password']}") == f"{'*' * 24} {'*' * 24}"
            assert lent.stack.versions == {"thing@embedded": ""}
        assert beta.told == [("test", "reset thing@embedded"), ("test", "reset thing@embedded: True")]
        assert (starts(bench), alpha.own.begun, beta.own.begun) == ([], [], [])
        assert len(living(bench)) == 1
    assert living(bench) == []


async def test_a_link_that_breaks_takes_its_stack_with_it(bench):
    spec = backend(bench)
    async with link(bench, spec) as borrower:
        alpha = borrower("alpha")
        with pytest.raises(ValueError, match="of the run"):
            await fails_in(alpha.lend(spec))
        await none_lives(bench)
        with anyio.CancelScope() as scope:
            async with alpha.lend(spec) as lent:
                lent.in_peace = True
                scope.cancel()
                await anyio.sleep(60)
        await none_lives(bench)
        slow = backend(bench, name="slow")
        slow = dataclasses.replace(
            slow, process=dataclasses.replace(slow.process, ready=ReadySpec(http="http", body="?"))
        )
        async with link(bench, slow) as other:
            with anyio.move_on_after(1):
                async with other("alpha").lend(slow):
                    pytest.fail("it is never ready")
            await none_lives(bench)
        async with alpha.lend(spec, peace=False):
            assert len(living(bench)) == 1
        await none_lives(bench)
        async with borrower("beta").lend(spec) as lent:
            assert lent.stack.use == 1


async def test_a_reset_that_fails_is_told_to_the_borrower_and_an_error_is_the_same_error(bench):
    broken = backend(bench, steps=(NO_STEP,))
    dead = backend(bench, name="dead")
    command = (sys.executable, "-c", "import sys; sys.exit('cannot begin')")
    dead = dataclasses.replace(dead, process=dataclasses.replace(dead.process, command=command))
    async with link(bench, broken, dead) as borrower:
        alpha = borrower("alpha")
        async with alpha.lend(broken):
            pass
        async with alpha.lend(broken) as lent:
            assert lent.stack.use == 1
            assert "no way back" in lent.stack.note
        assert "no way back" in str(alpha.told)
        with pytest.raises(StackError, match="ended with exit code 1") as borrowed:
            async with alpha.lend(dead):
                pytest.fail("it does not stand")
    async with lender(bench) as shop:
        with pytest.raises(StackError) as own:
            async with shop.lend(dead):
                pytest.fail("it does not stand")
    assert "cannot begin" in own.value.log
    for name in ("message", "hint", "log", "server", "kind", "code"):
        ours, theirs = (re.sub(r":\d+", ":port", str(getattr(item.value, name))) for item in (own, borrowed))
        assert theirs == ours


async def test_what_nobody_lends_is_stood_up_by_oneself(bench):
    spec, unable = backend(bench), backend(bench, name="unable")
    changed = dataclasses.replace(spec, provision=(post("keep second"),))
    unable = dataclasses.replace(unable, process=dataclasses.replace(unable.process, reset=None))
    async with link(bench, spec, unable) as borrower:
        for name, wish in (("stranger", spec), ("alpha", changed), ("alpha", unable)):
            one = borrower(name)
            async with one.lend(wish, wanted=False) as lent:
                assert lent.stack.use == 1
            assert one.own.begun[0] == f"start {wish.name}@embedded"
            assert starts(bench) == []
        gone = Borrower(bench, str(bench.tmp / "nobody"), "alpha")
        async with gone.lend(spec, wanted=False):
            pass
        assert "no stack can be borrowed" in gone.told[0][1]


async def test_one_who_still_has_a_stack_when_the_lender_goes_is_told(bench):
    spec = backend(bench)
    has_it, gone = anyio.Event(), anyio.Event()

    async def use(shop):
        async with shop.lend(spec) as lent:
            has_it.set()
            await gone.wait()
            with pytest.raises(StackError, match="whoever lent this stack is gone"):
                await lent.stack.logs()

    async def borrow(shop):
        with pytest.raises(StackError, match="whoever lent this stack is gone"):  # nor can it be given back
            await use(shop)

    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            async with link(bench, spec) as borrower:
                tasks.start_soon(borrow, borrower("alpha"))
                await has_it.wait()
        assert living(bench) == []
        gone.set()


async def test_a_folder_with_a_long_name_is_no_hindrance(bench, tmp_path):
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    with open_scope(deep) as scope:
        async with open_stacks(again=True, scope=scope, progress=bench.steps) as stacks:
            async with lending(stacks, scope, orders=lambda _name: None) as address:
                assert len(address) < 100
                assert os.stat(os.path.dirname(address)).st_mode & 0o777 == 0o700
        assert not os.path.exists(address)


# --- the shipped ones -----------------------------------------------------------------------------

BREAK = "/tmp/broken"
REDIS_DIRT = (
    "SET left 1",
    "SELECT 5",
    "SET left 5",
    "CONFIG SET maxmemory-policy allkeys-lru",
    "ACL SETUSER mallory on >p4ssw0rd ~* +@all",
    "EVAL 'return' 0",
)
REDIS_LOOK = (
    *("GET left", "SELECT 5", "GET left", "CONFIG GET maxmemory-policy", "ACL USERS"),
    *("SCRIPT EXISTS 63143b6f8007b98c53ca2149822777b3566f9241", "AUTH mallory p4ssw0rd"),
)
SQL_DIRT = "CREATE TABLE left_over (a int); INSERT INTO left_over VALUES (1);"
PG_DIRT = f"{SQL_DIRT} CREATE SCHEMA left_schema; ALTER ROLE app SET search_path = left_schema; SELECT lo_create(0);"
PG_LOOK = (
    "SELECT tablename FROM pg_tables WHERE tableowner = 'app'; SHOW search_path; "
    "SELECT count(*) FROM pg_largeobject_metadata"
)
MY_DIRT = f"{SQL_DIRT} CREATE TABLE archive.left_over (a int); CREATE PROCEDURE left_behind() SELECT 1;"
MY_LOOK = "SHOW TABLES; SHOW TABLES IN archive; SHOW PROCEDURE STATUS WHERE Db = 'app'; SHOW GRANTS"


class Redis:
    """Each of these leaves behind what it can, by the way that a server has, and looks what is there."""

    password = "redis-cli -p {port} -a ${{former.password}} CONFIG SET requirepass ${{secret.password}}"
    signs = ("allkeys-lru", "mallory", ":1")

    def __init__(self, stack, redis_says):
        self.url, self.says = stack.values["backend.redis.url"], redis_says

    async def dirty(self):
        answer = self.says(self.url, *REDIS_DIRT)
        assert not re.search("^-", answer, re.MULTILINE), answer

    async def look(self):
        return self.says(self.url, *REDIS_LOOK)


class Radicale:
    password = "printf 'app:%s\\n' ${{secret.password}} >{users}"
    signs = ("/app/left/",)

    def __init__(self, stack, _says):
        self.url, self.secret = stack.values["backend.radicale.url"], stack.values["backend.radicale.password"]

    async def _ask(self, method, path, **headers):
        basic = base64.b64encode(f"app:{self.secret}".encode()).decode()
        host = self.url.removeprefix("http://").rstrip("/")
        connection = http.client.HTTPConnection(host, timeout=10)
        try:
            connection.request(method, path, headers={"Authorization": f"Basic {basic}", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    async def dirty(self):
        assert (await self._ask("MKCALENDAR", "/app/left/"))[0] == 201
        assert (await self._ask("DELETE", "/app/home/"))[0] == 200

    async def look(self):
        return str(sorted(re.findall(r"<(?:\w+:)?href>([^<]*)<", (await self._ask("PROPFIND", "/app/", Depth="1"))[1])))


class Sql:
    """By the client in the container, over TCP and with the password: as from outside."""

    def __init__(self, stack, _says):
        self.secret = next(value for name, value in stack.values.items() if name.endswith(".password"))

    async def _run(self, text):
        engine = open_engine()
        (container,) = [
            thing.id
            for thing in engine.things_now(f"{LABEL}service={self.name}")
            if thing.kind == "container" and thing.labels[f"{LABEL}pid"] == str(os.getpid())
        ]
        env = {"PGPASSWORD": self.secret, "MYSQL_PWD": self.secret}
        done = await engine.execute(container, [*self.client, text], env=env)
        assert done.code == 0, done.err
        return done.out.decode()

    async def dirty(self):
        await self._run(self.dirt)

    async def look(self):
        return await self._run(self.question)


class Postgres(Sql):
    name, dirt, question = "postgres", PG_DIRT, PG_LOOK
    client = ("psql", "--host=127.0.0.1", "--username=app", "--dbname=app", "--set=ON_ERROR_STOP=1", "-At", "-c")
    password = "psql -U postgres -c \"ALTER ROLE app PASSWORD '${{secret.password}}'\""
    signs = ("left_over", "left_schema", "\n1")


class Mariadb(Sql):
    name, dirt, question = "mariadb", MY_DIRT, MY_LOOK
    client = ("mariadb", "--host=127.0.0.1", "--skip-ssl", "--user=app", "--skip-column-names", "app", "--execute")
    password = "mariadb --skip-ssl -e \"ALTER USER app@'%' IDENTIFIED BY '${{secret.password}}'\""
    signs = ("left_over", "left_behind")

    async def look(self):
        return re.sub("PASSWORD '[^']*'", "", await super().look())  # of SHOW GRANTS


def breakable(spec, kind, *, broken, **words):
    """The same, but once a file is there its reset only changes the password."""

    def wrapped(reset):
        first, *rest = reset.steps
        switch = f'if [ -e {broken} ]; then eval "$0"; else exec "$@"; fi'
        argv = ("sh", "-c", switch, kind.password.format(**words), *first.exec)
        return dataclasses.replace(reset, steps=(dataclasses.replace(first, exec=argv), *rest))

    process = spec.process
    if process is not None and process.reset is not None:
        process = dataclasses.replace(process, reset=wrapped(process.reset))
    return dataclasses.replace(spec, reset=wrapped(spec.reset), process=process)


async def leaves_nothing(bench, spec, kind, redis_says, *, version, do_break):
    """Two runs on one stack, the second of which finds nothing of the first; then a reset that forgets."""
    async with lender(bench) as shop:
        async with shop.lend(spec, version=version) as lent:
            assert (lent.stack.use, lent.stack.note) == (1, "")
            first = kind(lent.stack, redis_says)
            fresh = await first.look()
            await first.dirty()
            assert not [sign for sign in kind.signs if sign not in await first.look()]
        async with shop.lend(spec, version=version) as lent:
            assert (lent.stack.use, lent.stack.note) == (2, "")
            second = kind(lent.stack, redis_says)
            assert await second.look() == fresh
            with pytest.raises(AssertionError):  # the password of the first is good for nothing now
                await first.dirty()
            await second.dirty()
            await do_break()
        async with shop.lend(spec, version=version, wanted=False) as lent:
            assert lent.stack.use == 1
            assert lent.stack.note.startswith("its stack could not be reset, and a fresh one took its place: ")
            assert "[reset] verify 1 says" in lent.stack.note or "was answered with status 409" in lent.stack.note
            assert await kind(lent.stack, redis_says).look() == fresh


@pytest.fixture
def shipped(backends):
    from harness.config.load import load_backend

    return lambda name: load_backend(backends / name, base=backends.parent)


@pytest.mark.docker
@pytest.mark.parametrize("kind", [Redis, Postgres, Mariadb, Radicale])
async def test_what_a_run_leaves_in_a_shipped_backend_is_gone(bench, shipped, redis_says, kind):
    name = kind.__name__.lower()
    spec = breakable(shipped(name), kind, broken=BREAK, port=6379, users="/run/radicale/users")

    async def do_break():
        (container,) = [item["Id"] for item in bench.inspect()]
        assert (await open_engine().execute(container, ["touch", BREAK])).code == 0

    await leaves_nothing(bench, spec, kind, redis_says, version=spec.default, do_break=do_break)
    assert bench.left() == []


@pytest.mark.network
@pytest.mark.parametrize("kind", [Redis, Radicale])
async def test_so_it_is_in_its_embedded_form(bench, shipped, installed, redis_says, kind):
    bench.state = installed
    spec = breakable(shipped(kind.__name__.lower()), kind, broken="broken", port="${port.redis}", users="users")

    async def do_break():
        for folder in bench.scope.tmp.glob("stack-*/*/data"):
            (folder / "broken").touch()

    await leaves_nothing(bench, spec, kind, redis_says, version="embedded", do_break=do_break)
    assert living(bench) == []
