"""Someone's own function, computed where it can do no harm: each block in a sealed process, which has its block and nothing else.

The function may fail, hang, print, or return nonsense, and whether it does may depend on private values. It may even be
written to carry off what it sees. So it runs in seal.py, a program that never had the data, and for every outcome there is
one rule: numbers of the right count that are finite are taken; anything else is None. Here is the side that has the data.

Whether this system can seal is tried out, by a function that tries every door. Where it cannot, a block is computed in a plain
process of its own, and the promise is conditional on what the function does.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import io
import json
import os
import platform
import re
import select
import signal
import socket
import struct
import subprocess
import symtable
import sys
import textwrap
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oboro.arrays import Values
from oboro.errors import ParameterError, setting
from oboro.kinds import shown
from oboro.records import Record

# Someone's own function as text, which a fresh interpreter can read: the only form in which it travels.
#
# A function may be given as
#
#     text                       Python whose last statement is the function: a `def`, or `from module import function`
#     "module:function"          the same as that import, of something that is installed
#     a function                 its text is looked up, if that is the whole function
#
# The last is so where every name that it uses is its own, a builtin, a module, or something that a module has under a name: those
# become imports before the text. What a variable of the program holds is not in the text and may be data, so a function that
# uses one is refused, and so are closures, lambdas (their text is a piece of a line) and everything that is not a plain function.

MOST = 1 << 16  # characters of a text
PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
WHOLE = {
    "needed": "a function by itself",
    "fix": "\"def ratio(rows):\\n    return rows['income'].mean() / rows['age'].mean()\"",
}


def text_of(function: str | Callable[..., object]) -> str:
    """The function as text."""
    if isinstance(function, str):
        path = PATH.fullmatch(function.strip())
        text = f"from {path[1]} import {path[2]}\n" if path else textwrap.dedent(function)
    else:
        text = _looked_up(function)
    called(text)
    return text


def label_of(function: str | Callable[..., object], text: str) -> str:
    """How a certificate calls it, where nobody says."""
    if isinstance(function, str):
        return function.strip() if PATH.fullmatch(function.strip()) else called(text)
    return f"{function.__module__}.{function.__qualname__}"


def called(text: str) -> str:
    """The name of the function that a text ends with. Refuses what is not such a text."""
    for last in _tree(text).body[-1:]:
        if isinstance(last, ast.FunctionDef):
            return last.name
        if isinstance(last, ast.ImportFrom) and not last.level and len(last.names) == 1:
            name = last.names[0].asname or last.names[0].name
            if name.isidentifier():
                return name
    raise ParameterError("the text does not end with a function", given=shown(text), **WHOLE)


def imported(text: str) -> tuple[str, ...]:
    """Every module that a text names in an import, wherever it stands, and what might be one."""
    names: dict[str, None] = {}
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names[node.module] = None
            names |= dict.fromkeys(f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(names)


def _tree(text: str) -> ast.Module:
    if not isinstance(text, str) or len(text) > MOST:
        raise ParameterError(
            "the text of the function is too long, or no text",
            given=f"{len(text):,} characters" if isinstance(text, str) else shown(text),
            needed=f"at most {MOST:,}",
            fix='"module:function", of a module that is installed',
        )
    try:
        tree = ast.parse(text)
        compile(tree, "<function>", "exec")
        return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParameterError(f"the function is not Python: {error}", given=shown(text), **WHOLE) from None


def _looked_up(function: object) -> str:
    """The text of a function that is whole without its surroundings."""
    if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
        raise ParameterError("only a plain function can be given as it is", given=shown(function), **WHOLE)
    if function.__closure__:
        raise ParameterError(
            f"the function holds values from around it: {', '.join(function.__code__.co_freevars)}",
            given=shown(function),
            **WHOLE,
        )
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise ParameterError(
            "the text of the function is not to be found: give the text itself",
            given=shown(function),
            **WHOLE,
        ) from None
    tree = _tree(text)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ParameterError(
            "the text of the function is not to be found: give the text itself",
            given=shown(function),
            **WHOLE,
        )
    text = ast.unparse(ast.fix_missing_locations(_Plain().visit(tree))) + "\n"
    lines = [
        _import_of(name, function)
        for name in sorted(set(_free(symtable.symtable(text, "<function>", "exec"))))
    ]
    return "".join(line for line in lines if line) + text


class _Plain(ast.NodeTransformer):
    """Without annotations, which mean nothing when a function runs, and may name what is only there for a checker of types."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value))


def _free(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that the text uses and does not make."""
    made = {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_namespace()}
    top = table.get_type() == "module"
    for name in table.get_symbols():
        if name.is_referenced() and (name.get_name() not in made if top else name.is_global()):
            yield name.get_name()
    for inner in table.get_children():
        yield from (name for name in _free(inner) if not top or name not in made)


def _import_of(name: str, function: types.FunctionType) -> str:
    """The import that gives a name its value, or nothing for a builtin."""
    if name not in function.__globals__:
        if hasattr(builtins, name):
            return ""
        raise ParameterError(f"the function uses {name}, which is nowhere", given=shown(function), **WHOLE)
    value = function.__globals__[name]
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        return f"import {value.__name__} as {name}\n"
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    elsewhere = module not in (None, "__main__", function.__module__)
    if elsewhere and isinstance(own, str) and getattr(sys.modules.get(str(module)), own, None) is value:
        return f"from {module} import {own} as {name}\n"
    raise ParameterError(
        f"the function uses {name}, a variable of the program: write it into the function",
        given=shown(function),
        **WHOLE,
    )


Numbers = tuple[float, ...]
Rows = Mapping[str, Values]

SEALED, PLAIN = "sealed", "none"
PROGRAM = Path(__file__).with_name("seal.py")
STARTING = 120  # seconds that installed modules have to load, before there is data
ROUNDS = 40  # of a rehearsal, at most: each loads what the one before found missing
# A sealed process has one thread, and the program from which it is made has no other either.
SURROUNDINGS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")}
SURROUNDINGS["JE_ARROW_MALLOC_CONF"] = "background_thread:false"

DOORS = """
import os, socket, threading, time

def doors(rows):
    found = 0
    for door in (
        lambda: open("/proc/self/maps"),
        lambda: os.stat("/"),
        lambda: os.listdir("/"),
        lambda: open("/dev/shm/oboro", "w"),
        lambda: socket.socket(),
        lambda: socket.socket(socket.AF_UNIX),
        lambda: os.kill(os.getppid(), 0),
        lambda: os.kill(os.getpid(), 0),
        lambda: os.pipe(),
        lambda: os.fork() or os._exit(0),
        lambda: threading.Thread(target=int).start(),
        lambda: os.sched_setaffinity(0, [0]),
        lambda: time.sleep(0),
        lambda: 1 / time.time(),
        lambda: 1 / time.monotonic(),
        lambda: 1 / time.process_time(),
    ):
        try:
            door()
            found += 1
        except (OSError, RuntimeError, ZeroDivisionError):
            pass
    return found
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A function, what it is given and what it must give: public facts."""

    source: str
    columns: tuple[str, ...]
    count: int
    seconds: float
    isolation: str
    modules: tuple[str, ...] = ()  # to load before, besides those that the text names

    def to_json(self, **more: object) -> bytes:
        setup = {
            "source": self.source,
            "name": called(self.source),
            "modules": [*imported(self.source), *self.modules],
            "columns": self.columns,
            "count": self.count,
        }
        return json.dumps(setup | more).encode()


@functools.cache
def can_seal() -> bool:
    """Whether this system gives a function its block and nothing else: a function that tries every door finds none open."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or not hasattr(os, "pidfd_open"):
        return False
    try:
        with Computing(Job(DOORS, (), 1, STARTING, SEALED)) as compute:
            return compute({}) == (0.0,)
    except ParameterError:
        return False


def check_isolation(isolation: str) -> None:
    """Refuses a plan that this system cannot keep, before anything is reserved."""
    if isolation == SEALED and not can_seal():
        raise ParameterError(
            "this system cannot seal a process",
            given=f"{platform.system()} on {platform.machine()}",
            needed="Linux on x86-64 that allows seccomp filters, as the plan says",
            fix=setting(isolation=PLAIN) + ", which makes the promise conditional on the function",
        )


def rehearse(job: Job, rows: Rows) -> Job:
    """The job with all modules that it turns out to need, after the function has answered on made-up rows.

    Only public facts are in play, so what goes wrong is said.
    """
    check_isolation(job.isolation)
    for _ in range(ROUNDS):
        with Computing(job) as compute:
            report = compute.rehearse(rows)
        known = {*imported(job.source), *job.modules}
        if not (missing := [name for name in report["missing"] if name not in known]):
            break
        job = replace(job, modules=(*job.modules, *dict.fromkeys(missing)))
    if report["problem"] is not None:
        raise ParameterError(
            "the function fails on made-up rows, so nothing was reserved",
            given=report["problem"],
            needed=f"{job.count} finite numbers for any rows, within {job.seconds:g} seconds",
            fix="try it on made-up rows of your own, and let it return a number where it cannot tell",
        )
    return job


class Computing:
    """Computes blocks, one after the other: `with Computing(job) as compute: compute(rows)`."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._stack = ExitStack()
        self._control: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None  # the program of which copies are made

    def __enter__(self) -> Computing:
        if self.job.isolation == SEALED:
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def __call__(self, rows: Rows) -> Numbers | None:
        """As many finite numbers as the job says, or None, whatever happened."""
        size = 8 * self.job.count
        found = self._answer(rows, size, aloud=False)
        return (
            struct.unpack(f"<{self.job.count}d", found) if found is not None and len(found) == size else None
        )

    def rehearse(self, rows: Rows) -> Record:
        """What happens on made-up rows: {"problem": in words or None, "missing": modules that were asked for}."""
        found = self._answer(rows, 1 << 16, aloud=True)
        report: Record = {
            "problem": "it was not finished in time, or its process died",
            "missing": [],
        }
        with suppress(ValueError, TypeError):
            said = json.loads(found or b"")
            report["missing"] = [str(name)[:200] for name in said["missing"]][:1000]
            report["problem"] = None if said["problem"] is None else _printable(str(said["problem"]))
        return report

    def _start(self) -> None:
        """A new program: its memory, files and surroundings are its own."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(STARTING)
        try:
            with theirs:
                self.process = _started(stdin=theirs)
            self._stack.callback(_ended, self.process, ours)
            ours.send(self.job.to_json())
            problem = json.loads(ours.recv(1 << 16) or b'"it did not start"')
        except (OSError, ValueError) as error:
            problem = str(error)
        if problem is not None:
            raise ParameterError(
                "the function cannot be computed in a sealed process",
                given=_printable(problem),
                needed="modules that load within two minutes, start no threads and share no memory",
                fix=setting(isolation=PLAIN) + ", which makes the promise conditional on the function",
            )
        self._control = ours

    def _answer(self, rows: Rows, most: int, *, aloud: bool) -> bytes | None:
        """All bytes that came back from a process that ended in time, if there are at most `most`."""
        block = _packed(self.job, rows)
        if self.job.isolation != SEALED:
            return self._plain(block, most, aloud=aloud)
        deadline = time.monotonic() + self.job.seconds
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = self._copy(theirs, aloud=aloud)
            if process is None:
                return None
            try:
                return _exchange(ours, block, most, deadline)
            finally:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                gone = select.poll()
                gone.register(process, select.POLLIN)
                gone.poll()
                os.close(process)

    def _copy(self, theirs: socket.socket, *, aloud: bool) -> int | None:
        """A process for one block, at the other end of a connection; what is handed back is its handle."""
        assert self._control is not None
        try:
            socket.send_fds(self._control, [b"r" if aloud else b"b"], [theirs.fileno()])
            return socket.recv_fds(self._control, 1, 1)[1][0]
        except (OSError, IndexError):  # the machine ended the program: the next block gets a new one
            self._stack.close()
            with suppress(ParameterError):
                self._start()
            return None

    def _plain(self, block: bytes, most: int, *, aloud: bool) -> bytes | None:
        setup = self.job.to_json(aloud=aloud, seconds=self.job.seconds)
        process = _started("plain", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            said, _ = process.communicate(
                len(setup).to_bytes(8, "big") + setup + block, timeout=self.job.seconds + STARTING
            )
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # a group of its own: whatever it started, too
            process.communicate()
        return bytes(said) if len(said) <= most else None


def _started(*arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    """The program, new, with none of our files, in silence, and nothing of our environment but where libraries lie."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", str(PROGRAM), *arguments],
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams},
        cwd="/",
        env={**SURROUNDINGS, **kept},
        start_new_session=True,
    )


def _ended(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.kill()
    process.wait()


def _exchange(ours: socket.socket, block: bytes, most: int, deadline: float) -> bytes | None:
    """Hands over the block and takes all that comes back until the other end is closed."""
    found = b""
    try:
        ours.settimeout(max(0.001, deadline - time.monotonic()))
        ours.sendall(block)
        ours.shutdown(socket.SHUT_WR)
        while len(found) <= most:
            ours.settimeout(max(0.001, deadline - time.monotonic()))
            part = ours.recv(1 << 16)
            if not part:
                return found
            found += part
    except OSError:  # too late, or gone
        pass
    return None


def _packed(job: Job, rows: Rows) -> bytes:
    """Arrays of numbers, texts and dates as bytes, without anything that could be run on reading."""
    import numpy as np

    file = io.BytesIO()
    for name in job.columns:
        np.lib.format.write_array(file, np.ascontiguousarray(rows[name]), allow_pickle=False)
    return file.getvalue()


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:300]
