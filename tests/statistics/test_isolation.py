"""A function gets its block and nothing else, whatever it tries. Each attack is also shown to work where nothing is sealed."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oboro as ob
from oboro.errors import InputError, ParameterError
from oboro.noise.bits import system_bits
from oboro.statistics import isolation, seal
from oboro.statistics.blocks import ASSUMPTION, sample_aggregate_plan
from oboro.statistics.isolation import PLAIN, SEALED, Computing, Job, can_seal, rehearse
from oboro.statistics.scope import Scope

PATIENCE = 300  # seconds for functions that answer: on a busy machine, too
X = ob.Integer("x", 0, 10)
sealing = pytest.mark.skipif(not can_seal(), reason="this system cannot seal a process")


def job(source: str, *, count: int = 1, seconds: float = PATIENCE, how: str = SEALED) -> Job:
    return Job(source, ("x",), count, seconds, how)


def answers(one: Job, *blocks: list[int]) -> list[Any]:
    """What a function gives on one block after the other."""
    with Computing(one) as compute:
        return [compute({"x": np.asarray(block, np.int64)}) for block in blocks]


def test_tests_run_where_processes_can_be_sealed() -> None:
    """So that nobody skips this page by accident."""
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert can_seal()


# -- what comes back ---------------------------------------------------------------------------------------------------------


@sealing
@pytest.mark.parametrize("how", [SEALED, PLAIN])
def test_numbers_come_back_exactly(how: str) -> None:
    assert answers(job("def f(rows): return rows['x'][0] / 10", how=how), [1]) == [(0.1,)]
    several = "import numpy as np\ndef f(rows): return np.asarray([[rows['x'].sum(), 2.0], [3.0, np.pi]])"
    assert answers(job(several, count=4, how=how), [1, 6]) == [(7.0, 2.0, 3.0, np.pi)]


WILD = [
    "return 1 / 0",
    "return float('nan')",
    "return float('inf')",
    "return 'nonsense'",
    "return None",
    "return [1.0, 2.0]",
    "return {'a': 1}",
    "return 10**400",
    "return object()",
    "raise SystemExit(3)",
    "raise KeyboardInterrupt",
    "import os; os._exit(7)",
    "import os; os.abort()",
    "import os; os.kill(os.getpid(), 9)",
    "import ctypes; ctypes.string_at(8)",
    "return len(bytearray(1 << 33))",
    "import os; os.write(100, b'12345678'); return 1",
    "import os; os.write(100, b'1234'); os._exit(0)",
    "import sys; sys.meta_path.clear(); return 'x'",
]


@sealing
def test_failure_and_nonsense_are_all_alike() -> None:
    source = "def f(rows):\n" + "".join(
        f"    if rows['x'][0] == {i}: {wild}\n" for i, wild in enumerate(WILD)
    )
    found = answers(job(source + "    return 5"), *[[i] for i in range(len(WILD))], [99])
    assert found == [None] * len(WILD) + [(5.0,)]


@sealing
@pytest.mark.parametrize("how", [SEALED, PLAIN])
@pytest.mark.few(1, "isolated functions")
def test_a_function_that_hangs_is_ended_and_the_next_block_is_computed(how: str) -> None:
    source = "def f(rows):\n    while rows['x'][0] == 7: pass\n    return 1"
    assert answers(job(source, seconds=3, how=how), [7])[0] is None
    seconds = 3.0
    while (found := answers(job(source, seconds=seconds, how=how), [7], [0])) != [None, (1.0,)]:
        assert found == [None, None]  # a busy machine
        seconds *= 2


@sealing
def test_nothing_is_left_running(tmp_path: Path) -> None:
    """The program ends with its user, and its copies with it, also if the user dies."""
    program = tmp_path / "seal.py"
    program.write_text(Path(seal.__file__).read_text())
    code = (
        "import numpy as np, pathlib, sys\n"
        "from oboro.statistics import isolation as i\n"
        "i.PROGRAM = pathlib.Path(sys.argv[1])\n"
        "with i.Computing(i.Job('def f(rows):\\n    while True: pass', ('x',), 1, 1000, 'sealed')) as compute:\n"
        "    compute({'x': np.asarray([1])})\n"
    )
    user = subprocess.Popen([sys.executable, "-c", code, str(program)])

    def running() -> list[bool]:
        """For each process of the program, whether it is sealed."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (folder / "cmdline").read_bytes().split(b"\0")[2:3] == [str(program).encode()]:
                    found.append("Seccomp:\t2" in (folder / "status").read_text())
        return found

    _until(lambda: any(running()))
    user.kill()
    user.wait()
    _until(lambda: not running())


def _until(reached: Any) -> None:
    for _ in range(3000):
        if reached():
            return
        time.sleep(0.1)
    raise AssertionError("not reached in five minutes")


@sealing
@pytest.mark.parametrize("how", [SEALED, PLAIN])
def test_nothing_is_printed_or_logged(capfd: Any, caplog: Any, how: str) -> None:
    source = """
import ctypes, logging, os, sys, warnings
def f(rows):
    print("secret")
    print("secret", file=sys.stderr)
    sys.__stdout__ and print("secret", file=sys.__stdout__)
    for stream in (1, 2):
        try: os.write(stream, b"secret")
        except OSError: pass
    ctypes.CDLL(None).puts(b"secret")
    ctypes.CDLL(None).fflush(None)
    logging.getLogger("x").error("secret")
    warnings.warn("secret")
    return 3
"""
    assert answers(job(source.replace("sys.__stdout__ and ", "0 and "), how=how), [1]) == [(3.0,)]
    assert "secret" not in "".join(capfd.readouterr()) + caplog.text


@sealing
def test_the_program_knows_nothing_of_its_user(monkeypatch: Any) -> None:
    """A new interpreter: no variable, file or surrounding of the process that has the data."""
    monkeypatch.setenv("SECRET", "secret")
    held = socket.socket()  # an open file, without the mark that closes it on exec
    held.set_inheritable(True)
    source = """
import gc, os, sys
def f(rows):
    frame = sys._getframe()
    names = set()
    while frame is not None:
        names |= set(frame.f_locals)
        frame = frame.f_back
    mine = sum(isinstance(one, str) and one == 'a value that only its' + ' user has' for one in gc.get_objects())
    loaded = [name for name in sys.modules if name.partition('.')[0] in ('oboro', 'pyarrow', 'duckdb', 'pytest')]
    return [len(os.environ.get('SECRET', '')), 'held' in names, mine, len(loaded)]
"""
    only = "a value that only its user has"
    assert answers(job(source, count=4), [1]) == [(0.0, 0.0, 0.0, 0.0)]
    assert only
    held.close()


# -- the seal -----------------------------------------------------------------------------------------------------------------

EVERY_CALL = """
import ctypes, errno
library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long
def f(rows):
    passed = []
    for base in (0, 0x40000000):  # x86-64, and x32
        for number in range(1024):
            if number not in (335, 336) and (base or number not in ALLOWED):  # those two end who calls them, filter or not
                for first in (0, 1):
                    ctypes.set_errno(0)
                    found = library.syscall(ctypes.c_long(base + number), *[ctypes.c_ulong(first)] * 6)
                    if found != -1 or ctypes.get_errno() != errno.EPERM:
                        passed.append(base + number)
    if passed:
        raise ValueError(passed)
    return 0
"""


@sealing
def test_every_other_system_call_is_refused() -> None:
    conditional = {number: argument for number, argument, _, _ in seal.ALLOWED_IF.values()}
    allowed = {*seal.ALLOWED.values(), *conditional}
    with Computing(job(EVERY_CALL.replace("ALLOWED", repr(allowed)))) as compute:
        report = compute.rehearse({"x": np.asarray([1])})
    assert report["problem"] is None


@sealing
@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (202, (0, 0, 0, 0)),  # futex: wait
        (202, (0, 9, 0, 0)),  # wait until
        (202, (0, 128 | 256 | 9, 0, 0)),
        (204, (1, 0, 0)),  # sched_getaffinity of another process
        (28, (0, 0, 0)),  # madvise: no advice
        (28, (0, 0, 3)),  # will need
        (28, (0, 0, 10)),  # not in a copy
        (28, (0, 0, 12)),  # pages that are shared with whoever has the same
        (28, (0, 0, 21)),  # to the disk
        (28, (0, 0, 100)),  # broken memory
    ],
)
def test_some_are_refused_by_their_arguments(number: int, arguments: tuple[int, ...]) -> None:
    source = f"""
import ctypes
library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long
def f(rows):
    found = library.syscall(*map(ctypes.c_ulong, {(number, *arguments)}))
    return [found, ctypes.get_errno()]
"""
    assert answers(job(source, count=2), [1]) == [(-1.0, 1.0)]


def test_what_is_allowed_names_nothing_outside() -> None:
    """Whoever adds to this list must prove that a block cannot learn or leave anything by it."""
    memory = {"mmap", "mprotect", "munmap", "brk", "mremap"}
    signals_to_itself = {"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack"}
    who_it_is = {"getpid", "gettid", "getuid", "getgid", "geteuid", "getegid"}
    the_line = {"read", "write", "close"}
    end = {"exit", "exit_group", "sched_yield", "getrandom"}
    assert set(seal.ALLOWED) == memory | signals_to_itself | who_it_is | the_line | end
    assert sorted(seal.ALLOWED_IF) == [
        "futex, to wake",
        "madvise, for huge pages",
        "madvise, to give pages back",
        "madvise, to give pages back later",
        "sched_getaffinity, of itself",
    ]


@sealing
@pytest.mark.parametrize("advice", [4, 8, 14, 15])
def test_memory_is_given_back(advice: int) -> None:
    source = f"""
import ctypes
library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long
def f(rows):
    library.syscall(*map(ctypes.c_ulong, (28, 0, 0, {advice})))
    return ctypes.get_errno() == 1
"""
    assert answers(job(source), [1]) == [(0.0,)]


MACHINE = """
import ctypes, mmap
def f(rows):
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex(CODE))
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() != 0
"""


@sealing
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("0f3148c1e2204809d0c3", "the processor's counter"),
        ("0f01f948c1e2204809d0c3", "the same with the processor's number"),
        ("b814000000cd80c3", "a system call by the door of 32 bits"),
    ],
)
def test_machine_code_does_not_help(code: str, why: str) -> None:
    source = MACHINE.replace("CODE", repr(code))
    assert answers(job(source), [1]) == [None], why
    if why != "a system call by the door of 32 bits":
        assert answers(job(source, how=PLAIN), [1]) == [(1.0,)]


CLOCKS = """
import ctypes, datetime, os, time
def f(rows):
    library = ctypes.CDLL(None)
    spent = (ctypes.c_long * 2)(0, 0)
    found = [time.time(), time.monotonic(), time.perf_counter(), time.process_time(), time.thread_time()]
    found += [time.clock_gettime(clock) for clock in (0, 1, 2, 3, 4, 5, 6, 7, 11)]
    found += [datetime.datetime.now(datetime.timezone.utc).timestamp()]
    library.gettimeofday(spent, None)
    found += [spent[0], library.time(None)]
    return sum(found)
"""


@sealing
def test_there_is_no_clock() -> None:
    """Otherwise a block could tell the next by how long it takes."""
    assert answers(job(CLOCKS), [1]) == [(0.0,)]
    assert answers(job(CLOCKS, how=PLAIN), [1])[0][0] > 1e9
    old = "import ctypes\ndef f(rows): return max(0, ctypes.CFUNCTYPE(ctypes.c_long)(0xffffffffff600400)())"  # vsyscall
    assert answers(job(old), [1])[0] in (None, (0.0,))


@sealing
@pytest.mark.long("isolated functions")
def test_the_pages_of_the_kernels_clock_are_gone() -> None:
    source = """
import ctypes
library = ctypes.CDLL(None)
library.getauxval.restype = ctypes.c_ulong
def f(rows):
    return ctypes.string_at(library.getauxval(33) - 4096 * int(rows['x'][0]), 64)[0] >= 0
"""
    pages = [[i] for i in range(1, 7)]
    assert answers(job(source), *pages) == [None] * 6
    assert any(answers(job(source, how=PLAIN), *pages))


@sealing
def test_each_wall_stands_by_itself() -> None:
    """Landlock and namespaces are second walls. Where this system has them, they hold without the first."""
    code = """
import os, socket, sys
sys.path[:0] = [sys.argv[1]]
import seal
before = os.readlink("/proc/self/ns/net")
seal.enter_namespaces()
walls = ["namespaces"] * (os.readlink("/proc/self/ns/net") != before)
if walls:
    assert os.getpid() == 1
try:
    seal.landlock(reading=False)
    walls.append("landlock")
except OSError:
    pass
def tried(door):
    try:
        door()
        return True
    except OSError:
        return False
print(walls, tried(lambda: open("/etc/passwd")), tried(lambda: open("/tmp/oboro-wall", "w")), tried(lambda: os.listdir("/tmp")),
    tried(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5)))
"""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        said = subprocess.run(
            [sys.executable, "-I", "-c", code, str(Path(seal.__file__).parent), str(port)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("] ")
    walls, doors = said[0], said[1].split()
    if "landlock" in walls:
        assert doors[:3] == ["False"] * 3
    if "namespaces" in walls or "landlock" in walls:
        assert doors[3] == "False"


# -- blocks cannot tell one another anything ----------------------------------------------------------------------------------

# Each leaves a trace where its block holds a 7, and looks for one. `MARK` is new for every try.
CHANNELS = {
    "a file": ("open('/tmp/MARK', 'w').close()", "os.path.exists('/tmp/MARK')"),
    "a file in memory": ("open('/dev/shm/MARK', 'w').close()", "os.path.exists('/dev/shm/MARK')"),
    "a folder": ("os.mkdir('/var/tmp/MARK')", "os.path.exists('/var/tmp/MARK')"),
    "a time of reading": (
        "os.utime('/tmp/touched-MARK', (1, 1))",
        "os.stat('/tmp/touched-MARK').st_atime == 1",
    ),
    "shared memory": ("syscall(29, KEY, 4096, 0o1600)", "syscall(29, KEY, 4096, 0o600) >= 0"),
    "a queue of messages": ("syscall(68, KEY, 0o1600)", "syscall(68, KEY, 0o600) >= 0"),
    "a semaphore": ("syscall(64, KEY, 1, 0o1600)", "syscall(64, KEY, 1, 0o600) >= 0"),
    "a process that stays": (
        "os.fork() or (os.setsid(), ctypes.CDLL(None).prctl(15, b'MARK'[-15:]), time.sleep(60), os._exit(0))",
        "any(open(f'/proc/{p}/comm').read().strip() == 'MARK'[-15:] for p in os.listdir('/proc') if p.isdigit())",
    ),
}


LIBRARY = ctypes.CDLL(None)


def traces(channel: str, how: str, first: int) -> Any:
    mark = f"oboro-{os.urandom(5).hex()}"
    Path(f"/tmp/touched-{mark}").touch()
    key = int(mark[6:14], 16) >> 1
    leave, look = (text.replace("MARK", mark).replace("KEY", str(key)) for text in CHANNELS[channel])
    source = f"""
import ctypes, os, time
library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long
def syscall(*values):
    found = library.syscall(*map(ctypes.c_long, values))
    if found < 0 and ctypes.get_errno() == 1:
        raise PermissionError
    return found
def f(rows):
    try:
        if 7 in rows['x']: {leave}
    except OSError: pass
    try: return bool({look})
    except OSError: return 0
"""
    try:
        return answers(job(source, how=how), [first], [1], [2])[1:]
    finally:
        for name in (f"/tmp/{mark}", f"/dev/shm/{mark}", f"/tmp/touched-{mark}"):
            Path(name).unlink(missing_ok=True)
        if Path(f"/var/tmp/{mark}").exists():
            os.rmdir(f"/var/tmp/{mark}")
        for get, control in ((29, 31), (68, 71), (64, 66)):
            if (found := LIBRARY.syscall(get, key, 0, 0)) >= 0:
                LIBRARY.syscall(control, found, 0, 0)


@sealing
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.few(1, "isolated functions")
def test_a_block_leaves_no_trace_for_the_next(channel: str) -> None:
    assert traces(channel, SEALED, 7) == traces(channel, SEALED, 1) == [(0.0,), (0.0,)]
    assert traces(channel, PLAIN, 1) == [(0.0,), (0.0,)]
    if channel != "a process that stays":  # its group is ended also there
        assert traces(channel, PLAIN, 7) == [(1.0,), (1.0,)]


@sealing
def test_a_copy_is_made_of_the_same_memory_every_time() -> None:
    """However a block ends, whatever it holds and however long it takes, the next finds nothing of it."""
    source = """
import ctypes, gc, os
def f(rows):
    kind = rows['x'][0]
    if kind == 1: os._exit(123)
    if kind == 2: ctypes.string_at(8)
    if kind == 3:
        while True: pass
    if kind == 4: gc.garbage.append('left' + ' behind')
    return len(gc.garbage) + sum(isinstance(one, dict) and 'left behind' in map(str, one) for one in gc.get_objects())
"""
    with Computing(job(source, seconds=5)) as compute:
        for kind in range(1, 5):
            compute({"x": np.asarray([kind])})
    seconds = 5.0
    while None in (
        found := answers(job(source, seconds=seconds), [0], [1], [0], [2], [0], [3], [0], [4], [0])[::2]
    ):
        seconds *= 2  # a busy machine
    assert found == [(0.0,)] * 5


@sealing
def test_two_copies_at_once_have_no_way_to_meet() -> None:
    """Were two releases computed at the same time: no socket, signal or lock between them."""
    source = """
import fcntl, os, signal, socket
def f(rows):
    found = 0
    for door in (
        lambda: socket.socket(socket.AF_UNIX).bind('\\0oboro'),
        lambda: socket.create_connection(('127.0.0.1', 80)),
        lambda: socket.socketpair(),
        lambda: os.kill(1, 0),
        lambda: os.kill(-1, 0),
        lambda: os.killpg(os.getpid(), 0),
        lambda: os.sched_setaffinity(0, {0}),
        lambda: os.nice(1),
        lambda: os.setpriority(os.PRIO_USER, 0, 5),
        lambda: os.getpriority(os.PRIO_USER, 0),
        lambda: os.getppid() if os.getppid() > 0 else 1 / 0,
        lambda: os.getloadavg(),
        lambda: os.statvfs('/'),
        lambda: fcntl.flock(100, fcntl.LOCK_EX),
        lambda: fcntl.fcntl(100, fcntl.F_GETFL),
        lambda: os.fstat(100),
        lambda: os.dup(100),
        lambda: os.memfd_create('x'),
        lambda: os.eventfd(0),
        lambda: 1 / os.times().elapsed,
        lambda: os.uname(),
        lambda: signal.setitimer(signal.ITIMER_REAL, 1),
        lambda: signal.alarm(1),
    ):
        try:
            door()
            found += 1
        except Exception:
            pass
    return found
"""
    assert answers(job(source), [1]) == [(1.0,)]  # alarm cannot say that it failed
    late = "import signal\ndef f(rows):\n    signal.alarm(1)\n    for _ in range(10**8): pass\n    return 1"
    assert answers(job(late), [1]) == [(1.0,)]


# -- the plan ------------------------------------------------------------------------------------------------------------------

THE_ATTACKS = {
    "frames of the caller": """
import sys
def f(rows):
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            if getattr(value, 'shape', None) == (21, 1): return 10 if (value == 7).any() else 0
        frame = frame.f_back
    return 5
""",
    "every object": """
import gc
def f(rows):
    found = [one for one in gc.get_objects() if getattr(one, 'shape', (0,))[0] == 21]
    return 10 if any((one == 7).any() for one in found) else 5
""",
    "a file for the next": """
import os
def f(rows):
    try:
        if 7 in rows['x']: open('/tmp/MARK', 'w').close()
        return 10 if os.path.exists('/tmp/MARK') else 5
    except OSError: return 5
""",
    "the data itself": """
def f(rows):
    try: return 10 if '7' in open('DATA').read() else 5
    except OSError: return 5
""",
    "memory of the caller": """
import os
def f(rows):
    try: return 10 if open(f'/proc/{os.getppid()}/maps').read() else 5
    except OSError: return 5
""",
    "time that passes": """
import time
started = time.time()
def f(rows):
    if 7 in rows['x']:
        for _ in range(10**7): pass
    return 5 if time.time() == started == 0 else 10
""",
}


@pytest.mark.long("audits of sound plans")
@sealing
@pytest.mark.parametrize("name", THE_ATTACKS)
def test_neighbours_are_not_told_apart_by_an_attack(name: str, tmp_path: Path) -> None:
    """21 blocks of one row, of which one changes: all other blocks give what they gave."""
    data = tmp_path / "people.csv"
    found = []
    for first in (1, 7):
        data.write_text("x\n" + f"{first}\n" + "1\n" * 20)
        mark = f"oboro-{os.urandom(5).hex()}"
        source = THE_ATTACKS[name].replace("MARK", mark).replace("DATA", str(data))
        unit = ob.Unit.row("replace")
        plan = sample_aggregate_plan(
            Scope(unit, n=21), [X], source, blocks=21, bounds=(0, 10), eps=10**6, step=1, seconds=PATIENCE
        )
        assert plan.guarantee == ob.Pure(10**6)
        found.append(plan.measure(plan.prepare(data), system_bits()).tolist())
    assert found == [[5], [5]]


def test_where_nothing_is_sealed_the_promise_says_so(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("oboro.statistics.blocks.can_seal", lambda: False)
    scope = Scope(ob.Unit.row("replace"), n=3)
    source = "def mean(rows): return rows['x'].mean()"
    plan = sample_aggregate_plan(
        scope, [X], source, blocks=1, bounds=(0, 10), eps=10**6, step=1, seconds=PATIENCE
    )
    assert plan.isolation == "none"
    assert plan.guarantee == ob.Conditional(ob.Pure(10**6), ASSUMPTION)
    assert plan.measure(plan.prepare({"x": [2, 3, 4]}), system_bits()).tolist() == [3]
    ledger = ob.Ledger.create(tmp_path / "l", dataset="d", unit=scope.unit, budget=ob.Pure(10**7))
    with pytest.raises(ob.OboroError, match="assum"):
        ob.run(plan, {"x": [2, 3, 4]}, ledger)
    assert ledger.spent == ob.Pure(0)


def test_a_sealed_plan_is_not_run_where_nothing_can_be_sealed(monkeypatch: Any, tmp_path: Path) -> None:
    unit = ob.Unit.row("replace")
    plan = sample_aggregate_plan(
        Scope(unit, n=3),
        [X],
        "def mean(rows): return rows['x'].mean()",
        blocks=1,
        bounds=(0, 10),
        eps=1,
        isolation="sealed",
    )
    monkeypatch.setattr("oboro.statistics.isolation.can_seal", lambda: False)
    ledger = ob.Ledger.create(tmp_path / "l", dataset="d", unit=unit, budget=ob.Pure(1))
    with pytest.raises(ParameterError, match="cannot seal"):
        ob.run(plan, {"x": [2, 3, 4]}, ledger)
    assert ledger.spent == ob.Pure(0)


@sealing
def test_a_system_whose_seal_leaks_cannot_seal(monkeypatch: Any, tmp_path: Path) -> None:
    """The probe tries doors: it finds each of these open."""
    text = Path(seal.__file__).read_text()
    for place, (hole, patch) in enumerate(
        {
            '    "read": 0,\n': '    "read": 0,\n    "openat": 257,\n    "stat": 4,\n    "newfstatat": 262,\n    "fstat": 5,\n',
            '    "write": 1,\n': '    "write": 1,\n    "socket": 41,\n',
            '    "exit": 60,\n': '    "exit": 60,\n    "clone": 56,\n',
            "        stop_clock(maps)\n": "",
            "    system(SECCOMP, SECCOMP_SET_MODE_FILTER, 0, ctypes.addressof(head))\n": "",
        }.items()
    ):
        assert hole in text
        program = tmp_path / f"leaking{place}.py"
        program.write_text(text.replace(hole, patch))
        monkeypatch.setattr(isolation, "PROGRAM", program)
        assert not can_seal.__wrapped__(), hole
    monkeypatch.setattr(isolation, "PROGRAM", tmp_path / "missing.py")
    assert not can_seal.__wrapped__()


@sealing
def test_the_seal_needs_neither_namespaces_nor_landlock(monkeypatch: Any, tmp_path: Path) -> None:
    """Many containers allow neither."""
    text = Path(seal.__file__).read_text()
    for numbers in ("UNSHARE = 157, 317, 272", "LANDLOCK_RESTRICT_SELF = 444, 446"):
        assert numbers in text
        text = text.replace(numbers, numbers[:-3] + "999")
    program = tmp_path / "bare.py"
    program.write_text(text.replace("= 444, 999", "= 999, 999"))
    monkeypatch.setattr(isolation, "PROGRAM", program)
    assert can_seal.__wrapped__()


# -- the rehearsal -------------------------------------------------------------------------------------------------------------


@sealing
@pytest.mark.parametrize("how", [SEALED, PLAIN])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return rows['y'].mean()", "KeyError: 'y'"),
        ("return [1, 2]", "1 finite numbers are needed"),
        ("import nowhere_to_be_found", "nowhere_to_be_found"),
        ("import os; os._exit(0)", "its process died"),
    ],
)
def test_what_fails_on_made_up_rows_is_refused_before_anything_is_reserved(
    tmp_path: Path, body: str, said: str, how: str
) -> None:
    unit = ob.Unit.row("replace")
    plan = sample_aggregate_plan(
        Scope(unit, n=3),
        [X],
        f"def f(rows): {body}",
        blocks=1,
        bounds=(0, 10),
        eps=1,
        seconds=PATIENCE,
        isolation=how,
    )
    ledger = ob.Ledger.create(tmp_path / "l", dataset="d", unit=unit, budget=plan.guarantee)
    with pytest.raises(ParameterError) as caught:
        ob.run(plan, {"x": [2, 3, 4]}, ledger)
    assert said in str(caught.value.given)
    assert ledger.spent.unconditional == ob.Pure(0)


@sealing
def test_what_is_loaded_late_is_found_and_loaded_before() -> None:
    """scipy loads its parts when they are asked for; behind the seal that is too late."""
    late = job("import scipy\ndef f(rows): return scipy.special.expit(0.0 * rows['x'][0])")
    rows = {"x": np.asarray([1])}
    assert answers(late, [1]) == [None]
    found = rehearse(late, rows)
    assert "scipy.special" in found.modules
    assert answers(found, [1]) == [(0.5,)]


@sealing
def test_a_module_with_threads_is_refused_by_name_of_the_fault(tmp_path: Path) -> None:
    """A thread in the first process would live on between blocks."""
    text = Path(seal.__file__).read_text()
    program = tmp_path / "threads.py"
    program.write_text(
        text.replace(
            "    load(setup)\n    try:",
            "    load(setup)\n    import threading; threading.Thread(target=signal.pause, daemon=True).start()\n    try:",
        )
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(isolation, "PROGRAM", program)
        with pytest.raises(InputError) as caught, Computing(job("def f(rows): return 1")):
            pass
    assert "threads" in str(caught.value.given)
    program.write_text(
        text.replace("    load(setup)\n    try:", "    load(setup)\n    kept = mmap.mmap(-1, 4096)\n    try:")
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(isolation, "PROGRAM", program)
        with pytest.raises(InputError) as caught, Computing(job("def f(rows): return 1")):
            pass
    assert "shares memory" in str(caught.value.given)


@sealing
def test_made_up_rows_come_from_the_domain_alone() -> None:
    columns = [
        X,
        ob.Category("c", ["a", "b", "c"]),
        ob.Real("r", 0, 1, "0.25"),
        ob.Date("d", "2026-01-01", "2026-12-31"),
    ]
    plan = sample_aggregate_plan(
        Scope(ob.Unit.row("replace"), n=10_000),
        columns,
        "def f(rows): return 1",
        blocks=50,
        bounds=(0, 1),
        eps=1,
    )
    rows = plan.made_up
    assert {name: len(values) for name, values in rows.items()} == dict.fromkeys("xcrd", 100)
    assert set(rows["x"].tolist()) == set(range(11))
    assert set(rows["c"].tolist()) == {"a", "b", "c"}
    assert set(rows["r"].tolist()) == {0, 0.25, 0.5, 0.75, 1}
    assert abs(np.corrcoef(rows["x"], rows["r"])[0, 1]) < 0.5


@sealing
def test_a_program_that_dies_costs_its_block_and_no_more() -> None:
    with Computing(job("def f(rows): return rows['x'].sum()")) as compute:
        block = {"x": np.asarray([3])}
        assert compute(block) == (3.0,)
        assert compute.process is not None
        compute.process.kill()
        compute.process.wait()
        assert compute(block) is None
        assert compute(block) == (3.0,)
