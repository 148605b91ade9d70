"""How good synthetic records are, measured against the real ones. This touches real data: for the steward's eyes only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from oboro.arrays import Data, Floats, Integers
from oboro.exact import about, whole
from oboro.language import aligned, plain, said
from oboro.records import Record
from oboro.release import Certificate
from oboro.synth.codes import MOST_LABELS, Compared, read_both
from oboro.synth.distances import (
    KNOWN,
    Changed,
    Ended,
    Moved,
    beyond_chance,
    correlations,
    distance_of,
    most_errors,
    pair_distance,
    unit_length,
    worst_end,
    worst_mean,
    worst_spread,
)
from oboro.synth.marks import shown_conditions
from oboro.synth.model import Model, load
from oboro.synth.nearness import LEAST, Nearness, nearness
from oboro.synth.origin import check_order, origin_of
from oboro.synth.usefulness import MOST_ROWS, Usefulness, usefulness

# The pairs and triples that came out worst, by name.

NAMED = 5
MOST_TRIPLES_OF = 40  # columns: those whose pairs are worst


@dataclass(frozen=True, slots=True)
class Worst:
    """Columns that go together otherwise than in the real table, and how far apart that is."""

    names: tuple[str, ...]
    distance: float
    beyond: float = 0.0  # what is left of it without what chance adds

    @property
    def told(self) -> list[str]:
        return [" × ".join(map(plain, self.names)), about(self.distance), about(self.beyond)]


def _ordered(found: Sequence[Worst]) -> tuple[Worst, ...]:
    """What is most beyond chance is first."""
    return tuple(sorted(found, key=lambda worst: (-worst.beyond, -worst.distance))[:NAMED])


def worst_pairs(columns: Sequence[Compared], pairs: Floats, beyond: Floats) -> tuple[Worst, ...]:
    return _ordered(
        [
            Worst((columns[i].name, columns[j].name), float(pairs[i, j]), float(beyond[i, j]))
            for i, j in combinations(range(len(columns)), 2)
        ]
    )


def _pairs_beyond(pairs: Floats, chance: Floats, spread: Floats) -> Floats:
    """What is left of the distances of pairs without what chance makes of the worst of so many."""
    count = len(pairs)
    return beyond_chance(pairs, chance + most_errors(count * (count - 1) // 2) * spread)


def worst_triples(columns: Sequence[Compared], pairs: Floats) -> tuple[Worst, ...]:
    """In at most six bins a column, so that rows are many in each cell; of long tables, rows in equal steps."""
    order = np.argsort(-pairs.max(axis=1, initial=0), kind="stable")[:MOST_TRIPLES_OF]
    some = {int(i): [_coarse(columns[i], real) for real in (True, False)] for i in order}
    triples = list(combinations(sorted(some), 3))
    found = []
    for places in triples:
        cells = [(some[places[0]][k] * 6 + some[places[1]][k]) * 6 + some[places[2]][k] for k in (0, 1)]
        distance, chance, spread = distance_of(cells[0], cells[1], 6**3)
        beyond = float(beyond_chance(distance, chance + most_errors(len(triples)) * spread))
        found.append(Worst(tuple(columns[i].name for i in places), distance, beyond))
    return _ordered(found)


def worst_labels(columns: Sequence[Compared]) -> tuple[Worst, ...]:
    """Columns of so many labels that the rare ones share a bin, which hides what becomes of them: here each label stands by itself."""
    found = []
    for column in columns:
        count = 0 if column.numeric else 1 + max(map(_last, (column.real, column.synthetic)))
        if count > MOST_LABELS:
            one, two = (
                np.nan_to_num(values, nan=count).astype(np.int64)
                for values in (column.real, column.synthetic)
            )
            found.append((column.name, *distance_of(one, two, count + 1)))
    errors = most_errors(len(found))
    return _ordered(
        [
            Worst((name,), distance, float(beyond_chance(distance, chance + errors * spread)))
            for name, distance, chance, spread in found
        ]
    )


def _last(codes: Floats) -> int:
    """The largest code that is known; -1 where none is."""
    known = codes[~np.isnan(codes)]
    return int(known.max()) if known.size else -1


def _coarse(column: Compared, real: bool) -> Integers:
    """Five bins and missing: numbers by fifths of the real rows, labels the four most frequent and the others."""
    bins = column.real_bins if real else column.synthetic_bins
    bins = bins[np.linspace(0, max(bins.size - 1, 0), min(bins.size, MOST_ROWS)).astype(np.int64)]
    known = column.size - 1
    coarse = np.minimum(np.arange(column.size), 4)
    if column.numeric:
        counts = np.bincount(column.real_bins, minlength=column.size)[:known]
        middles = (np.cumsum(counts) - counts / 2) / max(counts.sum(), 1)
        coarse[:known] = np.minimum(middles * 5, 4).astype(np.int64)
    coarse[known] = 5
    return coarse[bins]


LISTED = 20  # names in a line


def listed(names: Sequence[str]) -> str:
    """Names in a line, of which the last are counted where there are many."""
    more = [f"… (+{len(names) - LISTED})"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more])


# Up to the first limit a table behaves like the real one, up to the second it keeps its main features.
LIMITS = {
    "columns": (0.05, 0.15),  # distance of a column, on average
    "worst column": (0.15, 0.45),
    "pairs": (0.05, 0.15),  # distance of a pair of columns, on average
    "worst pair": (0.15, 0.45),
    "worst triple": (0.15, 0.45),
    "worst labels": (0.15, 0.45),  # distance of a column of many labels, each by itself
    "mean": (0.1, 0.3),  # how far the mean of a column is off, in standard deviations
    "spread": (1.25, 2.0),  # by which factor the standard deviation of a column is off
    "end": (0.5, 0.8),  # how much of the highest or lowest values of a column is lost or too much
    "far end": (
        0.8,
        np.inf,
    ),  # likewise of the very highest and lowest: they alone do not make a table differ a lot
    "correlation": (0.1, 0.3),  # how far the correlation that changed most is from that of real rows
    "lost": (0.05, 0.25),  # of what real rows teach a classifier
}
END, FAR_END = 0.05, 0.01  # which shares of the real rows these are
COPIED = 0.02  # share of rows by which copies of single real rows exceed what chance gives
NEARLY = 0.1  # and near copies

SEEN = "touches real data and is not private: for the steward's eyes only"


@dataclass(frozen=True, slots=True)
class Quality:
    """Distances between the real and the synthetic table. Everything in it is about real data.

    >>> ob.synth.quality(data, data).verdict.partition(":")[0]
    'The synthetic table behaves like the real one'
    """

    rows: int
    synthetic_rows: int
    columns: tuple[Compared, ...] = field(repr=False)
    one_way: tuple[float, ...]  # total variation of each column
    two_way: Floats = field(repr=False)  # of each pair
    # real, among numbers and columns of two labels; nan where it cannot be computed
    correlation: Floats = field(repr=False)
    synthetic_correlation: Floats = field(repr=False)
    correlated: tuple[str, ...]
    useful: Usefulness | None
    near: Nearness
    worst_pairs: tuple[Worst, ...] = ()
    worst_triples: tuple[Worst, ...] = ()
    worst_labels: tuple[Worst, ...] = ()  # columns of many labels
    only_real: tuple[str, ...] = ()  # columns that are not compared
    only_synthetic: tuple[str, ...] = ()
    where: Record = field(default_factory=dict)  # conditions of the draw, by the mark of the records
    unmarked: bool = False  # a model was given, and the records do not say that they came from it
    by_chance: tuple[float, ...] = ()  # how far columns of two tables of so many rows of one law are apart
    pairs_by_chance: Floats = field(default_factory=lambda: np.zeros((0, 0)), repr=False)  # and pairs
    spread: tuple[float, ...] = ()  # the standard deviation of the same
    pairs_spread: Floats = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    # standard errors of changes of correlations
    correlation_spread: Floats = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    worst_mean: Moved | None = None  # the column whose mean is farthest off, where one is
    worst_spread: Moved | None = None  # and the one whose standard deviation is
    worst_end: Ended | None = (
        None  # and the ones whose highest or lowest values are, of a twentieth and of a hundredth of the rows
    )
    worst_far_end: Ended | None = None
    # of the release that the model or the mark of the records names
    certificate: Certificate | None = field(default=None, repr=False)
    changed: bool = False  # they carry a mark that was written for other records

    @property
    def mean_one_way(self) -> float:
        return float(np.mean(self.one_way))

    @property
    def mean_two_way(self) -> float:
        above = self.two_way[np.triu_indices(len(self.columns), 1)]
        return float(above.mean()) if above.size else 0.0

    @property
    def chance(self) -> float:
        """How far pairs of columns are apart on average in two tables of so many rows, drawn from one law."""
        above = self.pairs_by_chance[np.triu_indices(len(self.columns), 1)]
        return float(above.mean()) if above.size else 0.0

    @property
    def _chance_counts(self) -> bool:
        return self.chance > LIMITS["pairs"][0]

    @property
    def correlation_error(self) -> float:
        above = np.triu_indices(len(self.correlated), 1)
        change = np.abs(self.correlation - self.synthetic_correlation)[above]
        change = change[~np.isnan(change)]
        return float(change.mean()) if change.size else 0.0

    @property
    def lost(self) -> float:
        """The share of what real rows teach a classifier, beyond a coin, that synthetic rows do not; 0 where that is too little to tell."""
        if self.useful is None:
            return 0.0
        chance, taught = most_errors(1) * self.useful.error, self.useful.real - 0.5
        if taught < max(0.05, chance):
            return 0.0
        return float(beyond_chance(max(0.0, self.useful.real - self.useful.synthetic), chance)) / taught

    @property
    def worst_correlation(self) -> Changed | None:
        """The pair whose correlation is farthest from that of the real rows, beyond chance."""
        change, beyond = np.abs(self.correlation - self.synthetic_correlation), self._changed
        pairs = [pair for pair in combinations(range(len(self.correlated)), 2) if not np.isnan(change[pair])]
        if not pairs:
            return None
        i, j = max(pairs, key=lambda pair: (beyond[pair], change[pair]))
        return Changed(
            (self.correlated[i], self.correlated[j]),
            float(self.correlation[i, j]),
            float(self.synthetic_correlation[i, j]),
        )

    @property
    def _changed(self) -> Floats:
        """Changes of correlations beyond chance; 0 where they cannot be computed."""
        change, count = np.abs(self.correlation - self.synthetic_correlation), len(self.correlated)
        weak = np.fmin(np.abs(self.correlation), np.abs(self.synthetic_correlation))
        # rows may be too few to show how much one of them may do
        least = (1 - weak**2) * (1 / max(self.rows, 1) + 1 / max(self.synthetic_rows, 1)) ** 0.5
        errors = most_errors(count * (count - 1) // 2) * np.fmax(self.correlation_spread, least)
        return beyond_chance(np.nan_to_num(change), np.nan_to_num(errors))

    @property
    def copied(self) -> bool:
        """Whether synthetic rows equal real rows that are alone of their kind, more often than chance would have it.

        A real row that is taken out meets one of these as often as `real_single` says, and a record of a good model does too; one of
        a poor model may do so several times as often, where it draws from few of the values. Rows that are frequent say nothing: a model draws them for that very reason.
        """
        near, rows = self.near, max(1, self.rows)
        chance = 2 * max(near.real_single, 1 / rows) / rows
        chance += near.single * (1 - near.single) / max(1, self.synthetic_rows)
        times = 2 if self.mean_two_way <= LIMITS["pairs"][1] else 5
        beyond = max(times * near.real_single, near.real_single + max(COPIED, 4 * chance**0.5))
        # where even copies of all rows would not go beyond, the rows of a poor model might
        return bool(near.single > beyond and 1 - near.real_copies > beyond)

    @property
    def nearly_copied(self) -> bool:
        """Whether synthetic rows lie very close to real rows far more often than real rows do: copies with small changes."""
        near = self.near
        if min(self.rows, self.synthetic_rows) < LEAST or not near.distances:
            return False
        made, real = len(near.distances), len(near.real_distances)
        chance = near.close * (1 - near.close) / made + max(near.real_close, 1 / real) / real
        beyond = max(5 * near.real_close, near.real_close + max(NEARLY, 4 * chance**0.5))
        # the records of a poor model may lie where real rows are dense
        poor = beyond_chance(self.mean_two_way, self.chance) > LIMITS["pairs"][1]
        return bool(near.close > (max(beyond, 0.5) if poor else beyond))

    @property
    def verdict(self) -> str:
        """One line. Its words are those of the worst figure, which it names: distances of columns, pairs, triples and labels, on average and at most,
        the mean, the standard deviation and the end of a column that are farthest off, the correlation that changed most, what a classifier loses; and before all of them, that real
        rows were copied. All count by what is beyond chance, which makes a perfect model of few rows differ, too."""
        changed, moved, wider = self.worst_correlation, self.worst_mean, self.worst_spread
        count = len(self.columns)
        apart, triu = count * (count - 1) // 2, np.triu_indices(count, 1)
        columns = beyond_chance(
            self.one_way, np.add(self.by_chance, most_errors(count) * np.array(self.spread))
        )
        pairs = _pairs_beyond(self.two_way, self.pairs_by_chance, self.pairs_spread)
        one, two = most_errors(1) * np.mean(self.spread), self.pairs_spread[triu]
        middle = beyond_chance(self.mean_one_way, np.mean(self.by_chance) + one / count**0.5)
        middles = beyond_chance(
            self.mean_two_way, self.chance + most_errors(1) * (two.mean() if apart else 0.0) / count**0.5
        )
        grades = {
            name: int(np.searchsorted(LIMITS[name], value))
            for name, value in (
                ("columns", float(middle)),
                ("worst column", float(columns.max())),
                ("pairs", float(middles)),
                ("worst pair", float(pairs.max())),
                ("worst triple", self.worst_triples[0].beyond if self.worst_triples else 0.0),
                ("worst labels", self.worst_labels[0].beyond if self.worst_labels else 0.0),
                ("mean", 0.0 if moved is None else moved.beyond),
                ("spread", 1.0 if wider is None else wider.beyond),
                ("end", 0.0 if self.worst_end is None else self.worst_end.beyond),
                ("far end", 0.0 if self.worst_far_end is None else self.worst_far_end.beyond),
                ("correlation", float(self._changed.max(initial=0))),
                ("lost", self.lost),
            )
        }
        grade = max(grades.values())
        few = min(self.rows, self.synthetic_rows) < KNOWN
        told = (
            "Rows are too few to tell how the synthetic table behaves"
            if few
            else "The synthetic table behaves like the real one",
            "The synthetic table keeps the main features of the real one",
            "The synthetic table differs a lot from the real one",
        )[grade]
        parts = [f"columns differ by {self.mean_one_way:.1%}"]
        if len(self.columns) > 1:
            by_chance = f" ({self.chance:.1%} by chance alone)" if self._chance_counts else ""
            parts.append(f"pairs by {self.mean_two_way:.1%}{by_chance}")
        if self.useful is not None:
            parts.append(
                f"a classifier trained on it reaches an AUC of {self.useful.synthetic:.3f} ({self.useful.real:.3f} on real data)"
            )
        figures = ", ".join(parts)
        if self.copied:
            told = "Rows of the real table seem to have been copied into the synthetic one"
            figures = f"{self.near.single:.1%} of its rows equal a single real row, {self.near.real_single:.1%} would by chance; {figures}"
        elif self.nearly_copied:
            told = "Rows of the real table seem to have been copied into the synthetic one with small changes"
            figures = f"{self.near.close:.1%} of its rows lie very close to a real row, {self.near.real_close:.1%} would by chance; {figures}"
        elif grade and moved is not None and grades["mean"] == grade:
            figures = f"the mean of the column {moved}; {figures}"
        elif grade and wider is not None and grades["spread"] == grade:
            figures = f"the standard deviation of the column {wider}; {figures}"
        elif grade and self.worst_end is not None and grades["end"] == grade:
            figures = f"the column {self.worst_end}; {figures}"
        elif grade and self.worst_far_end is not None and grades["far end"] == grade:
            figures = f"the column {self.worst_far_end}; {figures}"
        elif grade and changed is not None and grades["correlation"] == grade:
            figures = f"the correlation {changed}; {figures}"
        elif grade and grades["worst column"] == grade:
            place = int(np.argmax(columns))
            figures = f"the column {plain(self.columns[place].name)} differs by {self.one_way[place]:.1%}; {figures}"
        elif grade and grades["worst labels"] == grade:
            name, distance = plain(self.worst_labels[0].names[0]), self.worst_labels[0].distance
            figures = f"the labels of the column {name} differ by {distance:.1%}; {figures}"
        elif grade and grades["worst pair"] == grade:
            i, j = np.unravel_index(int(pairs.argmax()), pairs.shape)
            names = " × ".join(plain(self.columns[place].name) for place in sorted((i, j)))
            figures = f"the pair {names} differs by {self.two_way[i, j]:.1%}; {figures}"
        elif grade and grades["worst triple"] == grade:
            names = " × ".join(map(plain, self.worst_triples[0].names))
            figures = f"the triple {names} differs by {self.worst_triples[0].distance:.1%}; {figures}"
        return f"{told}: {figures}."

    @property
    def cautions(self) -> tuple[str, ...]:
        """What the figures do not say: columns that are not compared, records that were drawn under a condition."""
        found = []
        if self.where:
            found.append(
                f"Drawn under a condition, and compared with all real rows: {shown_conditions(self.where)}"
            )
        for names, table in ((self.only_real, "synthetic"), (self.only_synthetic, "real")):
            if names:
                found.append(
                    f"Not compared, because the {table} table lacks them: {listed([plain(name) for name in names])}"
                )
        if self._chance_counts:
            found.append(f"Chance alone makes pairs of columns differ by {self.chance:.1%} among so few rows")
        if self.changed:
            found.append(
                "These records are not those that their mark was written for: nothing says that they were drawn from the model"
            )
        elif self.unmarked:
            found.append("Nothing in these records says that they were drawn from the model")
        return tuple(found)

    def to_dict(self) -> dict[str, object]:
        changed = self.worst_correlation
        return {
            "private": True,
            "note": SEEN,
            "verdict": self.verdict,
            "rows": self.rows,
            "synthetic_rows": self.synthetic_rows,
            "cautions": list(self.cautions),
            "copied": self.copied,
            "nearly_copied": self.nearly_copied,
            "only_real": list(self.only_real),
            "only_synthetic": list(self.only_synthetic),
            "where": self.where,
            "one_way": {
                column.name: round(tv, 6) for column, tv in zip(self.columns, self.one_way, strict=True)
            },
            "mean_one_way": round(self.mean_one_way, 6),
            "mean_two_way": round(self.mean_two_way, 6),
            "two_way_by_chance": round(self.chance, 6),
            "worst_pairs": [
                [*worst.names, round(worst.distance, 6), round(worst.beyond, 6)] for worst in self.worst_pairs
            ],
            "worst_triples": [
                [*worst.names, round(worst.distance, 6), round(worst.beyond, 6)]
                for worst in self.worst_triples
            ],
            "worst_labels": [
                [*worst.names, round(worst.distance, 6), round(worst.beyond, 6)]
                for worst in self.worst_labels
            ],
            "correlation_error": round(self.correlation_error, 6),
            "worst_correlation": None if changed is None else changed.to_dict(),
            "worst_mean": None if self.worst_mean is None else self.worst_mean.to_dict(),
            "worst_spread": None if self.worst_spread is None else self.worst_spread.to_dict(),
            "worst_end": None if self.worst_end is None else self.worst_end.to_dict(),
            "worst_far_end": None if self.worst_far_end is None else self.worst_far_end.to_dict(),
            "useful": None if self.useful is None else self.useful.to_dict(),
            "near": self.near.to_dict(),
        }

    def __str__(self) -> str:
        """In the reader's language."""
        lines = [said(f"INTERNAL: {SEEN}"), "", said(self.verdict), ""]
        lines += [*(said(caution) for caution in self.cautions), ""] if self.cautions else []
        near, useful, changed = self.near, self.useful, self.worst_correlation
        one = about(self.mean_one_way), about(max(self.one_way))
        two = about(self.mean_two_way), about(float(self.two_way.max()))
        rows = [
            ["real rows", f"{self.rows:,}"],
            ["synthetic rows", f"{self.synthetic_rows:,}"],
            ["columns compared", listed([plain(column.name) for column in self.columns])],
            ["one-way distance", f"{one[0]} on average, {one[1]} at most"],
            ["two-way distance", f"{two[0]} on average, {two[1]} at most"],
            ["correlation error", f"{about(self.correlation_error)} on average"],
        ]
        if changed is not None:
            rows.append(["worst correlation", str(changed)])
        if self.worst_mean is not None:
            rows.append(["worst mean", str(self.worst_mean)])
        if self.worst_spread is not None:
            rows.append(["worst spread", str(self.worst_spread)])
        if self.worst_end is not None:
            rows.append([f"worst {END:.0%} at an end", str(self.worst_end)])
        if self.worst_far_end is not None:
            rows.append([f"worst {FAR_END:.0%} at an end", str(self.worst_far_end)])
        if useful is not None:
            told = f"{useful.synthetic:.3f} trained on synthetic, {useful.real:.3f} on real rows"
            rows.append([f"AUC for {useful.target}", told])
        copies = f"{near.copies:.2%} of synthetic rows; {near.real_copies:.2%} among real rows themselves"
        away = f"{about(near.median)} away (median); {about(near.real_median)} among real rows themselves"
        rows += [["copies of real rows", copies], ["nearest real row", away]]
        lines += aligned([[said(part) for part in row] for row in rows], "<")
        pairs = "the pairs of columns that came out worst: distance, and what of it is beyond chance"
        triples = "the triples that came out worst, in at most five bins a column, likewise"
        labels = f"columns of more than {MOST_LABELS} labels, each label by itself, likewise"
        for told, found in (
            (pairs, self.worst_pairs),
            (triples, self.worst_triples),
            (labels, self.worst_labels),
        ):
            if found:
                lines += ["", said(told), *aligned([worst.told for worst in found])]
        return "\n".join(lines)

    __repr__ = __str__


def quality(
    data: Data,
    synthetic: Any,
    *,
    target: str | None = None,
    model: Model | str | Path | None = None,
    seed: int = 0,
) -> Quality:
    """Measures how much `synthetic` resembles `data`. Touches real data, and says so: do not publish what it returns.

    Distances are total variation: the share of records that would have to change. Numbers are compared in 20 bins that hold equally many
    real rows. `target` is the column that a classifier learns to tell, by default the last column of two labels; it needs scikit-learn.
    Which columns are numbers, days and labels is what the domain says, where the mark of the records or `model` tells it; otherwise
    what the values look like: codes such as 01 are labels. Records that were drawn from another model than `model` are refused.

    >>> same = ob.synth.quality(data, data)
    >>> same.one_way
    (0.0, 0.0)
    """
    check_order(data, synthetic)
    loaded = None if model is None else model if isinstance(model, Model) else load(model)
    origin = origin_of(synthetic, loaded)
    read = read_both(data, synthetic, origin.domain)
    columns = read.columns
    two = np.zeros((3, len(columns), len(columns)))  # distances, what chance makes of them, and its spread
    for i, j in combinations(range(len(columns)), 2):
        two[:, i, j] = two[:, j, i] = pair_distance(columns[i], columns[j])
    pairs = two[0]
    ones = [distance_of(column.real_bins, column.synthetic_bins, column.size) for column in columns]
    used = [
        column
        for column in columns
        if (column.numeric or column.size <= 3) and unit_length(column.real).any()
    ]
    correlation, error = correlations([column.real for column in used])
    # a synthetic column that does not vary goes with no other: what there was is lost
    made, made_error = map(np.nan_to_num, correlations([column.synthetic for column in used]))
    rng = np.random.default_rng(whole("seed", seed, least=0))
    return Quality(
        columns[0].real.size,
        columns[0].synthetic.size,
        columns,
        tuple(distance for distance, _, _ in ones),
        pairs,
        correlation,
        np.where(np.isnan(correlation), np.nan, made),
        tuple(column.name for column in used),
        usefulness(columns, target, rng),
        nearness(columns, rng),
        worst_pairs(columns, pairs, _pairs_beyond(*two)),
        worst_triples(columns, pairs),
        worst_labels(columns),
        read.only_real,
        read.only_synthetic,
        origin.where,
        loaded is not None and not origin.marked,
        tuple(by_chance for _, by_chance, _ in ones),
        two[1],
        tuple(spread for _, _, spread in ones),
        two[2],
        np.hypot(error, made_error),
        worst_mean(columns),
        worst_spread(columns),
        worst_end(columns, END),
        worst_end(columns, FAR_END),
        origin.certificate,
        origin.changed,
    )
