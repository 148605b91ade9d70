"""Faults in large tables: the wavelet, planned trees, filtered and adaptive tables."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from mutants.planting import planted
from oboro.privacy import Unit

WAVELET = "tests/tables/test_wavelet.py"
PLAN = "tests/tables/test_table_plan.py"
TREE = "tests/tables/test_tree_release.py"
ADAPTIVE = "tests/tables/test_tree_adaptive.py"
SIZED = "tests/tables/test_tree_sized.py"
PRUNED = "tests/tables/test_tree_pruned.py"
SPARSE = "tests/tables/test_tree_filtered.py"
INPUT = "tests/tables/test_table_input.py"
RIVALS = "tests/tables/test_rivals_threshold.py"
SERIES = "tests/tables/test_series.py"
SUBTREES = "tests/tables/test_subtrees.py"


def every_node(cells: Any, layout: Any, noise: Any, bits: Any, trials: int, spoil: Any) -> Any:
    """The wavelet method over all nodes and trials at once; `spoil` changes the noise of each depth before it is added.

    Depth -1 is the root's own sum.
    """
    from oboro.tables.cells import Cells

    counts = np.zeros(1 << layout.bits, np.int64)
    counts[cells.keys] = cells.counts
    sums = [counts]
    while sums[0].size > 1:
        sums.insert(0, sums[0][0::2] + sums[0][1::2])
    drawn = spoil(-1, sums[0], noise.sample((trials, 1), bits))
    held = np.maximum(sums[0] + drawn, 0)
    for depth, below in enumerate(sums[1:]):
        drawn = spoil(depth, sums[depth], noise.sample((trials, below.size // 2), bits))
        coins = (bits.words(drawn.size) & np.uint64(1)).astype(np.int64).reshape(drawn.shape)
        both = held + np.clip(below[0::2] - below[1::2] + drawn, -held, held)
        first = (both >> 1) + (both & coins)
        held = np.stack([first, held - first], axis=2).reshape(trials, -1)
    trial, key = np.nonzero(held)
    return Cells(key.astype(np.int64), held[trial, key]), np.searchsorted(trial, np.arange(trials))


@planted(
    "oboro.tables.wavelet:measure",
    caught_by=f"{WAVELET}::test_the_error_before_clamping_is_the_forecast_and_shows_a_wrong_scale",
)
def terada_as_printed(
    original: Any, cells: Any, layout: Any, noise: Any, bits: Any, *, total: Any = None, trials: int = 1
) -> Any:
    """Eqs. 38 and 39 of Terada's paper as printed: half the noise below the first difference, a cost of up to 1.89 eps."""
    return every_node(
        cells, layout, noise, bits, trials, lambda depth, sums, drawn: drawn // 2 if depth > 0 else drawn
    )


@planted(
    "oboro.tables.wavelet:measure",
    caught_by=f"{WAVELET}::test_the_error_before_clamping_is_the_forecast_and_shows_a_wrong_scale",
)
def level_of_the_tree_without_noise(
    original: Any, cells: Any, layout: Any, noise: Any, bits: Any, *, total: Any = None, trials: int = 1
) -> Any:
    """The last differences of the wavelet, between single cells, are left without noise."""
    return every_node(
        cells,
        layout,
        noise,
        bits,
        trials,
        lambda depth, sums, drawn: 0 * drawn if depth == layout.bits - 1 else drawn,
    )


@planted(
    "oboro.tables.wavelet:measure",
    caught_by=f"{PLAN}::test_the_audit_finds_nothing[one unit in one cell, added or removed]",
)
def zero_child_without_noise(
    original: Any, cells: Any, layout: Any, noise: Any, bits: Any, *, total: Any = None, trials: int = 1
) -> Any:
    """A node that holds nobody in truth takes no noise, so that what it is given stays in its first half."""
    return every_node(
        cells,
        layout,
        noise,
        bits,
        trials,
        lambda depth, sums, drawn: np.where(sums > 0, drawn, 10**6) if depth >= 0 else drawn,
    )


@planted(
    "oboro.tables.wavelet:sensitivity",
    caught_by=f"{WAVELET}::test_the_sensitivity_of_cells_is_never_exceeded_and_is_reached[2-2]",
)
def wavelet_sensitivity_halved(original: Any, unit: Any, depth: int, distinct: bool = True) -> int:
    """Half of what one unit moves in the wavelet."""
    return -(-original(unit, depth, distinct) // 2)


@planted(
    "oboro.tables.wavelet:sensitivity",
    caught_by=f"{WAVELET}::test_the_sensitivity_of_rows_is_never_exceeded_and_is_reached[2-2]",
)
def joined_values_taken_as_distinct(original: Any, unit: Any, depth: int, distinct: bool = True) -> int:
    """Rows of a person are taken to fall in different cells, though a bound may join them in one."""
    return original(Unit.cells(unit.contributions, 1, unit.adjacency), depth, True)


@planted(
    "oboro.tables.strategy:counts_move",
    caught_by=f"{TREE}::test_the_sensitivity_of_all_levels_together_is_that_of_the_promise",
)
def weight_of_a_unit_forgotten(original: Any, unit: Any) -> int:
    """A unit that may add three to a cell is taken to add one."""
    return unit.contributions * (2 if unit.adjacency == "replace" else 1)


class OneDraw:
    """Noise of which every number is the same."""

    def __init__(self, noise: Any) -> None:
        self.noise = noise

    def sample(self, size: int, bits: Any) -> Any:
        return np.full(size, self.noise.sample(1, bits)[0])


@planted(
    "oboro.tables.tree.measure:_over",
    caught_by="tests/tables/test_table_power.py::test_every_node_of_a_tree_takes_noise_of_its_own",
)
def one_draw_for_all_cells_of_a_level(original: Any, *facts: Any) -> Any:
    """All cells of a level share one draw of noise, which differences between cells take off again."""
    *before, noises, bits = facts
    return original(*before, [OneDraw(noise) for noise in noises], bits)


@planted(
    "oboro.tables.tree.workload:Design.laplace",
    caught_by=f"{TREE}::test_the_sensitivity_of_all_levels_together_is_that_of_the_promise",
)
def every_level_at_the_whole_budget(original: Any, self: Any, eps: Any, unit: Any) -> Any:
    """Each level of a tree has the noise of the whole eps, as if the levels did not add up."""
    return [
        type(noise)(noise.scale * share)
        for noise, share in zip(original(self, eps, unit), self.shares, strict=True)
    ]


@planted(
    "oboro.tables.tree.workload:Design.gaussian",
    caught_by=f"{TREE}::test_with_delta_the_noise_is_gaussian_and_the_promise_kept",
)
def gaussian_table_without_its_square(original: Any, self: Any, rho: Any, unit: Any) -> Any:
    """Gaussian noise of a table has variance D/(2 rho) where D^2/(2 rho) is needed."""
    return [
        type(noise)(noise.sigma2 / counts)
        for noise, counts in zip(original(self, rho, unit), self.shares, strict=True)
    ]


@planted(
    "oboro.tables.tree.adaptive:Adaptive.noise_of",
    caught_by=f"{ADAPTIVE}::test_shares_add_up_to_one_whichever_way_is_taken",
)
def parts_of_blocks_not_paid_for(original: Any, self: Any, share: Any) -> Any:
    """A table that looks spends all of eps on its parts, on top of what it paid for choosing them."""
    return original(self, Fraction(1) if share >= Fraction(1, 2) else share)


@planted(
    "oboro.tables.tree.adaptive:Adaptive._measured",
    caught_by=f"{ADAPTIVE}::test_one_person_hardly_changes_how_a_table_is_divided",
)
def division_chosen_from_true_counts(original: Any, self: Any, cells: Any, bits: Any) -> Any:
    """How finely a block is divided follows from how many people are in it, not from how many were found."""
    from dataclasses import fields

    from oboro.tables.tree import adaptive

    class Peeking(adaptive.Adaptive):
        def _steps(self, nodes: Any, counted: Any, noise: Any) -> Any:
            return adaptive.steps_of(nodes.sums(cells).astype(float), nodes.heights, noise)

    return original(Peeking(**{one.name: getattr(self, one.name) for one in fields(self)}), cells, bits)


@planted(
    "oboro.tables.tree.pruned:Pruned._measured",
    caught_by=f"{PRUNED}::test_one_person_hardly_changes_how_a_table_is_divided[places]",
)
def tree_divided_by_true_counts(original: Any, self: Any, cells: Any, bits: Any) -> Any:
    """Where a tree that looks is divided follows from where people are, not from where they were found."""
    from dataclasses import fields

    from oboro.tables.tree import adaptive, pruned

    class Peeking(pruned.Pruned):
        def _steps(self, nodes: Any, counted: Any, noise: Any, height: int = 0) -> Any:
            people = nodes.sums(cells).astype(float)
            return adaptive.steps_of(people, nodes.heights - height, noise, self._step)

    return original(Peeking(**{one.name: getattr(self, one.name) for one in fields(self)}), cells, bits)


@planted(
    "oboro.tables.tree.sized:Sized.measure",
    caught_by=f"{SIZED}::test_the_number_has_the_noise_that_the_parts_say_and_decides_the_way",
)
def way_chosen_by_the_true_number(original: Any, self: Any, cells: Any, bits: Any, trials: int = 1) -> Any:
    """How people are counted follows from how many there are, not from the noisy answer."""
    from dataclasses import fields

    from oboro.tables.tree import sized

    class Peeking(sized.Sized):
        def of(self, people: int) -> Any:
            return super().of(int(cells.counts.sum()))

    return original(
        Peeking(**{one.name: getattr(self, one.name) for one in fields(self)}), cells, bits, trials
    )


@planted(
    "oboro.tables.tree.division:count",
    caught_by=f"{ADAPTIVE}::test_noise_is_on_every_node_and_has_the_scale_that_the_parts_say",
)
def parts_that_hold_nobody_get_no_noise(
    original: Any, nodes: Any, cells: Any, layout: Any, noise: Any, bits: Any
) -> Any:
    """Noise is added only where somebody is, so that a part without any shows that it is empty."""
    found = original(nodes, cells, layout, noise, bits)
    return type(found)(nodes, np.where(nodes.sums(cells) > 0, found.noisy, 0), noise)


@planted(
    "oboro.tables.papers.threshold:empty_reaching",
    caught_by=f"{RIVALS}::test_dense_and_sparse_agree_on_how_many_pass",
)
def empty_cells_never_published(
    original: Any, keys: Any, size: int, law: Any, threshold: int, bits: Any
) -> Any:
    """Only stored cells can pass the threshold, so that a published cell shows that somebody is there."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


@planted(
    "oboro.tables.tree.filtered:empty_reaching",
    caught_by="tests/tables/test_table_power.py::test_empty_cells_are_published_as_often_as_the_filter_says",
)
def filter_sees_stored_cells_alone(
    original: Any, keys: Any, size: int, law: Any, floor: int, bits: Any
) -> Any:
    """The false-discovery cut of a sparse table is computed from stored cells, which depends on where people are."""
    return np.empty(0, np.int64), np.empty(0, np.int64)


@planted("oboro.tables.tree.filtered:noises", caught_by=f"{SPARSE}::test_shares_add_up_to_one")
def shares_beyond_one_in_a_sparse_table(original: Any, layout: Any, eps: Any, unit: Any) -> Any:
    """Each division of live blocks gets the larger share that is meant for the cells, and the cells keep it."""
    blocks, parts, cells = original(layout, eps, unit)
    return blocks, [cells for _ in parts], cells


@planted("oboro.engine.codes:count_sql", caught_by=f"{INPUT}::test_counts_follow_the_rule[-3-0]")
def counts_used_as_they_come(original: Any, name: str, type_name: str, most: int) -> str:
    """A count goes into the sums without the rule for negative ones."""
    from oboro.engine.codes import base_type, double_sql, quoted

    return f"coalesce(TRY_CAST(abs({double_sql(quoted(name), base_type(type_name))}) AS BIGINT), 0)"


@planted(
    "oboro.tables.series.plan:SeriesPlan.moves_squared",
    caught_by=f"{SERIES}::test_what_a_unit_moves_is_the_worst_of_all_ways_to_spend_its_ticks[add/remove]",
)
def ticks_of_a_block_taken_as_apart(original: Any, self: Any, level: int) -> int:
    """A block of time is charged as if each tick of a person fell into a block of its own."""
    return self.max_ticks


@planted(
    "oboro.tables.series.visits:count_ticks",
    caught_by=f"{SERIES}::test_a_person_who_is_in_many_cells_moves_every_level_by_no_more_than_max_ticks",
)
def every_tick_of_a_person_counts(original: Any, source: Any, fields: Any, unit: Any, *, most: int) -> Any:
    """A person counts in all ticks, whatever max_ticks says."""
    return original(source, fields, unit, most=fields[0].size)


@planted(
    "oboro.tables.series.visits:count_ticks",
    caught_by=f"{SERIES}::test_a_person_who_is_in_many_cells_moves_every_level_by_no_more_than_max_ticks",
)
def all_cells_of_a_tick_count(original: Any, source: Any, fields: Any, unit: Any, *, most: int) -> Any:
    """A person counts in every cell of a tick."""
    from oboro.engine import count_cells

    return count_cells(source, fields, Unit.row())


@planted(
    "oboro.ledger.account:Ledger.begin",
    caught_by=f"{SERIES}::test_a_tick_is_written_down_before_its_noise_is_drawn",
)
def tick_not_written_down(original: Any, self: Any, series: Any, tick: int, **_: Any) -> Any:
    """A tick is drawn without a word in the ledger."""
    return series


@planted(
    "oboro.tables.series.plan:SeriesPlan.in_order",
    caught_by="tests/ledger/test_ledger_series.py::test_rows_that_come_late_never_let_a_person_count_more_often[sqlite]",
)
def ticks_in_any_order(original: Any, self: Any) -> bool:
    """Ticks are published in any order, though a person counts in a few of them."""
    return False


@planted(
    "oboro.ledger.replay:ticks_of",
    caught_by="tests/ledger/test_ledger_series.py::test_a_run_of_the_whole_that_died_is_not_taken_up_as_a_series[sqlite]",
)
def every_plan_over_ticks_is_a_series(original: Any, entry: Any) -> Any:
    """Ticks are drawn under the reservation of a run of the whole."""
    return entry.body["plan"].get("ticks") if entry.kind == "reserve" else None


@planted(
    "oboro.ledger.replay:Replay._ticked",
    caught_by=f"{SERIES}::test_verifying_finds_a_tick_that_was_begun_twice_or_of_no_series",
)
def tick_begun_twice_verifies(original: Any, self: Any, entry: Any) -> None:
    """A chain in which one tick was begun twice is valid."""
    self.ticks[entry.position] = entry.hash


@planted(
    "oboro.tables.series.plan:SeriesPlan.drawn",
    caught_by=f"{SERIES}::test_the_audit_computes_what_is_promised_and_no_more",
)
def last_tick_without_noise(
    original: Any, self: Any, pieces: Any, counts: Any, bits: Any, trials: Any = None
) -> Any:
    """What is counted with the last tick goes out as it is."""
    drawn = original(self, pieces, counts, bits, trials)
    return [
        own + 0 * noisy if piece.span[-1] == self.ticks - 1 else noisy
        for piece, own, noisy in zip(pieces, counts, drawn, strict=True)
    ]


@planted(
    "oboro.noise.streams:Streams.key",
    caught_by=f"{SUBTREES}::test_no_two_passes_or_sub_trees_have_the_same_key",
)
def one_label_for_all_sub_trees(original: Any, self: Any, prefix_bits: int, prefix: int, epoch: int) -> bytes:
    """Keys of streams are derived from the master key and a constant label: all sub-trees have the same noise."""
    found: bytes = original(self, prefix_bits, 0, 0)
    return found


@planted(
    "oboro.tables.subtrees.tasks:SubtreeBits",
    caught_by=f"{SUBTREES}::test_the_same_bits_give_the_same_table_however_it_is_cut[wavelet-64]",
)
def system_bits_on_workers(original: Any, key: bytes) -> Any:
    """Workers ask their own system for bits: a task that is done twice shows its counts with two noises."""
    from oboro.noise.bits import Bits

    return Bits()


@planted(
    "oboro.tables.subtrees.store:_verified",
    caught_by=f"{SUBTREES}::test_cells_that_changed_since_they_were_written_down_are_not_measured",
)
def cells_are_read_without_their_hash(original: Any, file: Any) -> Any:
    """A task that is repeated reads whatever is there now: with other cells under the same keys, the difference has no noise."""
    from oboro.tables.subtrees import store

    return store.read(file.path)


@planted(
    "oboro.tables.subtrees.spread:Opened.prepare",
    caught_by=f"{SUBTREES}::test_no_bit_is_drawn_before_all_cells_are_written_down",
)
def cells_are_written_down_after_the_first_bit(original: Any, self: Any, plan: Any) -> Any:
    """The cells of a sub-tree are read from the data when it is measured, after its key was drawn."""
    from oboro.noise import system_bits

    system_bits().words(4)
    return original(self, plan)
