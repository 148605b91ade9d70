"""Sensitivities of any function by their definition: every dataset of a small domain is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, combinations_with_replacement, count, product
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, whole
from oboro.kinds import list_of, shown, takes, unknown
from oboro.noise.laplace import as_float

MOST_DATASETS = 2**20
MOST_PAIRS = 2**27  # of neighbours
ADJACENCIES = ("replace", "add/remove")
NORMS = ("l1", "l2", "max")
Rows = tuple[Any, ...]  # of whatever kind the caller's function takes
Function = Callable[[Rows], object]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How far one row moves a function: at all (`largest`), near given data (`local`), and smoothly (`smooth`).

    Made by `sensitivity.of`. What `local` and `smooth` return depends on the data that they are given, and is private.

    >>> from oboro.statistics import sensitivity
    >>> middle = sensitivity.of(lambda rows: sorted(rows)[2], values=[0, 1], n=5)
    >>> middle.largest, middle.worst
    (1.0, ((0, 0, 0, 1, 1), (1, 0, 0, 1, 1)))
    >>> middle.local([0, 0, 0, 0, 1]), middle.smooth([0, 0, 0, 0, 1], beta=1)
    (0.0, 0.36787944117144233)
    """

    values: Rows
    n: int
    adjacency: str
    norm: str
    ordered: bool  # a dataset is a list of rows; otherwise it is how often each value occurs
    _states: Integers = field(
        repr=False
    )  # a dataset in each line: places in `values`, or how often each occurs
    _answers: Floats = field(repr=False)  # what the function says of it

    @property
    def largest(self) -> float:
        """The global sensitivity: the most that one row can move the function, in any dataset."""
        return float(self._local.max(initial=0.0))

    @property
    def worst(self) -> tuple[Rows, Rows] | None:
        """Two neighbours between which the function moves that far; None if it never moves."""
        most = self.largest
        for first, second, apart in self._moves() if most > 0 else ():
            if apart.size and apart.max() == most:
                place = int(apart.argmax())
                return self._rows(int(first[place])), self._rows(int(second[place]))
        return None

    @takes(data=list_of)
    def local(self, data: Sequence[object]) -> float:
        """The most that one row can move the function in these data."""
        return float(self._local[self._place(data)])

    @takes(data=list_of)
    def smooth(self, data: Sequence[object], beta: Number) -> float:
        """The beta-smooth sensitivity: the largest local sensitivity of any dataset, times e^(-beta distance)."""
        rate = as_float(positive("beta", beta))
        here = self._states[self._place(data)]
        if self.ordered:
            distance = (self._states != here).sum(axis=1)
        else:
            distance = np.abs(self._states - here).sum(axis=1) // (2 if self.adjacency == "replace" else 1)
        return float((self._local * np.exp(-rate * distance)).max())

    @cached_property
    def _local(self) -> Floats:
        """The local sensitivity of every dataset."""
        found = np.zeros(len(self._states))
        for first, second, apart in self._moves():
            np.maximum.at(found, first, apart)
            np.maximum.at(found, second, apart)
        return found

    def _moves(self) -> Iterator[tuple[Integers, Integers, Floats]]:
        """All pairs of neighbours, some at a time, and how far apart the function is there."""
        weights = _weights(self._states)
        key = self._states @ weights
        order = np.argsort(key)
        for inside, further in self._steps(weights):
            first = np.flatnonzero(inside)
            second = order[np.searchsorted(key[order], key[first] + further)]
            apart = np.abs(self._answers[first] - self._answers[second])
            if self.norm == "l2":
                yield first, second, np.sqrt((apart * apart).sum(axis=1))
            else:
                yield first, second, apart.sum(axis=1) if self.norm == "l1" else apart.max(axis=1)

    def _steps(self, weights: Integers) -> Iterator[tuple[npt.NDArray[np.bool_], Integers]]:
        """The ways to a neighbour: from which datasets each leads, and how far on the key is. (The way back is
        the same pair.)"""
        places = range(len(weights))
        if self.ordered:
            last = len(self.values) - 1
            for i, more in product(places, range(1, last + 1)):
                yield self._states[:, i] + more <= last, more * weights[i : i + 1]
        elif self.adjacency == "replace":
            for i, j in combinations(places, 2):
                yield self._states[:, j] > 0, weights[i : i + 1] - weights[j : j + 1]
        else:
            for i in places:
                yield self._states.sum(axis=1) < self.n, weights[i : i + 1]

    def _place(self, data: Sequence[object]) -> int:
        """The line of a dataset."""
        rows = [self._value(row) for row in data]
        if len(rows) > self.n or (self.adjacency == "replace" and len(rows) < self.n):
            raise ParameterError(
                "the data have another number of rows",
                given=f"{len(rows)} rows",
                needed=f"{self.n}" if self.adjacency == "replace" else f"up to {self.n}",
                fix=setting(n=len(rows)),
            )
        state = rows if self.ordered else np.bincount(np.asarray(rows, np.int64), minlength=len(self.values))
        return int(np.flatnonzero((self._states == np.asarray(state)).all(axis=1))[0])

    def _value(self, row: object) -> int:
        for place, value in enumerate(self.values):
            if _same(row, value):
                return place
        raise ParameterError(
            "a row of the data is none of the values",
            given=shown(row),
            needed="one of values",
            fix="values that hold every row",
        )

    def _rows(self, place: int) -> Rows:
        return _rows(self.values, self._states[place], ordered=self.ordered)


@takes(values=list_of)
def of(
    function: Function,
    values: Sequence[object],
    n: int,
    *,
    adjacency: str = "replace",
    norm: str = "l1",
    ordered: bool | None = None,
) -> Sensitivity:
    """The sensitivities of any function of rows, by looking at every dataset: for small domains, and for study.

    `function` is given a tuple of rows, each one of `values`, and returns a number or several. Under "replace" there are
    always `n` rows; under "add/remove" at most `n`, and what happens beyond is not looked at. `norm` is how far apart two answers
    of several numbers are. A function that does not look at the order of rows is done sooner with `ordered=False`: it is
    given rows in the order of `values`, and there are far fewer datasets; under "add/remove" that is so always.

    >>> from oboro.statistics import sensitivity
    >>> sensitivity.of(sum, values=[0, 1, 2], n=3).largest
    2.0
    >>> sensitivity.of(lambda rows: [rows.count("a"), rows.count("b")], values=["a", "b"], n=4).largest
    2.0
    >>> spread = sensitivity.of(lambda rows: max(rows, default=0), values=range(4), n=5, adjacency="add/remove")
    >>> spread.largest, spread.local([1, 3, 3]), spread.smooth([1, 3, 3], beta="0.5")
    (3.0, 0.0, 1.21306...)
    """
    if adjacency not in ADJACENCIES:
        raise unknown("adjacency", adjacency, ADJACENCIES)
    if norm not in NORMS:
        raise unknown("norm", norm, NORMS)
    if not callable(function):
        raise ParameterError(
            "this is not a function", given=shown(function), needed="a function of rows", fix="sum"
        )
    kinds = _different(values)
    rows = whole("n", n, least=1, most=MOST_DATASETS)
    listed = adjacency == "replace" if ordered is None else bool(ordered) and adjacency == "replace"
    states = _all_states(len(kinds), rows, listed, adjacency)
    answers = [_answer(function, _rows(kinds, state, ordered=listed)) for state in states]
    lengths = {len(answer) for answer in answers}
    if len(lengths) > 1:
        raise ParameterError(
            "the function does not always return as many numbers",
            given=", ".join(str(length) for length in sorted(lengths)),
            needed="the same for all data",
            fix="a list of fixed length",
        )
    return Sensitivity(kinds, rows, adjacency, norm, listed, states, np.asarray(answers, np.float64))


def _all_states(kinds: int, n: int, ordered: bool, adjacency: str) -> Integers:
    """Every dataset, if they are few enough."""
    if ordered:
        every, ways = kinds**n if n * math.log2(kinds) < 64 else 2**64, n * (kinds - 1)
    else:  # as many as there are ways to choose with repetition; under add/remove, "nobody" is one more kind
        every = math.comb(n + kinds - (adjacency == "replace"), n)
        ways = math.comb(kinds, 2) if adjacency == "replace" else kinds
    width = n if ordered else kinds
    if every > MOST_DATASETS or every * max(ways, width) > MOST_PAIRS:
        raise ParameterError(
            "there are too many datasets to look at",
            given=f"{kinds} values, " + told(n=f"{n}"),
            needed=f"at most {MOST_DATASETS:,} datasets, and {MOST_PAIRS:,} pairs of neighbours",
            fix="fewer values, fewer rows" + (", or " + setting(ordered=False) if ordered else ""),
        )
    if ordered:
        return np.asarray(list(product(range(kinds), repeat=n)), np.int64).reshape(every, n)
    sizes = (n,) if adjacency == "replace" else range(n + 1)
    chosen = (one for size in sizes for one in combinations_with_replacement(range(kinds), size))
    return np.asarray([np.bincount(one, minlength=kinds) for one in map(_whole, chosen)], np.int64)


def _whole(places: Sequence[int]) -> Integers:
    return np.asarray(places, np.int64)


def _weights(states: Integers) -> Integers:
    """Numbers under which no two datasets have the same sum modulo 2^64: a key that follows each step to a neighbour."""
    for seed in count():
        found = np.random.default_rng(seed).integers(-(2**62), 2**62, states.shape[1])
        if np.unique(states @ found).size == len(states):
            return np.asarray(found, np.int64)
    raise AssertionError  # pragma: no cover


def _rows(values: Sequence[object], state: Integers, *, ordered: bool) -> Rows:
    """The rows of a dataset."""
    if ordered:
        return tuple(values[place] for place in state.tolist())
    return tuple(value for value, count in zip(values, state.tolist(), strict=True) for _ in range(count))


def _different(values: Sequence[object]) -> Rows:
    """What a row can be, each once."""
    kinds = list(values)
    alike = any(_same(one, other) for one, other in combinations(kinds, 2)) if len(kinds) <= 4096 else False
    if not kinds or len(kinds) > MOST_DATASETS or alike:
        raise ParameterError(
            "values are all that a row can be, each once",
            given=f"{len(kinds)} of them" + (", some alike" if alike else ""),
            needed=f"1 to {MOST_DATASETS:,} different values",
            fix=setting(values=[0, 1]),
        )
    return tuple(kinds)


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(np.all(one == other)) and np.shape(one) == np.shape(other)
    except Exception:  # whatever a value may do when it is compared
        return one is other


def _answer(function: Function, rows: Rows) -> list[float]:
    """What the function says: finite numbers, or the reason why not. The data are made up, so it may be said."""
    try:
        found = np.asarray(function(rows), np.float64).ravel()
    except Exception as error:
        raise ParameterError(
            "the function fails on made-up rows",
            given=f"{shown(rows)}: {type(error).__name__}: {error}",
            needed="a number, or a list of numbers, for any rows",
            fix="let it return a number where it cannot tell",
        ) from error
    if not found.size or not np.isfinite(found).all():
        raise ParameterError(
            "the function does not return finite numbers",
            given=f"{shown(rows)}: {shown(found.tolist())}",
            needed="a number, or a list of numbers, for any rows",
            fix="let it return a number where it cannot tell",
        )
    return [float(x) for x in found]
