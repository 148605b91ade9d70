"""The words about quality follow the figures, and what came out worst is named."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.errors import DataError
from oboro.report.quality import write_quality
from oboro.synth.codes import _number, read_both
from oboro.synth.distances import distance_of, worst_end, worst_mean, worst_spread
from oboro.synth.quality import Quality
from oboro.synth.usefulness import Usefulness

LIKE, FAIR, FAR = "behaves like the real one", "keeps the main features", "differs a lot"


def measured() -> Quality:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 4, 4000)  # so that chance makes little of it
    real = {f"c{i}": (base + rng.integers(0, 2, 4000)) % 4 for i in range(5)}
    found = ob.synth.quality(pa.table(real), pa.table(real))
    return replace(found, near=replace(found.near, single=0.0))


@pytest.mark.parametrize(
    ("synthetic", "real", "words"),
    [
        (0.834, 0.928, FAIR),  # pairs are close, and a fifth of what there is to learn is lost
        (0.925, 0.928, LIKE),
        (0.7, 0.928, FAR),
        (0.5, 0.928, FAR),
        (0.5, 0.53, LIKE),  # nothing to learn: the distances alone decide
        (0.95, 0.928, LIKE),
    ],
)
def test_a_table_that_teaches_less_is_not_said_to_behave_like_the_real_one(
    synthetic: float, real: float, words: str
) -> None:
    assert words in replace(measured(), useful=Usefulness("c0", "1", synthetic, real)).verdict


@pytest.mark.parametrize(("worst", "words"), [(0.1, LIKE), (0.2, FAIR), (0.5, FAR)])
def test_one_pair_that_is_far_off_is_not_hidden_by_the_average(worst: float, words: str) -> None:
    pairs = np.zeros((5, 5))
    pairs[1, 3] = pairs[3, 1] = worst
    assert words in replace(measured(), two_way=pairs).verdict


@pytest.mark.parametrize(
    ("real", "made", "words"), [(0.75, 0.7, LIKE), (0.4, 0.2, FAIR), (0.746, 0.104, FAR), (0.3, -0.1, FAR)]
)
def test_a_correlation_that_is_lost_decides_and_is_named(real: float, made: float, words: str) -> None:
    found = measured()
    one, two = np.eye(5), np.eye(5)
    one[1, 3] = one[3, 1] = real
    two[1, 3] = two[3, 1] = made
    told = replace(found, correlation=one, synthetic_correlation=two).verdict
    assert words in told
    named = f"the correlation c1 × c3 is {made:.3f}, and {real:.3f} among real rows;" in told
    assert named == (words != LIKE)


def test_the_worst_pair_is_named_where_it_decides() -> None:
    pairs = np.zeros((5, 5))
    pairs[1, 3] = pairs[3, 1] = 0.5
    assert "the pair c1 × c3 differs by 50.0%;" in replace(measured(), two_way=pairs).verdict


@pytest.mark.parametrize(
    ("distances", "words"),
    [
        ((0.1, 0.0, 0.0, 0.0, 0.0), LIKE),
        ((0.0, 0.2, 0.0, 0.0, 0.0), FAIR),  # at most
        ((0.1, 0.1, 0.1, 0.1, 0.1), FAIR),  # on average
        ((0.0, 0.5, 0.0, 0.0, 0.0), FAR),
        ((0.2, 0.2, 0.2, 0.2, 0.2), FAR),
    ],
)
def test_columns_by_themselves_decide_too(distances: tuple[float, ...], words: str) -> None:
    told = replace(measured(), one_way=distances).verdict
    assert words in told
    assert ("the column c1 differs by 50.0%;" in told) == (max(distances) == 0.5)


def test_one_column_that_two_tables_share_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = pa.table({"a": ["x"] * 50}), pa.table({"a": ["y"] * 50})
    found = ob.synth.quality(real, made)
    assert found.verdict == (
        "The synthetic table differs a lot from the real one: the column a differs by 100.0%; columns differ by 100.0%."
    )
    assert LIKE in ob.synth.quality(real, real).verdict
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert "合成した表は実際の表と大きく異なります：列 a の違い 100.0%、列の違い 100.0%。" in str(found)


def test_a_table_without_rows_is_not_compared() -> None:
    some = pa.table({"a": ["x", "y"]})
    for real, made, which in ((some.slice(0, 0), some, "real"), (some, some.slice(0, 0), "synthetic")):
        with pytest.raises(DataError, match=f"the {which} table has no rows"):
            ob.synth.quality(real, made)


def test_columns_whose_rows_no_longer_belong_together_are_far_from_the_real_ones() -> None:
    rng = np.random.default_rng(4)
    one = rng.normal(size=3000)
    two = one + rng.normal(size=3000)
    real, made = (
        pa.table({"one": one, "two": two}),
        pa.table({"one": one, "two": 0.15 * two + rng.permutation(two)}),
    )
    told = ob.synth.quality(real, made).verdict
    assert FAR in told
    assert "the correlation one × two is " in told


def test_rows_that_were_copied_are_said_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)

    def table() -> pa.Table:
        return pa.table({name: rng.integers(0, 50, 2000) for name in "abcd"})

    real, other = table(), table()
    copied = ob.synth.quality(real, real)
    assert copied.near.copies == 1  # none is left out
    assert copied.verdict.startswith("Rows of the real table seem to have been copied")
    assert copied.to_dict()["copied"] is True
    fair = ob.synth.quality(real, other)
    assert not fair.copied
    half = ob.synth.quality(real, pa.concat_tables([real.slice(0, 200), other]))
    assert half.near.copies == pytest.approx(0.09, abs=0.01)
    assert half.copied
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert (
        f"写されているようです：実データに一つしかない行と等しい行 {copied.near.single:.1%}（偶然なら"
        in str(copied)
    )


def test_rows_that_repeat_by_themselves_are_no_copies() -> None:
    rng = np.random.default_rng(6)
    real, made = (pa.table({name: rng.integers(0, 5, 3000) for name in "abc"}) for _ in range(2))
    found = ob.synth.quality(real, made)
    assert found.near.copies > 0.99
    assert not found.copied


@pytest.mark.parametrize("columns", [3, 6])
def test_a_poor_table_is_not_said_to_be_copied(columns: int) -> None:
    """Records that are spread evenly over what is possible meet many real rows that are alone of their kind."""
    rng = np.random.default_rng(7)
    names = [f"c{i}" for i in range(columns)]
    real = pa.table({name: np.minimum(rng.geometric(0.4, 1000) - 1, 7) for name in names})
    flat = pa.table({name: rng.integers(0, 8, 1000) for name in names})
    narrow = pa.table({name: np.minimum(rng.geometric(0.7, 1000) - 1, 7) for name in names})
    assert not ob.synth.quality(real, flat).copied
    assert not ob.synth.quality(real, narrow).copied


def test_what_came_out_worst_is_named() -> None:
    """Each two of a, b and c are independent in both tables, and all three together are not: c is a + b in one of them."""
    rng = np.random.default_rng(1)
    n = 4000
    table = {name: rng.integers(0, 2, n) for name in "abdefg"}
    real = pa.table(
        {**{k: v.astype(str) for k, v in table.items()}, "c": (table["a"] ^ table["b"]).astype(str)}
    )
    made = real.set_column(6, "c", pa.array(rng.integers(0, 2, n).astype(str)))
    made = made.set_column(3, "e", made["d"])  # and e is d
    found = ob.synth.quality(real, made)
    assert set(found.worst_pairs[0].names) == {"d", "e"}
    assert found.worst_pairs[0].distance == pytest.approx(0.5, abs=0.05)
    apart = ob.synth.quality(real.drop_columns(["e"]), made.drop_columns(["e"]))
    assert set(apart.worst_triples[0].names) == {"a", "b", "c"}
    assert apart.worst_triples[0].distance == pytest.approx(0.5, abs=0.05)
    assert "a × b × c" in str(apart)
    assert apart.to_dict()["worst_triples"][0][:3] == ["a", "b", "c"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("other", "words"), [(0, "behaves like"), (500, "differs a lot"), (80, "keeps the main")]
)
def test_labels_that_share_a_bin_are_compared_one_by_one(other: int, words: str, tmp_path: Path) -> None:
    """500 towns of 40 rows each: 49 of them have bins, and all others share one, in which any town may stand for any other."""
    rng = np.random.default_rng(3)
    towns = rng.integers(0, 500, 20_000)
    moved = rng.integers(0, 500, 20_000)
    moved = np.where(moved >= 500 - other, moved + other, moved)
    real, made = (
        pa.table({"town": [f"town {i}" for i in one], "sex": rng.choice(["f", "m"], 20_000)})
        for one in (towns, moved)
    )
    found = ob.synth.quality(real, made)
    assert found.mean_one_way < 0.06  # bins show little of it
    assert words in found.verdict
    worst = found.worst_labels[0]
    assert worst.names == ("town",)
    assert worst.beyond == pytest.approx(other / 500, abs=0.06)
    assert (f"the labels of the column town differ by {worst.distance:.1%};" in found.verdict) == (other > 0)
    assert "columns of more than 50 labels" in str(found)
    assert found.to_dict()["worst_labels"] == [["town", round(worst.distance, 6), round(worst.beyond, 6)]]
    write_quality(found, tmp_path / "q.html")
    assert "columns of many labels, each by itself" in (tmp_path / "q.html").read_text()
    assert not ob.synth.quality(real.select(["sex"]), made.select(["sex"])).worst_labels


def test_what_came_out_worst_is_in_the_order_of_a_figure_that_is_shown(tmp_path: Path) -> None:
    """A pair of many labels is farther apart by chance alone than one of few that lost what they had in common."""
    rng = np.random.default_rng(2)
    n = 2000
    one = rng.integers(0, 2, n)
    real, made = (
        pa.table(
            {
                "one": one.astype(str),
                "two": np.where(rng.random(n) < same, one, 1 - one).astype(str),
                "three": rng.integers(0, 40, n).astype(str),
                "four": rng.integers(0, 40, n).astype(str),
            }
        )
        for same in (0.65, 0.5)
    )
    found = ob.synth.quality(real, made)
    first, second = found.worst_pairs[:2]
    assert set(first.names) == {"one", "two"}
    assert first.distance < second.distance
    for worst in (found.worst_pairs, found.worst_triples):
        assert [one.beyond for one in worst] == sorted((one.beyond for one in worst), reverse=True)
    assert f"one × two      {first.told[1]}  {first.told[2]}\n" in str(found)
    assert "distance, and what of it is beyond chance" in str(found)
    write_quality(found, tmp_path / "q.html")
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    assert f"<td>one × two</td><td>{first.distance:.3f}</td><td>{first.beyond:.3f}</td>" in page
    assert 'data-en="beyond chance"' in page


def drawn(rows: int, columns: int, seed: int) -> dict[str, Any]:
    """Columns that go together: normal, lognormal of sigma 2, whole numbers, two labels, five labels."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=rows)
    table = {}
    for i in range(columns):
        some = 0.6 * base + 0.8 * rng.normal(size=rows)
        shapes = (
            some,
            np.exp(2 * some),
            np.round(10 * np.exp(some)),
            np.where(some > 0, "y", "n"),
            np.digitize(some, [-1, -0.3, 0.4, 1.2]).astype(str),
        )
        table[f"c{i}"] = shapes[i % 5]
    return table


@pytest.mark.parametrize(
    ("rows", "columns", "times"),
    [
        (200, 2, 6),
        (4000, 2, 3),
        pytest.param(200, 11, 6, marks=pytest.mark.long("statistical tests")),
        pytest.param(200, 40, 2, marks=pytest.mark.long("statistical tests")),
        pytest.param(4000, 11, 3, marks=pytest.mark.long("statistical tests")),
        pytest.param(3000, 40, 1, marks=pytest.mark.long("statistical tests")),
    ],
)
def test_a_perfect_model_behaves_like_the_real_one(rows: int, columns: int, times: int) -> None:
    """However few rows, however many columns, and however heavy their tails: one half against the other."""
    for seed in range(times):
        table = drawn(rows, columns, seed)
        real, made = ({name: part[half::2] for name, part in table.items()} for half in (0, 1))
        told = ob.synth.quality(real, made).verdict
        assert LIKE in told, told


def test_a_triple_that_is_lost_decides_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b, other = rng.integers(0, 3, (3, 4000))
    real, made = ({"a": a.astype(str), "b": b.astype(str), "c": c.astype(str)} for c in ((a + b) % 3, other))
    found = ob.synth.quality(real, made)
    assert FAR in found.verdict
    assert f"the triple a × b × c differs by {found.worst_triples[0].distance:.1%};" in found.verdict
    some = {**made, "c": np.where(rng.random(4000) < 0.5, real["c"], made["c"])}
    assert FAIR in ob.synth.quality(real, some).verdict
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert "合成した表は実際の表と大きく異なります：a × b × c の違い 6" in str(found)


@pytest.mark.parametrize(
    ("share", "words"), [(0.955, FAR), (0.97, FAIR), (0.985, FAIR), (0.99, FAIR), (1.0, LIKE)]
)
def test_a_tail_that_is_cut_off_decides_and_is_named(
    share: float, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where values are so huge that the error of a mean is, too, and the last bin does not show how far it reaches."""
    rng = np.random.default_rng(5)
    income, made = rng.pareto(1.1, (2, 40_000)) * 10
    made = np.minimum(made, np.quantile(income, share))
    for sign, which in ((1, "above"), (-1, "below")):
        found = ob.synth.quality({"income": sign * income}, {"income": sign * made})
        assert found.worst_mean is None
        assert words in found.verdict
        if words == LIKE:
            assert found.worst_end is found.worst_far_end is None
            continue
        ended = found.worst_end if found.worst_end and share < 0.98 else found.worst_far_end
        assert ended is not None
        assert (ended.synthetic, ended.highest) == (0.0, sign > 0)
        assert ended.real == pytest.approx(
            min(1 - share, 0.05 if ended is found.worst_end else 0.01), abs=0.002
        )
        assert f"the column {ended};" in found.verdict
        assert f"income has 0.00% {which} " in found.verdict
        assert (
            found.to_dict()["worst_end" if ended is found.worst_end else "worst_far_end"] == ended.to_dict()
        )
        write_quality(found, tmp_path / "q.html")
        assert f'data-en="rows {which} {ended.value}"' in (tmp_path / "q.html").read_text(encoding="utf-8")
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert share == 1 or "に満たない値 0.00%（実データでは " in str(found)


def test_an_end_that_is_too_long_is_named_as_well() -> None:
    rng = np.random.default_rng(6)
    real = rng.normal(size=20_000)
    made = np.where(rng.random(20_000) < 0.03, 2.5, rng.normal(size=20_000))
    ended = worst_end(read_both({"a": real}, {"a": made}, None).columns, 0.01)
    assert ended is not None
    assert ended.synthetic > 0.03 > 3 * ended.real


@pytest.mark.long("statistical tests")
def test_ends_of_two_halves_of_one_table_differ_by_chance_alone() -> None:
    """Twelve columns of three shapes, fifty times: one alarm in a hundred is allowed, of 100 more than 9 have a chance below 1e-6."""
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        tables = [
            {
                **{f"n{i}": rng.normal(size=rows) for i in range(4)},
                **{f"p{i}": rng.pareto(1, rows) for i in range(4)},
                **{f"w{i}": rng.poisson(3, rows) for i in range(4)},
            }
            for rows in (900, 4000)
        ]
        columns = read_both(tables[0], tables[1], None).columns
        alarms += sum(worst_end(columns, share) is not None for share in (0.05, 0.01))
    assert alarms <= 9


@pytest.mark.parametrize("known", [0.01, 0.03])
def test_of_few_known_values_nothing_is_judged(known: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        real, made = (
            pa.table(
                {
                    name: pa.array([rng.random() if rng.random() < known else None for _ in range(200)])
                    for name in "xy"
                }
            )
            for _ in range(2)
        )
        found = ob.synth.quality(real, made)
        assert LIKE in found.verdict, found.verdict
        assert found.worst_mean is found.worst_spread is found.worst_end is None


@pytest.mark.parametrize("rows", [1, 3, 29])
def test_of_few_rows_nothing_is_claimed(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(rows)
    real, made = ({name: rng.normal(size=rows) for name in "xyz"} for _ in range(2))
    found = ob.synth.quality(real, made)
    assert found.verdict.startswith(
        "Rows are too few to tell how the synthetic table behaves: columns differ by "
    )
    assert f"({found.chance:.1%} by chance alone)" in found.verdict
    other = ob.synth.quality({"a": ["x"] * 29}, {"a": ["y"] * 29})
    assert FAR in other.verdict  # what is plain in few rows is said
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert "行が少なすぎて" in str(found)
    assert f"（偶然だけで {found.chance:.1%}）" in str(found)


def test_near_copies_are_said_before_anything_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(50, 10, (5, 3000)).round(3)
    real = {f"c{i}": values[i] for i in range(5)}
    near = {name: column + rng.normal(0, 1e-3, 3000) for name, column in real.items()}
    found = ob.synth.quality(real, near)
    assert found.verdict.startswith(
        "Rows of the real table seem to have been copied into the synthetic one with small changes: "
    )
    assert found.nearly_copied
    assert found.to_dict()["nearly_copied"] is True
    other = {name: rng.normal(50, 10, 3000).round(3) for name in real}
    assert not ob.synth.quality(real, other).nearly_copied
    third = {name: np.concatenate([near[name][:1000], other[name][1000:]]) for name in real}
    assert ob.synth.quality(real, third).nearly_copied  # of some rows alone, too
    few = {name: column[:90] for name, column in real.items()}
    assert not ob.synth.quality(few, {name: column[:90] for name, column in near.items()}).nearly_copied
    write_quality(found, tmp_path / "q.html")
    assert "with small changes" in (tmp_path / "q.html").read_text(encoding="utf-8")
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert "わずかに変えて写されているようです：実データの行にごく近い行 " in str(found)


def test_rows_that_are_dense_by_themselves_are_no_near_copies() -> None:
    rng = np.random.default_rng(2)

    def visits(none: float) -> dict[str, Any]:
        return {"visits": np.where(rng.random(3000) < none, 0, rng.lognormal(3, 2, 3000))}

    for real, made in ((0.499, 0.501), (0.45, 0.6), (0.1, 0.4)):
        assert not ob.synth.quality(visits(real), visits(made)).nearly_copied
    centre = {name: rng.normal(0, 0.2, 1000) for name in "ab"}  # a poor model that knows the middle alone
    assert not ob.synth.quality({name: rng.normal(size=1000) for name in "ab"}, centre).nearly_copied


def test_a_value_that_fills_its_bins_hides_nothing_beside_it() -> None:
    rng = np.random.default_rng(3)
    real = {"score": [100] * 2000}
    for low, high in ((0, 100), (101, 200)):
        made = np.where(rng.random(2000) < 0.11, 100, rng.integers(low, high, 2000))
        found = ob.synth.quality(real, {"score": made})
        assert found.one_way[0] == pytest.approx(np.mean(made != 100))
        assert FAR in found.verdict
    spiked = np.where(rng.random(2000) < 0.3, 50, rng.normal(50, 20, 2000))
    assert ob.synth.quality({"x": spiked}, {"x": spiked + 0.001 * (spiked == 50)}).one_way[0] > 0.25


@pytest.mark.parametrize(("most", "words"), [(1e9, FAR), (1e300, FAR), (None, FAR)])
def test_a_tail_that_is_replaced_decides_and_is_named(
    most: float | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By numbers beyond all real ones, and by the largest of these, which no bin shows."""
    rng = np.random.default_rng(4)
    income, made = rng.lognormal(10, 1, (2, 4000)).round()
    made[made > np.quantile(made, 0.95)] = most or income.max()
    found = ob.synth.quality({"income": income, "k": ["x"] * 4000}, {"income": made, "k": ["x"] * 4000})
    assert found.mean_one_way < 0.05
    assert words in found.verdict
    assert found.worst_mean is not None
    assert found.worst_mean.synthetic == pytest.approx(made.mean())
    assert found.worst_mean.real == pytest.approx(income.mean())
    assert f"the mean of the column {found.worst_mean};" in found.verdict
    assert str(found.worst_mean).startswith("income is ")
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert "大きく異なります：列 income の平均 " in str(found)


def test_a_mean_counts_by_what_bins_do_not_show() -> None:
    rng = np.random.default_rng(5)
    rare = [(rng.random(4000) < share).astype(int) for share in (0.002, 0.02)]
    found = ob.synth.quality({"rare": rare[0]}, {"rare": rare[1]})
    assert found.worst_mean is None  # a share of rows, and shown as such
    assert LIKE in found.verdict
    constant = ob.synth.quality({"x": [100] * 4000}, {"x": np.where(np.arange(4000) < 20, 99, 100)})
    assert LIKE in constant.verdict
    beyond = ob.synth.quality({"x": [100] * 4000}, {"x": np.where(np.arange(4000) < 160, 10**9, 100)})
    assert FAR in beyond.verdict
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, (2, 4000))
    days[1][days[1] > np.datetime64("2022-03-01")] += 9000
    later = ob.synth.quality(pa.table({"day": days[0]}), pa.table({"day": days[1]}))
    assert re.search(r"the mean of the column day is 20\d\d-\d\d-\d\d, and 2021-03-\d\d", later.verdict)


def test_names_of_columns_stand_whole_on_the_page(tmp_path: Path) -> None:
    names = [f"a column whose name is long {i}" for i in range(12)]
    table = pa.table({name: [str(k % 3) for k in range(30)] for name in names})
    write_quality(ob.synth.quality(table, table), tmp_path / "q.html")
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    assert "…" not in page
    assert all(
        f">{name}</text>" in page and f'<li title="{name}"><span>{name}</span></li>' in page for name in names
    )


@pytest.mark.parametrize("count", [2, 3, 12, 30])
def test_names_beside_squares_are_equally_large_whether_columns_are_few_or_many(
    count: int, tmp_path: Path
) -> None:
    table = pa.table({f"c{i}": [str(k % 3) for k in range(30)] for i in range(count)})
    write_quality(ob.synth.quality(table, table), tmp_path / "q.html")
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    sizes = re.findall(r'class="squares" width="(\d+)" viewBox="0 0 ([\d.]+)', page)
    assert sizes
    assert all(int(shown) / float(own) == pytest.approx(1.3, abs=0.01) for shown, own in sizes)


@pytest.mark.parametrize("rows", [300, 1000, 4000])
def test_two_tables_of_one_law_are_apart_by_chance_alone(rows: int) -> None:
    """Chance is what it is said to be, and few rows do not condemn a table; nor does it hide that columns lost what they had in common."""
    draw = np.random.default_rng(7)

    def table(common: float) -> dict[str, Any]:
        both = draw.normal(size=rows)
        numbers = {f"c{i}": both * common + draw.normal(size=rows) for i in range(4)}
        return {**numbers, "k": draw.choice(list("abc"), rows)}

    found = ob.synth.quality(table(0.5), table(0.5))
    assert found.mean_two_way == pytest.approx(found.chance, rel=0.06)
    assert FAR not in found.verdict
    assert (LIKE in found.verdict) or rows < 1000
    assert any("Chance alone" in caution for caution in found.cautions) == (found.chance > 0.05)
    assert LIKE not in ob.synth.quality(table(2), table(0)).verdict


def test_chance_of_a_cell_is_that_of_a_binomial_number() -> None:
    """Against sums over all ways in which the rows of both tables may be shared out."""
    one, two = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 1, 3])
    _, found, _ = distance_of(one, two, 5)
    total = 0.0
    for t in (4, 3, 2, 1):
        ways = [math.comb(t, k) * 0.6**k * 0.4 ** (t - k) for k in range(t + 1)]
        total += sum(way * abs(k / 6 - (t - k) / 4) for k, way in enumerate(ways)) / 2
    assert found == pytest.approx(total)


@pytest.mark.parametrize(("labels", "rows"), [(60, 150), (5000, 1000)])
def test_two_tables_of_many_labels_of_one_law_are_alike(labels: int, rows: int) -> None:
    """Labels that had bins because they happened to be frequent among the real rows were rarer in every other table."""
    draw = np.random.default_rng(8)

    def table() -> pa.Table:
        return pa.table({f"c{i}": [f"m{k}" for k in draw.integers(0, labels, rows)] for i in range(3)})

    assert ob.synth.quality(table(), table()).verdict.startswith("The synthetic table behaves")


def test_a_mean_that_moved_is_seen_among_few_rows(tmp_path: Path) -> None:
    """Half a standard deviation, which bins of 150 rows do not show."""
    draw = np.random.default_rng(9)
    real, made = ({"age": draw.normal(45, 15, 150).round(), "size": draw.normal(0, 1, 150)} for _ in range(2))
    assert ob.synth.quality(pa.table(real), pa.table(made)).verdict.startswith("The synthetic table behaves")
    verdict = ob.synth.quality(pa.table(real), pa.table({**made, "age": made["age"] + 8})).verdict
    assert not verdict.startswith("The synthetic table behaves")
    assert "the mean of the column age is" in verdict


def money(rng: np.random.Generator, rows: int, huge: int = 0) -> Any:
    amounts = rng.lognormal(8.2, 0.75, rows).round()
    amounts[:huge] = rng.uniform(1e5, 3e5, huge).round()
    return amounts


@pytest.mark.parametrize("huge", [0, 1, 10])
def test_a_tail_that_is_too_heavy_is_seen_however_large_a_few_real_values_are(
    huge: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four to five in a hundred amounts lie anywhere up to the largest: the mean is more than half as large again."""
    rng = np.random.default_rng(10)
    real, made = money(rng, 8000, huge), money(rng, 8000)
    spoilt = rng.random(8000) < 0.045
    made[spoilt] = rng.uniform(0, max(real.max(), 1.5e5), spoilt.sum()).round()
    found = ob.synth.quality({"money": real, "k": ["x"] * 8000}, {"money": made, "k": ["x"] * 8000})
    assert found.worst_mean is not None
    assert found.worst_spread is not None
    assert max(found.one_way) < 0.1
    assert FAR in found.verdict
    assert f"the mean of the column {found.worst_mean};" in found.verdict
    assert found.worst_spread.real == pytest.approx(real.std())
    assert found.worst_spread.synthetic == pytest.approx(made.std())
    assert found.worst_spread.beyond > 2
    assert f"worst spread         {found.worst_spread}\n" in str(found)
    assert found.to_dict()["worst_spread"]["column"] == "money"  # type: ignore[index]
    write_quality(found, tmp_path / "q.html")
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    assert f"<td>{found.worst_spread.shown[0]}</td><td>{found.worst_spread.shown[1]}</td>" in page
    monkeypatch.setenv("OBORO_LANGUAGE", "ja")
    assert f"最も異なる標準偏差    money は {found.worst_spread.shown[1]}（実データでは" in str(found)


@pytest.mark.parametrize(("times", "words"), [(1.15, LIKE), (1.6, FAIR), (3.0, FAR)])
def test_a_spread_that_is_off_decides_and_is_named(
    times: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tails are longer, or shorter: means do not show it."""
    rng = np.random.default_rng(11)
    one, two = (rng.standard_t(5, 6000) for _ in range(2))
    two = np.where(np.abs(two) > 2, two * times * 1.6 if times > 1.2 else two * times, two)
    for real, made in ((one, two), (two, one)):
        found = ob.synth.quality({"gain": real}, {"gain": made})
        if words == LIKE:
            assert LIKE in found.verdict
            continue
        assert LIKE not in found.verdict
        assert f"the standard deviation of the column {found.worst_spread};" in found.verdict
    with monkeypatch.context() as patch:
        patch.setenv("OBORO_LANGUAGE", "ja")
        assert ("列 gain の標準偏差 " in str(found)) == (words != LIKE)


def skewed(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    spike = np.where(rng.random(rows) < 0.7, 0, rng.lognormal(7, 1.5, rows).round())
    rare = np.where(rng.random(rows) < 0.98, 0, rng.lognormal(7, 1, rows).round())
    return {
        "money": rng.lognormal(8, 1, rows).round(),
        "heavy": rng.lognormal(8, 2, rows),
        "spike": spike,
        "rare": rare,
        "huge": np.where(rng.random(rows) < 0.002, 1e6, rng.lognormal(8, 1, rows)),
        "normal": rng.normal(size=rows),
    }


@pytest.mark.few(1, "values by chance")
@pytest.mark.parametrize("rows", [100, 300, 2000])
def test_chance_alone_makes_no_mean_and_no_spread_of_skewed_columns_off(rows: int) -> None:
    """Real rows in halves, and rows drawn from the real ones: of many hundred such figures one or two are off."""
    off, of = 0, 0
    for seed in range(12 if rows < 1000 else 4):
        rng = np.random.default_rng(seed)
        table = skewed(rng, 2 * rows)
        halves = [{name: part[half::2] for name, part in table.items()} for half in (0, 1)]
        again = {name: rng.choice(part, rows) for name, part in halves[0].items()}
        for made in (halves[1], again):
            columns = read_both(halves[0], made).columns
            for column in columns:
                moved, wider = worst_mean([column]), worst_spread([column])
                off += (moved is not None and moved.beyond > 0.1) + (
                    wider is not None and wider.beyond > 1.25
                )
                of += 2
    assert off <= max(2, of // 100)


def test_a_spread_counts_by_what_bins_do_not_show() -> None:
    rng = np.random.default_rng(12)
    rare = [(rng.random(4000) < share).astype(int) for share in (0.002, 0.02)]
    assert ob.synth.quality({"rare": rare[0]}, {"rare": rare[1]}).worst_spread is None
    real = rng.integers(0, 5, 4000)
    made = np.where(np.arange(4000) < 80, np.where(np.arange(4000) % 2, 10**9, -(10**9)), real)
    found = ob.synth.quality({"n": real}, {"n": made})
    assert found.worst_mean is None  # as many below as above
    assert FAR in found.verdict
    assert "the standard deviation of the column n is " in found.verdict
    same = ob.synth.quality({"x": [5] * 4000}, {"x": [5] * 4000})
    assert same.worst_spread is None


def test_numbers_of_a_picture_are_written_as_people_do() -> None:
    real = [12_285, 1_484_712, 3, 0.25, 1990, 12_345.6, 2e20]
    assert [_number(float(value)) for value in real] == [
        "12,285",
        "1,484,712",
        "3",
        "0.25",
        "1990",
        "12,345.6",
        "2e+20",
    ]
    labels = read_both({"a": [float(value) for value in real]}, {"a": [1e6]}).columns[0].labels
    assert "up to 1,484,712" in labels
