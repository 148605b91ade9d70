"""The program in which someone's own function is computed: a process that can compute and answer, and nothing else.

It is started as `python -I seal.py`, a new interpreter that never had the data, imports nothing of oboro, and serves one
release. What is installed beside oboro is loaded first. Then, for every block, a copy of this process is made that

    has one line                 the block comes by it, and the numbers leave by it
    has no other way out         seccomp refuses every system call that is not in ALLOWED: nothing that names a file, a process, a
                                 socket, a clock or a setting, and nothing that makes a process or a thread
    has no clock                 the kernel's page of times is gone, its functions give 0, and so does the processor's counter, by a fault
    gets the block after that    and reads the function's text after that: no line of it runs anywhere else

and ends with its block. The first process sees neither blocks, answers nor how a copy ended, so a copy is made of the same
memory every time, whatever the blocks before did. Landlock, and namespaces of processes, networks, messages and users, are
second walls where the system has them.

In plain mode (`python -I seal.py plain`), for systems without all this, the block is computed in a new process without a seal.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import importlib
import io
import json
import math
import mmap
import os
import random
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import Any, NoReturn

with contextlib.suppress(ImportError):  # Windows has neither, and seals nothing
    import fcntl
    import resource

Setup = dict[str, Any]
LINE = 100  # the number of the one open file
MEMORY = 1 << 32  # bytes of addresses, which is more than a process uses

# What a sealed process may ask of the system (x86-64). To compute: memory, signals to itself, random bits, its end. To answer:
# the line, which is all that is open. To look around: its own number and user, which no block can change.
ALLOWED = {
    "read": 0,
    "write": 1,
    "close": 3,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "sched_yield": 24,
    "mremap": 25,
    "getpid": 39,
    "exit": 60,
    "getuid": 102,
    "getgid": 104,
    "geteuid": 107,
    "getegid": 108,
    "sigaltstack": 131,
    "gettid": 186,
    "exit_group": 231,
    "getrandom": 318,
}
# And, where an argument is so: (number, which argument, bits that count, their value).
ALLOWED_IF = {
    "futex, to wake": (202, 1, 0x7F, 1),  # waiting has absolute times
    "madvise, to give pages back": (
        28,
        2,
        0xFFFFFFFF,
        4,
    ),  # what malloc and numpy ask for, and no other advice
    "madvise, to give pages back later": (28, 2, 0xFFFFFFFF, 8),
    "madvise, for huge pages": (28, 2, 0xFFFFFFFE, 14),  # or against them
    "sched_getaffinity, of itself": (204, 0, 0xFFFFFFFF, 0),
}

# Loaded in any case: what numpy and everyday functions would load late. A rehearsal finds the rest.
EVERYDAY: tuple[str, ...] = (
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "numpy.random",
    "numpy.ma",
    "numpy.polynomial",
    "numpy.lib.format",
)
EVERYDAY += ("statistics", "random", "datetime", "_strptime", "decimal", "fractions", "warnings", "traceback")


def main() -> None:
    if sys.argv[1:] == ["plain"]:
        plain()
    else:
        enter_namespaces()
        serve(socket.socket(fileno=0))


def serve(control: socket.socket) -> None:
    """Answers the set-up with what is wrong, if anything; then makes a copy of itself for each pair of pipes that comes."""
    setup: Setup = json.loads(control.recv(1 << 20))
    problem = make_ready(setup)
    control.send(json.dumps(problem).encode())
    while problem is None:
        message, line, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        child = os.fork()
        if child == 0:
            compute(setup, *line, sealed=True, aloud=message == b"r")
        os.close(line[0])
        handle = os.pidfd_open(child)
        socket.send_fds(control, [b"."], [handle])
        os.close(handle)


def make_ready(setup: Setup) -> str | None:
    """Loads what the function needs, builds what copies inherit, stops the clock. What cannot be done, in words."""
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # how a copy ended is nobody's business: no trace of it here
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, this ends first
    with contextlib.suppress(OSError):
        landlock(reading=True)
    load(setup)
    try:
        # one processor for all copies: which one a copy gets could tell how busy the one before was
        os.sched_setaffinity(0, [random.SystemRandom().choice(sorted(os.sched_getaffinity(0)))])
        if len(os.listdir("/proc/self/task")) > 1:
            return "a module that the function imports starts threads"
        with open("/proc/self/maps") as file:
            maps = [line.split(maxsplit=5) for line in file]
        if any("w" in line[1] and "s" in line[1] for line in maps):
            return "a module that the function imports shares memory between processes"
        stop_clock(maps)
    except (OSError, AttributeError) as error:
        return f"the process cannot be sealed: {error}"
    gc.freeze()
    return None


def load(setup: Setup) -> None:
    """Imports what can be imported. What cannot is told to the function, if it asks."""
    setup["failed"] = {}
    for name in [*EVERYDAY, *setup["modules"]]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            setup["failed"][name] = f"{type(error).__name__}: {error}"


# -- a copy of the process, for one block --------------------------------------------------------------------------------------


def compute(setup: Setup, line: int, answer: int | None = None, *, sealed: bool, aloud: bool) -> NoReturn:
    """Computes one block, answers, and ends without any farewell. `aloud`, on made-up rows alone, says also what went wrong.

    The block comes by `line`, and the answer goes back by it, or by `answer`.
    """
    report: Setup = {"numbers": None, "problem": None, "missing": []}
    try:
        sys.stdin = io.StringIO()
        sys.stdout = sys.stderr = Nowhere()
        if sealed:
            finders: list[Any] = [
                BuiltinImporter,
                FrozenImporter,
                Loaded(setup["failed"], report["missing"]),
            ]
            sys.meta_path[:] = finders
            line = seal(line)
        rows = read_rows(line, setup["columns"])
        space: Setup = {"__name__": "function"}
        exec(compile(setup["source"], "<function>", "exec"), space)
        numbers = flat(space[setup["name"]](rows))
        if len(numbers) != setup["count"] or not all(map(math.isfinite, numbers)):
            raise ValueError(f"{setup['count']} finite numbers are needed, not {numbers}")
        report["numbers"] = numbers
        if not aloud:
            os.write(line if answer is None else answer, struct.pack(f"<{len(numbers)}d", *numbers))
    except BaseException as error:
        report["problem"] = f"{type(error).__name__}: {error}"
    finally:
        if aloud:
            with contextlib.suppress(BaseException):
                os.write(line if answer is None else answer, json.dumps(report).encode())
        os._exit(0)


def read_rows(line: int, columns: Sequence[str]) -> dict[str, object]:
    import numpy as np

    parts = []
    while part := os.read(line, 1 << 20):
        parts.append(part)
    file = io.BytesIO(b"".join(parts))
    return {name: np.lib.format.read_array(file, allow_pickle=False) for name in columns}


def flat(result: Any) -> list[float]:
    """One number or several, however they are wrapped."""
    if hasattr(result, "ravel"):
        result = result.ravel()
    if hasattr(result, "tolist"):
        result = result.tolist()
    return [float(number) for number in (result if isinstance(result, list | tuple) else [result])]


class Nowhere(io.TextIOBase):
    """Where output goes."""

    def write(self, text: str) -> int:
        return len(text)


class Loaded:
    """The last finder of modules: what was not loaded before cannot be any more."""

    def __init__(self, failed: dict[str, str], missing: list[str]) -> None:
        self.failed, self.missing = failed, missing

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.missing.append(name)
        reason = self.failed.get(name, "not loaded before the rows came")
        raise ModuleNotFoundError(f"{name} cannot be imported here ({reason})", name=name)


# -- the seal --------------------------------------------------------------------------------------------------------------------


def seal(line: int) -> int:
    """Leaves one line, memory and the processor. Raises if any part of it fails, and then nothing is computed."""
    system(PRCTL, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    line = fcntl.fcntl(
        line, fcntl.F_DUPFD, LINE
    )  # not 1 or 2: what a library prints must not end up in the answer
    os.closerange(0, line)
    os.closerange(line + 1, 1 << 16)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    system(PRCTL, PR_SET_DUMPABLE, 0, 0, 0, 0)  # no image of its memory, whatever takes those here
    with contextlib.suppress(OSError):
        landlock(reading=False)
    program = filter_program()
    code = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    system(PRCTL, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    system(SECCOMP, SECCOMP_SET_MODE_FILTER, 0, ctypes.addressof(head))
    return line


PRCTL, SECCOMP, UNSHARE = 157, 317, 272
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_TSC, PR_SET_NO_NEW_PRIVS = 1, 4, 26, 38
PR_TSC_SIGSEGV = 2
SECCOMP_SET_MODE_FILTER = 1
X86_64 = 0xC000003E


def system(number: int, *arguments: int) -> int:
    """A system call by its number."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    found = int(call(ctypes.c_long(number), *map(ctypes.c_ulong, arguments)))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def filter_program() -> bytes:
    """The rule of ALLOWED and ALLOWED_IF in the kernel's language: anything else is refused as not permitted."""
    load_word, equal, and_, give = 0x20, 0x15, 0x54, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000

    def line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("@HBBI", code, then, otherwise, value)

    lines = [line(load_word, 4), line(equal, X86_64, 1, 0), line(give, kill), line(load_word, 0)]
    for number in ALLOWED.values():
        lines += [line(equal, number, 0, 1), line(give, allow)]
    for number, argument, mask, value in ALLOWED_IF.values():
        lines += [line(equal, number, 0, 5), line(load_word, 16 + 8 * argument), line(and_, mask)]
        lines += [
            line(equal, value, 0, 1),
            line(give, allow),
            line(load_word, 0),
        ]  # the next rule may allow it
    return b"".join([*lines, line(give, refuse)])


def stop_clock(maps: Sequence[Sequence[str]]) -> None:
    """No time but 0, here and in every copy: a function must not learn how long the blocks before it took.

    The kernel keeps the time on pages that every process can read, and functions to read them by. The functions are written
    over, the pages are taken away, and the processor's own counter is switched to fault.
    """
    library = ctypes.CDLL(None, use_errno=True)
    zero_first = bytes.fromhex("31c04885ff7403488907c3")
    zeros_second = bytes.fromhex("31c04885f674074889064889460831c0c3")  # *rsi = {0, 0}, if there is one
    zeros_first = bytes.fromhex("31c04885ff74074889074889470831c0c3")
    not_here = bytes.fromhex(
        "48c7c0daffffffc3"
    )  # -ENOSYS: ask the system, which refuses or gives random bits
    stubs = {"clock_gettime": zeros_second, "gettimeofday": zeros_first, "time": zero_first}
    stubs |= dict.fromkeys(("clock_getres", "getcpu", "getrandom"), not_here)
    named = {
        line[5].strip(): line[0].split("-") for line in maps if len(line) > 5 and line[5].startswith("[v")
    }
    if "[vdso]" in named:
        low, high = (int(end, 16) for end in named["[vdso]"])
        library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if library.mprotect(low, high - low, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "the kernel's functions cannot be written over")
        kernel = ctypes.CDLL("linux-vdso.so.1")
        for name, stub in stubs.items():
            if hasattr(kernel, f"__vdso_{name}"):
                place = ctypes.cast(getattr(kernel, f"__vdso_{name}"), ctypes.c_void_p).value or 0
                assert low <= place <= high - len(stub)
                ctypes.memmove(place, stub, len(stub))
        library.mprotect(low, high - low, mmap.PROT_READ | mmap.PROT_EXEC)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    for name, ends in named.items():
        if name.startswith("[vvar"):
            low, high = (int(end, 16) for end in ends)
            if library.munmap(low, high - low):
                raise OSError(ctypes.get_errno(), "the kernel's page of times cannot be taken away")
    system(PRCTL, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)


def enter_namespaces() -> None:
    """Where the system allows it: no network, no messages, no users but one, and numbers of processes that only copies take."""
    users, others = 0x10000000, 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
    for flags in (users | others, others):
        with contextlib.suppress(OSError):
            system(UNSHARE, flags)
            break
    else:
        return
    if child := os.fork():  # the first of its numbers, which has to stay
        os.close(0)
        os.waitpid(child, 0)
        os._exit(0)
    system(PRCTL, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def landlock(*, reading: bool) -> None:
    """Landlock without a single rule: nothing is writable (nor readable), and there are no ports, sockets or signals to others."""
    version = system(LANDLOCK_CREATE_RULESET, 0, 0, 1)
    known = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)  # rights over files
    files = (1 << known) - 1
    if reading:
        files &= ~0b1101  # execute, read a file, read a folder
    rules = struct.pack("@QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    rules = rules[: 8 if version < 4 else 16 if version < 6 else 24]
    held = ctypes.create_string_buffer(rules, len(rules))
    ruleset = system(LANDLOCK_CREATE_RULESET, ctypes.addressof(held), len(rules), 0)
    system(PRCTL, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    system(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


# -- without a seal ------------------------------------------------------------------------------------------------------------


def plain() -> None:
    """One block in a process of its own: the set-up and the rows come by standard input, the answer goes to standard output."""
    size = int.from_bytes(read_exactly(0, 8), "big")
    setup: Setup = json.loads(read_exactly(0, size))
    load(setup)
    answer = os.dup(1)
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    signal.setitimer(
        signal.ITIMER_REAL, setup["seconds"]
    )  # which ends it, when all is loaded and that has passed
    compute(setup, 0, answer, sealed=False, aloud=setup["aloud"])


def read_exactly(pipe: int, size: int) -> bytes:
    parts = b""
    while len(parts) < size and (part := os.read(pipe, size - len(parts))):
        parts += part
    return parts


if __name__ == "__main__":
    main()
