"""Algorithm 2: every cell of the paper, and its recurrence against plain convolution."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import pytest

import oboro as ob
from oboro.cli.checks import reproductions
from oboro.errors import GuaranteeError, ParameterError
from oboro.secure import algorithm2
from oboro.secure.law import Urn, conditions, exact_delta, exp_between, law_of
from oboro.secure.papers.kii import (
    DELTAS,
    DRAWS,
    EPSES,
    REPRODUCTIONS,
    TABLE1,
    TABLE2,
    TABLE3,
    _steps,
    curves,
    limit,
    limit_for,
    ratios,
    smallest_init,
    table1,
)
from support import steps


def test_table_1() -> None:
    ours = [[algorithm2(Fraction(1), delta, 1, n).size for n in DRAWS] for delta in DELTAS]
    printed = [list(row) for row in TABLE1]
    assert printed[0][0] == 30641
    printed[0][0] = 30461  # the misprint
    assert ours == printed


def test_table_1_is_short_and_small() -> None:
    assert 1000 < steps(table1) < 40_000
    code = (
        "import re\n"
        "from oboro.secure.papers.kii import table1; table1()\n"
        "peak = re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())  # ru_maxrss may be the parent's\n"
        "print(int(peak[1]) / 1024)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(out) < 500


def test_table_2() -> None:
    assert tuple(tuple(algorithm2(eps, DELTAS[1], 1, n).size for n in DRAWS) for eps in EPSES) == TABLE2


def test_table_3() -> None:
    for eps, printed in zip(EPSES, TABLE3, strict=True):
        for n, text in zip(DRAWS, printed, strict=True):
            ours = law_of([algorithm2(eps, DELTAS[1], 1, n)], n).mean_abs
            expected = "0.851" if text == "0.852" else text  # 0.8509 is printed as 0.852
            assert f"{float(ours):.3f}" == expected


def test_the_rule_that_the_proof_needs_stops_earlier() -> None:
    sizes = [algorithm2(Fraction(1), DELTAS[3], 1, n, stop="proof").size for n in (1, 2, 3)]
    assert sizes == [13_474_427_215, 112_621, 5_749]


def test_the_choice_of_init() -> None:
    chosen = {eps: [smallest_init(eps, n) for n in DRAWS] for eps in EPSES}
    assert list(chosen.values()) == [[1, 1, 2, 2], [2, 3, 4, 5], [4, 7, 10, 13], [10, 19, 28, 37]]


@pytest.mark.parametrize(("eps", "draws", "init"), [("1", 2, 1), ("0.5", 3, 4), ("0.1", 4, 37), ("2", 5, 3)])
def test_each_count_is_the_largest_that_eps_allows(eps: str, draws: int, init: int) -> None:
    rate, counts = Fraction(eps), []
    steps = _steps(rate, draws, init, counts)
    coefficients = [next(steps)[1] for _ in range(9)]
    grow = exp_between(rate, 300).low
    for last in range(1, 9):
        plain = law_of([Urn(0, 1, counts[: last + 1])], draws).weights
        assert coefficients[: last + 1] == list(plain[: last + 1])
        assert plain[last] <= grow * plain[last - 1]
        more = law_of([Urn(0, 1, [*counts[:last], counts[last] + 1])], draws).weights
        assert more[last] > grow * more[last - 1]


def test_figures_1_to_4() -> None:
    sizes = {"kii-fig1": 1_049_874_877, "kii-fig2": 184_540, "kii-fig3": 295_384}
    for name, size in sizes.items():
        assert curves(name)[0].size == size
    beyond = {
        name: max(abs(step) for _, step in ratios(curves(name)[2])) for name in ("kii-fig1", "kii-fig2")
    }
    assert all(step > 1.001 for step in beyond.values())  # refuted, as the paper says
    assert max(abs(step) for _, step in ratios(curves("kii-fig3")[2])) <= 1 + 1e-12
    urn, draws, law = curves("kii-fig4")
    assert float(Fraction(law.weights[0], law.total)) == pytest.approx(7.08e-10, rel=1e-3)
    assert draws == 4
    assert urn.counts[0] > urn.counts[2] < max(urn.counts)  # shaped like a W


@pytest.mark.parametrize("one", REPRODUCTIONS, ids=lambda one: one.name)
def test_every_reproduction_runs_and_is_listed(one: object) -> None:
    assert one.name in reproductions()  # type: ignore[attr-defined]
    table = one.make()  # type: ignore[attr-defined]
    assert len(str(table)) > 200
    assert "\\u" not in str(table)  # no sign of ours is written out
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="stop is unknown"):
        algorithm2(Fraction(1), DELTAS[0], 1, 2, stop="never")
    with pytest.raises(ParameterError, match="draws"):
        algorithm2(Fraction(1), DELTAS[0], 1, 7)


@pytest.mark.parametrize("draws", [2, 3, 4])
@pytest.mark.parametrize("init", [1, 3, 5, 9])
def test_too_small_an_init_is_blamed_on_condition_iii(init: int, draws: int) -> None:
    """Not on Conjecture 4.2.1, which speaks of large init alone; and what the error advises is enough."""
    for find in (
        lambda **more: algorithm2(Fraction(1, 10), DELTAS[1], 1, draws, **more),
        lambda **more: ob.secure.plan(eps="0.1", delta="1e-6", method="paper", draws=draws, **more),
    ):
        with pytest.raises(GuaranteeError, match=r"condition \(iii\).*init is too small") as caught:
            find(init=init)
        assert "4.2.1" not in str(caught.value)
        find(init=int(str(caught.value.fix).removeprefix("init=")))


def test_a_law_that_stays_level_for_ever_is_blamed_on_init() -> None:
    with pytest.raises(GuaranteeError, match=r"condition \(iii\)"):
        algorithm2(Fraction(1, 10), DELTAS[1], 1, 1, init=5)  # 5, 5, 5, ...


# -- Conjecture 4.2.1 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [19, 100, 10**4, 10**6, 10**9])
@pytest.mark.parametrize(("delta", "reach"), [("0.2", 1), ("0.01", None)])
def test_conjecture_4_2_1_fails_however_large_init_is(init: int, delta: str, reach: int | None) -> None:
    rate, asked = Fraction("0.1"), Fraction(delta)
    urn = algorithm2(rate, asked, 1, 2, init=init, stop="proof")
    assert urn.last == reach or reach is None
    law = law_of([urn], 2)
    holds = conditions(law, rate, asked, 1)
    assert [name for name, held in holds.items() if not held] == [
        "iv"
    ]  # all that the conjecture presumes is there
    assert exact_delta(law, rate, 1).low > asked
    with pytest.raises(GuaranteeError, match=r"condition \(iv\).*Conjecture 4.2.1 is false"):
        ob.secure.plan(eps="0.1", delta=delta, method="paper", draws=2, init=init, stop="proof")
    tends = limit_for(rate, asked, 2)
    if init >= 10**6:
        assert urn.last == tends.reach
        assert urn.size / init == pytest.approx(tends.size, rel=1e-4)
        assert max(step for k, step in ratios(law) if k < 0) == pytest.approx(tends.steepest, rel=1e-4)
        assert float(exact_delta(law, rate, 1).high) == pytest.approx(tends.delta, rel=1e-4)


def test_the_numbers_of_the_counterexample() -> None:
    urn = algorithm2(Fraction("0.1"), Fraction("0.2"), 1, 2, init=19, stop="proof")
    assert (urn.counts, law_of([urn], 2).weights) == ((19, 10, 19), (361, 380, 822, 380, 361))
    tends = limit_for(Fraction("0.1"), Fraction("0.2"), 2)
    e = math.exp(0.1)  # the counts 1, e/2, 1 give 1, e, 2 + e^2/4
    assert tends.steepest == pytest.approx(math.log((2 + e * e / 4) / e), rel=1e-12)
    assert tends.delta == pytest.approx((1 + (2 + e * e / 4) - e * e) / (2 + e / 2) ** 2, rel=1e-12)
    assert round(tends.steepest, 4) == 0.7352
    assert round(limit_for(Fraction("0.1"), Fraction("0.01"), 2).delta, 5) == 0.01595


@pytest.mark.parametrize("draws", [2, 3, 4])
def test_the_limit_is_the_root_of_a_geometric_series(draws: int) -> None:
    """The first reach + 1 weights of the sum are e^(rate k): so the limit's ends are 1/size^n."""
    found = limit(Fraction(1, 4), draws, 12)
    assert found.ends == pytest.approx(found.size**-draws, rel=1e-12)
    urn = algorithm2(Fraction(1, 4), Fraction(str(found.ends * 1.01)), 1, draws, init=10**9, stop="proof")
    assert urn.last == 12
    assert urn.size / 10**9 == pytest.approx(found.size, rel=1e-6)


def test_proposition_4_3_is_a_bound_from_below() -> None:
    """At sensitivity 1 condition (v) is (init/size)^n <= delta. The printed rule's urns are at or above the paper's bound."""
    above = []
    for delta in DELTAS:
        for n in DRAWS:
            bound = smallest_init(Fraction(1), n) * float(delta) ** (-1 / n)
            size = algorithm2(Fraction(1), delta, 1, n, stop="proof").size
            assert size >= bound * (1 - 1e-12)
            above.append(size > bound * (1 + 1e-9))
    assert above.count(False) == 1  # delta = 1e-4, n = 4: 20 entries, the bound itself
    assert algorithm2(Fraction(1), DELTAS[3], 1, 2, stop="proof").size == 112_621 > 100_000


def test_table_3_prints_what_another_delta_gives() -> None:
    printed = law_of([algorithm2(Fraction(1), DELTAS[0], 1, 1, stop="proof")], 1).mean_abs
    assert f"{float(printed):.3f}" == "0.852"
