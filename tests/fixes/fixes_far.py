"""Refusals that need another party, a ledger of another time, a disk in trouble or a service: written as in `fixes_calls`."""

from __future__ import annotations

import asyncio
import http.server
import re
import shutil
import socket
import sqlite3
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from fractions import Fraction
from io import StringIO
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fixes_world import COLUMNS, altered, fresh_ledger, module, patched, typed

import oboro as ob
from oboro.engine.protocol import Limits, Source

FAR = r"""
# -- two parties
typed(f"secure draw --plan {party().plan} --answer {party().sealed} --ledger {party().place}")
typed(f"secure draw --plan {party().plan} --answer {party().sealed} --ledger {party().place} --connect 127.0.0.1:9000") ==> typed(fix[6:].replace("NAME", "henry")) or typed(f"secure keys ida")
module("cli.secure")._shelf(None, "postgresql://stat/city", "postgresql://stat/city") ==> module("cli.secure")._shelf(Path(fix.split()[1]), "postgresql://stat/city")
module("cli.secure")._shelf(None, linked()) ==> module("cli.secure")._shelf(Path(fix.split()[1]), linked())
patched("secure.digits", "_search", lambda *_: iter(()), lambda: module("secure.digits").digit_urns(Fraction(2), Fraction(1, 10), 1, excess=Fraction(1, 2), seconds=1.0)) ==> ob.secure.plan(eps=2, delta="0.1", method="digits", **dict({fix}))
opened_far(party()) ==> party().drawn()
party().bound().prepare(party().exchange(2)) ==> ob.secure.plan(eps=2, delta="0.1", seconds=4, **dict([fix.partition(": ")[2].split("=")]))
party().bound().measure(party().ready(), ob.noise.bits.Bits(), trials=3) ==> party().bound().measure(42, ob.noise.bits.Bits(), trials=3)
patched("secure.noise_plan", "MOST_SENT", 3, noise.check_sendable) ==> ob.secure.plan(eps=2, delta="0.1", seconds=2, **dict({fix})).check_sendable()
party().noise_of(eps="1", delta="1e-9") ==> ob.secure.plan(eps=2, delta="0.1", seconds=1, method="digits") and typed("secure plan --eps 2 --delta 0.1 --seconds 1 -o kept.toml")
ob.secure.verify(party().forged()) ==> ob.secure.verify(ob.secure.plan(eps=2, delta="0.1", seconds=1, method="digits"))
party().twice() ==> party().drawn()
ob.secure.plan(eps="0.1", delta="0.0154", method="paper", draws=2, init=19, stop="proof") ==> ob.secure.plan(eps=2, delta="0.1", seconds=1, **dict({fix}))
party().settled(2**62) ==> party().settled(42)
module("secure.wire").unpack(1, module("secure.wire").HEAD.pack(module("secure.wire").MAGIC, 99, 1, 1) + b"x" * 99) ==> module("secure.wire").unpack(module("secure.wire").ANSWER, module("secure.wire").pack(module("secure.wire").ANSWER, b"x"))
party().left() ==> party().drawn()
ob.secure.draw(closed_port(), party().answer, party().ledger, party().identity(), party().shelf(), party().noise) ==> party().drawn()
# -- ledgers of another time, and disks in trouble
(lambda place: ob.Ledger.open(place).reserve(plan={"kind": "x"}, guarantee=ob.Pure(1), unit=ob.Ledger.open(place).unit))(older()) ==> typed(fix[6:]) or ob.Ledger.open(fix.split()[-1]).verify()
upgraded(None) ==> upgraded(Path(fix.split()[1]))
overtaken() ==> overtaken(meanwhile=False)
fresh_ledger().reserve(plan={"kind": "x"}, guarantee=ob.Pure(2000), unit=ob.Unit.row()) ==> fresh_ledger().reserve(plan={"kind": "x"}, guarantee=ob.Pure(20), unit=ob.Unit.row())
with_older_processes() ==> with_older_processes(ended=True)
put_back() ==> put_back(found=True)
patched("ledger.file", "_file_system", lambda path, mount: "nfs4", fresh_ledger) ==> fresh_ledger()
mounted_alone() ==> fresh_ledger()
troubled("SQLITE_FULL") ==> fresh_ledger()
troubled("SQLITE_IOERR_WRITE") ==> fresh_ledger()
troubled("SQLITE_CANTOPEN") ==> shell(f"mkdir -p copies && cp -p {fix.split()[5]} copies") or ob.Ledger.open("copies/" + os.path.basename(fix.split()[5])).verify()
lost() ==> fix.startswith("oboro ledger show ") or 1 / 0
troubled("SQLITE_CORRUPT") ==> restored()
troubled("SQLITE_BUSY") ==> fresh_ledger()
ob.Ledger.create("keyed.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1), key="people.csv/all.key") ==> ob.Ledger.create("keyed.ledger", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1), key="at-hand.key")
long_fraction(fresh_ledger()) ==> fresh_ledger().reserve(plan={"kind": "x"}, guarantee=ob.Pure(dict({fix})["eps"]), unit=ob.Unit.row())
# -- a service
admitted("people.toml") ==> admitted(named("{fix}"))
connected() ==> connected(ca="authority.pem")
module("service.database").Database(newer_database()) ==> module("service.database").Database("served-by-this.db")
module("service.database").Database(database_at("theirs-2.db")) ==> settings_of(fix, DATASETS) and module("service.database").Database("service.db")
module("service.desk").Desk.refuse_outdated(None, Facts(digest="a"), Facts(digest="b")) ==> module("service.desk").Desk.refuse_outdated(None, Facts(digest="a"), Facts(digest="a"))
remote().mean("income", eps=1) ==> (lambda batch: {fix})(remote())
module("service.desk").Desk._refuse_unaffordable(None, Facts(ledger=fresh_ledger()), "lab", Facts(quote=Facts(cost=ob.Pure(2000)))) ==> fresh_ledger().reserve(plan={"kind": "x"}, guarantee=ob.Pure("0.1"), unit=ob.Unit.row())
raised(module("service.office")._two_of_one("nobody approves what they asked", "anna")) ==> (module("service.people").add(module("service.database").Database(settings_of(DATASETS).database), "anna", role="steward"), typed(fix[6:]))
module("service.questions").build_of({"question": "meen", "columns": ["income"]}, remote().remote.facts) ==> module("service.questions").build_of({"columns": ["income"], **dict({fix})}, remote().remote.facts)
patched("service.questions", "parse", lambda text, domain: Facts(normal=text), lambda: module("service.questions").one_spelling("age >= 20", grid)) ==> module("service.questions").one_spelling(fix, domain)
unready() ==> shell(fix.partition(" oboro")[0] + " true") or typed("serve --help")
uploaded("../people") ==> uploaded(fix)
uploaded("taken.csv", "taken.csv") ==> uploaded(fix)
module("service.studio.declare")._refuse_second(None, other_declared()) ==> module("service.studio.declare")._refuse_second(Facts(desk=Facts(datasets={}, settings=Facts(folder=Path("declared")))), other_declared().with_name(fix))
module("service.studio.local")._listening(taken_port()) ==> module("service.studio.local")._listening(**dict({fix})).close()
# -- a cluster
(lambda words: words.__enter__() and None or words.__exit__(ValueError, ValueError(), None))(module("engine.cluster").in_words()) ==> ob.engine.open_data("people.csv")
knocked("sc://127.0.0.1:{port}/;use_ssl=true") ==> knocked(fix.removeprefix("without TLS: "))
module("engine.duck").on_this_machine(Elsewhere(), "a draft") ==> module("engine.duck").on_this_machine(ob.engine.open_data("areas.parquet"), "a draft")
Elsewhere().check_kept(10**9) ==> Elsewhere().check_kept(dict({fix})["max_rows"])
module("tables.subtrees.executors").shared_by_workers(os.getcwd(), of_spark("pyspark.sql.connect.session")) ==> parted(grid, **dict({fix}))
module("tables.subtrees.executors").shared_by_workers("no folder", of_spark("pyspark.sql.session")) ==> shell("mkdir -p private") or module("tables.subtrees.executors").shared_by_workers(os.path.abspath("private"), of_spark("pyspark.sql.session"))
# -- rows of a table in another order
(lambda release: release.plan.intervals(release.to_arrow().take([0] * 400), 0.95))(parted(grid, strategy="tree")) ==> (lambda table: table.sort_by([("high", "descending")]))(parted(grid, strategy="tree").interval())
# -- a table in parts
parted(grid, cells_ledger, name="in parts", workers=1, parts="some parts") and parted(grid, cells_ledger, name="in parts") ==> parted(grid, cells_ledger, name="in parts", workers=1, **{**dict({fix}), "parts": "some parts"})
parted(grid, cells_ledger, name="whole") and parted(grid, cells_ledger, name="whole", workers=1, parts="no parts") ==> parted(grid, cells_ledger, name="whole", workers=1, **dict({fix}))
ob.tables.ask("some parts", {"row": 1}) ==> typed("table release cells.csv --domain grid.toml --count people --eps 1 --ledger cells.ledger --strategy filtered -o some.parquet") or ob.tables.ask("some.parquet", {"row": (1, 1)})
typed("table release cells.csv --domain grid.toml --count people --eps 1 --ledger cells.ledger --strategy wavelet -o both.parquet --parts both") ==> typed("table release cells.csv --domain grid.toml --count people --eps 1 --ledger cells.ledger --strategy wavelet --workers 1 " + fix)
raised(module("tables.subtrees.workers").failed("Died")) ==> parted(grid, workers=1)
in_folder("/no/such/disk", lambda: parted(grid, workers=1)) ==> shell("mkdir -p larger") or in_folder(os.path.abspath("larger"), lambda: parted(grid, workers=1))
module("engine.protocol").in_order(Elsewhere()) ==> module("engine.protocol").in_order(ob.engine.open_data("areas.parquet"))
# -- a plan that breaks its promise
broken_promise("audit")  ==> typed("audit plan.toml --trials 2000")
broken_promise("coverage") ==> fix == "do not publish these intervals" or 1 / 0
"""

SMALL = ((1, (8, 3, 1)), (3, (16, 1)))  # 34 entries keep (1, 0.01)


class Party:
    """P1 and P2 with their files, a ledger, and an encrypted answer of 42 between 0 and 100."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.noise = self.noise_of()
        for name in ("p1", "p2"):
            ob.secure.create(folder / name)
        self.secret = ob.secure.load_secret(folder / "p1.secret")
        self.holder = ob.secure.Holder(self.noise, self.secret, ob.secure.Shelf(folder / "p1.urns"))
        self.answer = self.encrypted(42)
        budget = ob.Conditional(ob.Approx(50, "0.9"), ob.secure.ASSUMPTION)
        self.place = folder / "l.ledger"
        self.ledger = ob.Ledger.create(self.place, dataset="city", unit=ob.Unit.row(), budget=budget)
        self.plan, self.sealed = folder / "noise.toml", folder / "answer.enc"
        self.noise.save(self.plan)
        self.answer.save(self.sealed)

    @staticmethod
    def noise_of(eps: str = "1", delta: str = "0.01") -> Any:
        urns = tuple(ob.secure.Urn.symmetric(step, counts) for step, counts in SMALL)
        return ob.secure.NoisePlan(ob.Approx(eps, delta), 1, "digits", urns)

    def forged(self) -> Any:
        """A plan that promises more than its urns keep."""
        noise = self.noise_of()
        object.__setattr__(noise, "promise", ob.Approx(1, "1e-9"))
        return noise

    def encrypted(self, number: int, high: int = 100) -> Any:
        return ob.secure.Answer.encrypt(number, low=0, high=high, public=self.secret.public)

    def shelf(self) -> Any:
        return ob.secure.Shelf(self.folder / "p2.urns")

    def identity(self, own: str = "p2", peer: str = "p1") -> Any:
        return ob.secure.Identity(self.folder / f"{own}.pem", self.folder / f"{peer}.crt")

    def bound(self) -> Any:
        return ob.secure.draw_plan(self.noise, low=0, high=100, unit=ob.Unit.row(), opened=False)

    def urns(self) -> Path:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.enc"
        ob.secure.write_urns(self.holder, path)
        return path

    def exchange(self, answers: int = 1) -> Any:
        return module("secure.protocol").by_file(
            self.urns(), (self.answer,) * answers, self.shelf(), self.bound()
        )

    def ready(self) -> Any:
        return self.bound().prepare(self.exchange())

    def drawn(self, urns: Path | None = None) -> Any:
        """A draw that goes well, by files."""
        release = ob.secure.draw_from_file(
            urns or self.urns(), self.answer, self.ledger, self.shelf(), self.noise
        )
        path = self.folder / f"{len(list(self.folder.iterdir()))}.drawn"
        release.save(path)
        return ob.secure.open_file(self.holder, path)

    def twice(self) -> None:
        urns = self.urns()
        self.drawn(urns)
        self.drawn(urns)

    def settled(self, number: int) -> Any:
        """The last step of a draw with a P1 that says that it opened this number."""
        wire = module("secure.wire")
        said = wire.pack(wire.OPENED, b"n" * 32 + wire.NUMBER.pack(number))
        return module("secure.protocol")._settle(Said(said), self.bound(), b"n" * 32, b"")

    def left(self) -> None:
        """P1 goes away in the middle of what it sends."""
        ours, theirs = socket.socketpair()
        wire = module("secure.wire")
        with closing(ours), closing(theirs):
            theirs.sendall(b"half")
            theirs.shutdown(socket.SHUT_WR)
            channel = wire.Channel.__new__(wire.Channel)
            object.__setattr__(channel, "_socket", ours)
            wire.receive(channel.read, wire.OPENED)


class Said:
    """A channel on which everything was said already."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def send(self, *_: object) -> None:
        pass

    def read(self, count: int) -> bytes:
        part, self.content = self.content[:count], self.content[count:]
        return part


_PARTY: list[Party] = []


def party() -> Party:
    if not _PARTY or not _PARTY[-1].folder.exists():
        _PARTY.append(Party(Path("parties").absolute()))
    return _PARTY[-1]


def opened_far(own: Party) -> Any:
    """P1 opens an answer that was not clamped to its bounds."""
    far = ob.secure.Answer(own.secret.public, 0, 100, own.encrypted(900, 999).ciphertext)
    path = own.folder / "far.drawn"
    ob.secure.draw_from_file(own.urns(), far, own.ledger, own.shelf(), own.noise).save(path)
    return ob.secure.open_file(own.holder, path)


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def linked() -> str:
    """A link to a ledger, with a record of used urns beside it, as oboro once wrote it."""
    folder = Path("links")
    folder.mkdir(exist_ok=True)
    link = folder / "city.ledger"
    if not link.is_symlink():
        link.symlink_to(party().place)
        (folder / "city.ledger.urns").touch()
    return str(link)


def older() -> str:
    """A ledger of oboro 0.1."""
    folder = Path(f"older-{len(list(Path().glob('older-*')))}")
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "0.1" / "closed", folder)
    (folder / "city.ledger.key").chmod(0o600)
    return str(folder / "city.ledger")


def upgraded(backup: Path | None) -> None:
    """`ledger upgrade` of a ledger that an address names."""
    command, held = module("cli.ledger"), ob.Ledger.open(older())
    patched(
        "cli.ledger",
        "open_ledger",
        lambda where: held,
        lambda: command.upgrade("postgresql://stat/city", backup),
    )


def overtaken(meanwhile: bool = True) -> Any:
    """A tick that is begun while another process begins one."""
    place = f"overtaken-{meanwhile}.ledger"
    ledger = ob.Ledger.create(place, dataset="x", unit=ob.Unit.cells(), budget=ob.Pure(9))
    series = ledger.reserve(
        plan={"kind": "x", "ticks": 3}, guarantee=ob.Pure(1), unit=ob.Unit.cells(), ticks=3, name="hours"
    )
    if meanwhile:
        ledger.begin(series, 0)
    return ledger.begin(series, 1, after=[])


def with_older_processes(ended: bool = False) -> Any:
    """A ledger that a process of oboro 0.1 keeps open, with the log that it writes ahead."""
    ledger = fresh_ledger()
    ledger.close()
    with closing(sqlite3.connect(ledger.where)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("SELECT * FROM oboro_ledger").fetchall()
        if not ended:
            with Impatience():
                return ob.Ledger.open(ledger.where).reserve(
                    plan={"kind": "x"}, guarantee=ob.Pure(1), unit=ob.Unit.row()
                )
    return ob.Ledger.open(ledger.where).reserve(plan={"kind": "x"}, guarantee=ob.Pure(1), unit=ob.Unit.row())


class Impatience:
    """Nobody waits a minute for a lock."""

    def __enter__(self) -> None:
        database = module("ledger.database")
        self.usual, database.PATIENCE = database.PATIENCE, 0.1

    def __exit__(self, *error: object) -> None:
        module("ledger.database").PATIENCE = self.usual


def put_back(found: bool = False) -> Any:
    """An older copy of a ledger takes its place while it is open."""
    ledger = fresh_ledger()
    copy, newer = f"{ledger.where}.copy", f"{ledger.where}.newer"
    shutil.copy(ledger.where, copy)
    ledger.reserve(plan={"kind": "x"}, guarantee=ob.Pure(1), unit=ob.Unit.row())
    shutil.copy(ledger.where, newer)
    Path(ledger.where).write_bytes(Path(copy).read_bytes())
    if found:
        Path(ledger.where).write_bytes(Path(newer).read_bytes())
    return ledger.spent


def mounted_alone() -> Any:
    """A ledger whose file is a mount of its own."""
    file, ledger = module("ledger.file"), fresh_ledger()
    usual = file._looked_at

    def looked_at(path: Path) -> Any:
        facts, _ = usual(path)
        return facts, 7 if path.is_file() else 8

    return patched("ledger.file", "_looked_at", looked_at, lambda: ob.Ledger.open(ledger.where))


def troubled(code: str) -> None:
    """What SQLite says of a file, in oboro's words."""
    file, ledger = module("ledger.file"), fresh_ledger()
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorname = code
    raise file._sqlite(file.Place.of(str(ledger.where)), error, file.Progress())


def lost() -> None:
    """The connection to a server ends."""
    file = module("ledger.file")
    raise file._postgres(
        file.Place.of("postgresql://stat:secret@stat.example/city"),
        OSError("gone"),
        file.Progress(),
        lost=True,
    )


def restored() -> None:
    """A backup takes the place of a damaged ledger."""
    ledger = fresh_ledger()
    ledger.backup(f"{ledger.where}.backup")
    ledger.close()
    Path(ledger.where).write_bytes(Path(f"{ledger.where}.backup").read_bytes())
    ob.Ledger.open(ledger.where).verify()


def long_fraction(ledger: ob.Ledger) -> None:
    for prime in (2**521 - 1, 2**607 - 1, 2**1279 - 1, 2**2203 - 1, 2**2281 - 1, 2**3217 - 1):
        ledger.reserve(plan={"kind": "x"}, guarantee=ob.Pure(Fraction(1, prime)), unit=ob.Unit.row())


# -- a service


def admitted(declared: str) -> Any:
    """A dataset comes to a service that has one called people."""
    arrivals = module("service.arrivals")
    own = arrivals.Arrivals.__new__(arrivals.Arrivals)
    own.desk = SimpleNamespace(datasets={"people": None}, owner="anna")
    own._lock, own._progress = threading.Lock(), {}
    return own._admitted(Path(declared), None)


def named(name: str) -> str:
    """The people, declared under another name."""
    typed(f"ledger create named.ledger --dataset '{name}' --unit row --eps 1")
    text = Path("people.toml").read_text().replace("people.ledger", "named.ledger")
    Path("named.toml").write_text(text)
    return "named.toml"


def connected(ca: str | None = None) -> Any:
    """Asks a service with a certificate that nobody signed; what it answers is no answer of oboro."""
    if not Path("authority.pem").exists():
        _certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("authority.pem", "authority.key")

    class Deaf(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deaf) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return ob.connect(f"https://127.0.0.1:{server.server_port}", token="x", ca=ca).datasets()
        finally:
            server.shutdown()


def _certificate() -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2020, 1, 1))
        .not_valid_after(datetime(2199, 1, 1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    Path("authority.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    Path("authority.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))


def newer_database() -> str:
    """What a service of a later version keeps."""
    database = module("service.database")
    database.Database("newer.db")
    altered("newer.db", f"UPDATE {database.version.name} SET number = 99")
    return "newer.db"


def remote() -> Any:
    """A batch of a service, before anything is asked."""
    limits = module("service.settings").Limits()
    facts = module("service.questions").Facts(
        "people", ob.Domain(COLUMNS), ob.Unit.row(), None, None, "1", limits
    )
    return module("service.client").RemoteBatch(SimpleNamespace(facts=facts), {"eps": "1"})


def unready() -> None:
    """A worker that ends before it is ready."""
    server = module("service.server")
    own = server.Workers.__new__(server.Workers)
    own.settings = SimpleNamespace(workers=1, file=Path("service.toml"))
    own._bury_older = own.stop = lambda: None
    own._begin = lambda: SimpleNamespace(stdout=StringIO(""))
    own.start()


def uploaded(*names: str) -> None:
    """Files that are dropped on the studio, one after the other; what it refuses comes out as it is."""
    declare = module("service.studio.declare")
    place = Path("dropped")
    place.mkdir(exist_ok=True)
    here = SimpleNamespace(desk=SimpleNamespace(settings=SimpleNamespace(folder=place)))
    refused: list[Any] = []

    def told(_: object, error: ob.OboroError) -> dict[str, str]:
        refused.append(error)
        return {"message": "", "needed": ""}

    async def stream() -> Any:
        yield b"age\n1\n"

    for name in names:
        request = SimpleNamespace(query_params={"name": name}, stream=stream)
        patched("service.studio.declare", "told_of", told, lambda: asyncio.run(declare.upload(request, here)))  # noqa: B023
    if refused:
        raise refused[0]


def other_declared() -> Path:
    """A file whose declaration would have the name of another."""
    folder = Path("declared")
    folder.mkdir(exist_ok=True)
    (folder / "homes.toml").write_text('data = "homes.parquet"\n')
    return folder / "homes.csv"


_TAKEN: list[socket.socket] = []


def taken_port() -> int:
    _TAKEN.append(socket.create_server(("127.0.0.1", 0)))
    return int(_TAKEN[-1].getsockname()[1])


def broken_promise(kind: str) -> None:
    checks = module("cli.checks")
    if kind == "coverage":
        one = SimpleNamespace(holds=False, to_dict=dict)
        checks._show_coverage([one], json=True)
        return
    report = SimpleNamespace(verdict="broken", to_dict=dict)
    patched("cli.checks", "_reports", lambda *_: [(report, False)], lambda: typed("audit plan.toml --json"))


def knocked(address: str) -> None:
    """Knocks at a cluster that speaks without TLS alone, by a client such as Spark's."""

    class Builder:
        def __init__(self, address: str) -> None:
            self.secure = "use_ssl" in address

        def toChannel(self) -> Any:  # noqa: N802
            state = SimpleNamespace(name="TRANSIENT_FAILURE" if self.secure else "READY")
            return SimpleNamespace(subscribe=lambda put, try_to_connect: put(state), close=lambda: None)

    client = ModuleType("pyspark.sql.connect.client")
    client.DefaultChannelBuilder = Builder  # type: ignore[attr-defined]
    names = ["pyspark", "pyspark.sql", "pyspark.sql.connect", "pyspark.sql.connect.client"]
    kept = {name: sys.modules.get(name) for name in names}
    sys.modules.update({name: ModuleType(name) for name in names[:-1]} | {names[-1]: client})
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            module("engine.cluster")._knock(
                re.sub(r":(\{port\}|\d+)", f":{listener.getsockname()[1]}", address)
            )
    finally:
        for name, one in kept.items():
            if one is None:
                del sys.modules[name]
            else:
                sys.modules[name] = one


class Elsewhere(Source):
    """A table of a cluster."""

    types = {"person": "string"}  # noqa: RUF012
    limits = Limits(widest=62, most_kept=1000)
    engine = "Spark 4"


Elsewhere.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def of_spark(module: str) -> Any:
    """A table of a session of this kind, which is asked for nothing."""
    session = type("SparkSession", (), {"__module__": module})()
    return ob.engine.cluster.SparkTable(SimpleNamespace(sparkSession=session), {}, "4")


def parted(
    grid: ob.Domain, ledger: ob.Ledger | None = None, strategy: str = "wavelet", **words: Any
) -> ob.Release:
    """A table that workers can measure, and write into a folder."""
    plan = ob.tables.plan(grid, unit=ob.Unit.cells(2), eps="0.1", count="people", strategy=strategy)
    if ledger is None:
        place = Path(str(fresh_ledger().where) + ".cells")
        ledger = ob.Ledger.create(place, dataset="city", unit=ob.Unit.cells(2), budget=ob.Pure(1))
    return ob.tables.release({"row": [1], "col": [2], "people": [10**6]}, plan, ledger=ledger, **words)


def in_folder(folder: str, work: Callable[[], Any]) -> Any:
    """Does something where temporary files go into this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr("tempfile.tempdir", None)
        return work()


PLACES: dict[str, Any] = {
    one.__name__: one
    for one in (party, opened_far, closed_port, linked, older, overtaken, with_older_processes, put_back, mounted_alone, troubled, lost, restored, long_fraction, upgraded, admitted, named, connected, newer_database, remote, unready, uploaded, other_declared, taken_port, knocked, Elsewhere, of_spark, parted, in_folder, broken_promise)
}  # fmt: skip
