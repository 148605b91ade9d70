"""The paper's method: the ideal record is what comes out, the ridge is enough, and the moments stay inside."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synth_people import ledger_in

import oboro as ob
from oboro import audit
from oboro.errors import DataError, GuaranteeError, InputError
from oboro.noise import Normal
from oboro.noise.floatball import float_ball
from oboro.noise.lazy import ball, precision
from oboro.release import load_plan, save_plan
from oboro.synth import records
from oboro.synth.records import draw_records, factor, moments_of

DOMAIN = ob.Domain(
    [ob.Integer("age", 0, 100), ob.Real("score", -1, 1, "0.001"), ob.Category("sex", ["F", "M"])]
)
REPLACE = ob.Unit.row("replace")


def data(n: int = 2000) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    age = rng.integers(20, 80, n)
    return {
        "age": age.tolist(),
        "score": (age / 100 - 0.5 + rng.normal(0, 0.2, n)).tolist(),
        "sex": rng.choice(["F", "M"], n).tolist(),
    }


def plan_of(**changes: Any) -> Any:
    facts = {"unit": REPLACE, "n": 2000, "eps": 3, "delta": "1e-5", "records": 100, "method": "gaussian"}
    return ob.synth.plan(DOMAIN, **{**facts, **changes})


def test_moments_are_exact_for_huge_codes() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2**31, (3, 500))
    found = moments_of(codes)
    whole = [[int(value) for value in row] for row in codes]
    for i in range(3):
        assert found.sums[i] == sum(whole[i])
        for j in range(3):
            assert found.products[i][j] == sum(a * b for a, b in zip(whole[i], whole[j], strict=True))


def test_the_factor_is_that_of_the_covariance_with_its_ridge_exactly() -> None:
    codes = np.array([[0, 1, 2, 4], [3, 3, 3, 3], [0, 5, 1, 2]])
    sizes, ridge = [5, 4, 6], Fraction(1, 7)
    for used in (ridge, Fraction(0)):
        lower, pivots = factor(moments_of(codes), sizes, used)
        x = [
            [Fraction(2 * int(c), size - 1) - 1 for c in row] for row, size in zip(codes, sizes, strict=True)
        ]
        for i in range(3):
            for j in range(3):
                mean = [sum(row) / 4 for row in x]
                true = (
                    sum(a * b for a, b in zip(x[i], x[j], strict=True)) / 4
                    - mean[i] * mean[j]
                    + (used if i == j else 0)
                )
                assert sum(lower[i][k] * pivots[k] * lower[j][k] for k in range(3)) == true
    assert pivots[1] == 0  # a constant column without a ridge


def test_records_are_the_ideal_ones(test_bits, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path and the slow one agree, record by record, on the same bits."""
    moments, sizes = moments_of(np.array([[10, 50, 90, 20], [700, 100, 1900, 1000]])), [101, 2001]

    class Copy:
        def __init__(self) -> None:
            self.words_given: list[Any] = []

        def words(self, count: int) -> Any:
            words = test_bits.words(count)
            self.words_given.append(words)
            return words

        integer = test_bits.integer

    source = Copy()
    fast = draw_records(moments, sizes, Fraction(1, 10), 300, source)  # type: ignore[arg-type]
    words = source.words_given[0].reshape(2, 2, 300)
    lower, pivots = factor(moments, sizes, Fraction(1, 10))
    centre = [Fraction(total, 4) for total in moments.sums]
    matrix = [
        [records._entry(lower[i][k] * Fraction(sizes[i] - 1, 2), pivots[k]) for k in range(2)]
        for i in range(2)
    ]
    slow = [
        records._record(words[:, :, i], centre, matrix, np.array(sizes) - 1, test_bits) for i in range(300)
    ]
    assert fast.tolist() == slow
    monkeypatch.setattr(records, "_settle", lambda *args: args[-1].fill(True))  # every record is left open
    assert draw_records(moments, sizes, Fraction(1, 10), 5, test_bits).shape == (5, 2)


def test_a_ball_too_wide_is_left_open(test_bits) -> None:
    with precision(128):
        centre = np.array([float_ball(ball(Fraction(1, 2)))])
    entries = np.zeros((1, 1, 2))
    out, is_open = np.zeros((1, 1), np.int64), np.zeros(1, np.bool_)
    records._settle(
        *(np.asarray(part)[:, None] for part in Normal().enclose(test_bits.words(2).reshape(2, 1))),
        centre,
        entries,
        out,
        is_open,
    )
    assert is_open[0]  # exactly on an edge


def test_records_have_the_mean_and_spread_that_the_method_says(test_bits) -> None:
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(40, 60, 500), rng.integers(900, 1100, 500)])
    ridge = Fraction(1, 50)
    drawn = draw_records(moments_of(codes), [101, 2001], ridge, 100_000, test_bits)
    x = drawn * np.array([2 / 100, 2 / 2000]) - 1
    true = codes * np.array([[2 / 100], [2 / 2000]]) - 1
    assert x.mean(axis=0) == pytest.approx(true.mean(axis=1), abs=0.005)
    spread = np.cov(true, bias=True) + 0.02 * np.eye(2)
    assert np.cov(x.T) == pytest.approx(spread, abs=0.03 * 0.02 + 3e-4)
    assert abs(np.cov(x.T)[0, 0] / (spread[0, 0] * 1.1) - 1) > 0.05  # ten percent off is seen


def test_the_ridge_is_the_least_that_keeps_the_promise() -> None:
    plan = plan_of()
    assert plan.guarantee == ob.Approx(3, "1e-5")
    one = plan.curve(plan.order)
    assert ob.Renyi(plan.order, 100 * one).to_approx("1e-5").eps <= 3
    from oboro.synth.curves import best_order, public_curve

    less = best_order(public_curve(2000, 3, ridge=plan.ridge * Fraction(99, 100)), 100, "1e-5")
    assert less is not None
    assert less.approx.eps > 3
    assert plan_of(eps=10).ridge < plan.ridge < plan_of(records=1000).ridge
    assert plan_of(n=np.int64(2000)) == plan_of(n="2000") == plan  # whatever n was counted with


def test_the_issue_example_at_ten_million_rows() -> None:
    plan = plan_of(n=10**7, records=10**5)
    assert plan.guarantee == ob.Approx(3, "1e-5")
    assert float(plan.ridge) < 0.001


def test_private_n_needs_a_public_least(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lower bound"):
        plan_of(unit=ob.Unit.row(), n=None)
    with pytest.raises(InputError, match="lower bound"):
        plan_of(unit=ob.Unit.row(), n=2000)
    plan = plan_of(unit=ob.Unit.row(), n=None, n_min=1500)
    short = plan.prepare(data(1000))
    assert short.count == 1500  # filled up with a public record, never refused
    assert plan.prepare(data(1501)).count == 1501
    assert plan.prepare({name: [] for name in DOMAIN.names}).count == 1500


def test_with_an_assumption_the_promise_is_conditional() -> None:
    plan = plan_of(n=10**6, records=10, assume_min_eigenvalue="0.1")
    assert isinstance(plan.guarantee, ob.Conditional)
    assert "no eigenvalue below 0.1" in plan.guarantee.assumption
    with pytest.raises(GuaranteeError, match="cost more"):
        plan_of(n=2000, records=10**6, assume_min_eigenvalue="0.1")
    private = plan_of(unit=ob.Unit.row(), n=None, n_min=10**6, records=10, assume_min_eigenvalue="0.1")
    constant = {"age": [5] * 10, "score": [0.0] * 10, "sex": ["F"] * 10}
    drawn = private.measure(private.prepare(constant), ob.noise.system_bits())
    assert drawn.shape == (10, 3)  # a constant column breaks the assumption, and nothing else


def test_the_records_are_the_release_and_the_moments_stay_inside(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    released = ob.synth.release(data(), plan_of(), ledger=ledger)
    table = released.to_arrow()
    assert table.num_rows == 100
    assert table.column_names == ["age", "score", "sex"]
    kept = str(released.certificate.record) + str(ledger.history())
    assert "ridge" in kept
    moments = plan_of().prepare(data())
    assert str(moments.sums[0]) not in kept
    assert not hasattr(released, "sample")
    assert released.save(tmp_path / "records.csv").exists()


def test_what_is_missing_or_odd_counts_as_the_middle() -> None:
    plan = plan_of(n=3)
    odd = plan.prepare({"age": [None, "x", 50], "score": [0.0, None, 0.0], "sex": ["F", "F", "Q"]})
    assert odd.sums == (150, 3000, 0)
    with pytest.raises(DataError):
        plan.prepare(data(5))


@pytest.mark.parametrize("unit", [REPLACE, ob.Unit.row()], ids=str)
@pytest.mark.long("audits of sound plans")
def test_the_audit_finds_nothing_against_records(unit: ob.Unit) -> None:
    size = {"n": 30} if unit == REPLACE else {"n": None, "n_min": 30}
    plan = plan_of(unit=unit, records=4, eps=1, delta="0.01", **size)
    report = audit.run(plan, 20_000)
    assert report.verdict == "holds", str(report)


@pytest.mark.long("planted faults")
def test_a_ridge_a_hundred_times_smaller_is_caught() -> None:
    from dataclasses import replace

    plan = plan_of(n=30, records=4, eps=1, delta="0.01")
    with pytest.raises(GuaranteeError):
        replace(plan, ridge=plan.ridge / 100)
    object.__setattr__(plan, "ridge", plan.ridge / 100)  # behind the plan's back
    assert audit.run(plan, 20_000).verdict == "broken"


def test_plans_read_back_and_a_false_promise_is_refused(tmp_path: Path) -> None:
    import tomli_w

    plan = plan_of()
    save_plan(plan, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == plan
    for change in (
        {"ridge": "0.0001"},
        {"records": 10**6},
        {"order": "2"},
        {"guarantee": {"kind": "pure", "eps": "1"}},
        {"n": 10},
    ):
        (tmp_path / "bad.toml").write_text(tomli_w.dumps({**plan.to_dict(), **change}))
        with pytest.raises(InputError):
            load_plan(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": ob.Unit.person("who", 1, "replace")},
        {"records": None},
        {"records": 0},
        {"eps": None},
        {"n": None},
        {"n": 1},
        {"n_min": 10},
        {"assume_min_eigenvalue": 2},
        {"records": 10**9, "n": 100, "eps": "0.0001"},
    ],
    ids=str,
)
def test_bad_facts_about_records_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        plan_of(**wrong)
    with pytest.raises(InputError, match="not a number"):
        ob.synth.plan(
            ob.Domain([ob.Category("region", ["a", "b", "c"])]),
            unit=REPLACE,
            n=10,
            eps=1,
            delta="1e-5",
            records=1,
            method="gaussian",
        )
