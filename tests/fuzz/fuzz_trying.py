"""Tries one bad input, and says what came of it."""

from __future__ import annotations

import os
import random
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz_calls import CALLS, call
from fuzz_commands import LINES, bent
from fuzz_documents import documents, messages_of, records, texts
from fuzz_values import HOSTILE, any_value, mutated_bytes, mutated_record, mutated_text, near
from fuzz_world import World
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import oboro as ob
from oboro.errors import BudgetError, InputError

PACKAGE = Path(ob.__file__).parent  # a checkout may lie in a folder of the same name: that is not the package
PATIENCE = 300.0  # seconds for one input: for one that hangs, not for one on a busy machine

Try = Callable[[], Any]
Bad = st.SearchStrategy[tuple[Try, str]]  # what to do, and how to show it


class Slow(BaseException):
    """An input that took too long: counted, and not a foreign exception."""


@dataclass
class Tally:
    """What a run of tries came to."""

    tries: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slow: Counter[str] = field(default_factory=Counter)
    foreign: dict[str, str] = field(default_factory=dict)  # where it came from: how to have it again

    def __str__(self) -> str:
        rows = [f"{'what':<12} {'tried':>9} {'refused':>9} {'slow':>6}"]
        rows += [
            f"{kind:<12} {self.tries[kind]:>9,} {self.refused[kind]:>9,} {self.slow[kind]:>6,}"
            for kind in self.tries
        ]
        total = f"{sum(self.tries.values()):,} bad inputs, {len(self.foreign)} foreign exceptions"
        return "\n".join([*rows, total, *(f"  {where}\n      {how}" for where, how in self.foreign.items())])


def attempt(world: World, kind: str, bad: tuple[Try, str], tally: Tally) -> None:
    """Does it. Only oboro's own errors may come out, and whoever is refused has spent nothing."""
    work, shown = bad
    tally.tries[kind] += 1
    before = world.spent() if kind == "call" else None
    try:
        with chdir(world.scratch), _in_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = work()
        tally.refused[kind] += kind == "command" and result != 0
    except Slow:
        tally.slow[kind] += 1
        tally.foreign.update({f"slow: {shown}"[:200]: ""} if os.environ.get("FUZZ_SLOW") else {})
    except ob.OboroError as error:
        tally.refused[kind] += 1
        if before is not None and isinstance(error, InputError | BudgetError) and world.spent() != before:
            tally.foreign[f"spent, then refused: {shown}"] = repr(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        where = _origin(error)
        if where is None and isinstance(error, TypeError):
            tally.refused[kind] += 1  # the call itself does not fit the function: Python says so
        else:
            tally.foreign.setdefault(
                f"{type(error).__name__} at {where}", f"{error}"[:200] + "\n      " + shown[:400]
            )


def _origin(error: BaseException) -> str | None:
    """The last line of oboro that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    if not ours:
        return None
    return f"{Path(ours[-1].filename).relative_to(PACKAGE).as_posix()}:{ours[-1].lineno}"


@contextmanager
def _in_time() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise Slow

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@cache
def bad_inputs(world: World) -> dict[str, dict[str, Bad]]:
    """Every kind of bad input: by kind, then by what it is bent from."""
    return {
        "call": {name: _bad_call(world, name) for name in CALLS},
        "document": {name: _bad_file(world, document) for name, document in documents(world).items()},
        "record": {name: _bad(mutated_record, record) for name, record in records(world).items()},
        "text": {name: _bad(mutated_text, text) for name, text in texts(world).items()},
        "message": {name: _bad(mutated_bytes, message) for name, message in messages_of(world).items()},
        "command": {line: _bad_line(world, line) for line in LINES},
    }


def _bad_call(world: World, name: str) -> Bad:
    @st.composite
    def make(draw: st.DrawFn) -> tuple[Try, str]:
        arguments = CALLS[name](world)
        names = [key for key in arguments if key != "self"]
        for key in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
            arguments[key] = draw(any_value() | near(arguments[key]))
            if key == "*" and not isinstance(arguments[key], tuple | list):
                arguments[key] = (arguments[key],)
        if _dangerous(arguments):
            arguments = CALLS[name](world)
        shown = {key: value for key, value in arguments.items() if key != "self"}
        return (lambda: call(name, arguments)), f"{name} {_shown(shown)}"

    return make()


SLOW = ("synth.quality", "audit.run", "secure.compare")


def sweep(world: World, tally: Tally, names: Iterable[str] = tuple(CALLS)) -> None:
    """Every argument of every public function with every hostile value, one at a time."""
    for name in names:
        if name in SLOW:
            continue
        for key in [key for key in CALLS[name](world) if key != "self"]:
            for value in HOSTILE:
                arguments = CALLS[name](world)
                arguments[key] = value if key != "*" or isinstance(value, tuple | list) else (value,)
                if not _dangerous(arguments):
                    shown = f"{name} {key}={_shown(value)}"
                    attempt(world, "call", (partial(call, name, arguments), shown), tally)


def _dangerous(arguments: dict[str, Any]) -> bool:
    """A path that leads out of the folder is not written to."""
    paths = [
        arguments[key] for key in ("path", "name", "where", "key") if isinstance(arguments.get(key), str)
    ]
    return any("/" in path and "://" not in path for path in paths)


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"something whose repr fails: {error}"


def _bad_file(world: World, document: Any) -> Bad:
    def make(data: bytes) -> tuple[Try, str]:
        def work() -> Any:
            path = world.folder / f"bent{document.suffix}"
            path.write_bytes(data)
            return document.read(path)

        return work, f"a file of {len(data)} bytes: {data[:200]!r}"

    return (mutated_bytes(document.valid) | st.binary(max_size=100)).map(make)


def _bad(bend: Callable[[Any], st.SearchStrategy[Any]], source: Any) -> Bad:
    return bend(source.valid).map(lambda value: ((lambda: source.read(value)), _shown(value)))


def _bad_line(world: World, line: str) -> Bad:
    def make(words: list[str]) -> tuple[Try, str]:
        safe = [
            word for word in words if word in ("/", "..") or not (word.startswith(("/", "~")) or ".." in word)
        ]
        return (lambda: world.command(safe)), " ".join(safe)

    return bent(line).map(make)


def try_many(
    world: World, kind: str, name: str, bad: Bad, examples: int, tally: Tally, number: int | None
) -> None:
    """So many bad inputs from one good one. With a `number` the same ones every time."""

    @settings(
        max_examples=examples,
        derandomize=number is not None,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(bad=bad)
    def property_of(bad: tuple[Try, str]) -> None:
        attempt(world, kind, bad, tally)

    if number is None:
        property_of = seed(random.SystemRandom().randrange(2**64))(property_of)
    property_of()
