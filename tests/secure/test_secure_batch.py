"""Noises for several answers from the same urns, and the paper's protocol as it is printed: the delta of all together."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from math import comb, exp
from pathlib import Path

import numpy as np
import pytest
from secure_help import Parties, digits, fits, make_parties

import oboro as ob
from oboro.errors import GuaranteeError, InputError, ParameterError
from oboro.noise.bits import system_bits
from oboro.release import plan_from
from oboro.secure import Urn, batch, drawer_delta, exact_delta
from oboro.secure.batch import joint_delta
from oboro.secure.elgamal import CIPHERTEXT
from oboro.secure.law import law_of
from support import forged

ONE = Fraction(1)


def two_digits(answers: int, *, delta: str = "0.01") -> ob.secure.NoisePlan:
    """92 entries keep (1, 0.01) for up to three answers."""
    urns = (Urn.symmetric(1, (28, 12, 5, 2)), Urn.symmetric(4, (24, 1)))
    return ob.secure.NoisePlan(ob.Approx(1, delta), 1, "digits", urns, answers=answers)


# -- the joint delta ---------------------------------------------------------------------------------------------------


def by_all_draws(urns: list[Urn], answers: int, eps: Fraction, sensitivity: int) -> float:
    """Every way to give each answer another entry of every urn; then the definition, for one answer moved either way."""
    joint = Counter({(0,) * answers: 1})
    for urn in urns:
        ways, added = Counter(itertools.permutations(urn.entries(), answers)), Counter[tuple[int, ...]]()
        for noise, weight in joint.items():
            for drawn, count in ways.items():
                added[tuple(a + b for a, b in zip(noise, drawn, strict=True))] += weight * count
        joint = added
    worst, total = 0.0, sum(joint.values())
    for place in range(answers):
        for shift in [s for s in range(-sensitivity, sensitivity + 1) if s]:
            moved = {(*z[:place], z[place] + shift, *z[place + 1 :]): weight for z, weight in joint.items()}
            over = sum(max(0.0, weight - exp(eps) * moved.get(z, 0)) for z, weight in joint.items())
            worst = max(worst, over / total)
    return worst


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(
    ("urns", "answers"),
    [
        ([Urn.symmetric(1, (4, 2, 1))], 2),
        ([Urn.symmetric(1, (4, 2, 1))], 3),
        ([Urn(0, 1, (1, 2, 3, 1))], 3),  # not symmetric
        ([Urn(-1, 2, (2, 1, 3))], 2),  # gaps
        ([Urn.symmetric(1, (2, 1))], 4),  # nothing is left
        ([Urn.symmetric(1, (3, 1)), Urn.symmetric(2, (2, 1))], 2),
        ([Urn.symmetric(1, (3, 1)), Urn(0, 3, (3, 1))], 3),
    ],
)
def test_the_joint_delta_is_what_the_definition_says(urns: list[Urn], answers: int, sensitivity: int) -> None:
    for eps in (Fraction(1, 2), ONE):
        truth = by_all_draws(urns, answers, eps, sensitivity)
        found = joint_delta(urns, answers, eps, sensitivity, spare=Fraction(1, 100))
        assert float(found.high) == pytest.approx(truth, abs=1e-12)
        assert float(found.high - found.low) < 1e-30
        if len(urns) == 1:  # the other way to the same number
            base = urns[0].last - urns[0].first + 1 + sensitivity
            other = exact_delta(batch.joint_law(urns, answers, base), eps, sensitivity)
            assert float(other.high) == pytest.approx(truth, abs=1e-12)
            assert float(other.high - other.low) < 1e-30


def test_one_answer_is_no_batch() -> None:
    urns = two_digits(1).urns
    assert joint_delta(urns, 1, ONE, 1, spare=Fraction(1, 100)) == exact_delta(law_of(urns), ONE, 1)


@pytest.mark.parametrize("answers", [2, 3])
@pytest.mark.parametrize("times", [5, 20, 80])
def test_the_bound_is_one_and_comes_close(times: int, answers: int) -> None:
    small = two_digits(1).urns
    urns = [Urn(urn.first, urn.step, [times * count for count in urn.counts]) for urn in small]
    exact = joint_delta(urns, answers, ONE, 1, spare=ONE)
    spare = Fraction(1, 1000)
    bound = batch._bound(urns, answers, ONE, 1, spare)
    assert bound >= exact.high
    if times == 80:  # the rest is what was set aside
        assert bound <= exact.high + spare + exact.high / 10


@pytest.mark.parametrize(
    ("size", "count", "taken"), [(50, 7, 10), (200, 4, 50), (2495, 1, 99), (1000, 400, 300)]
)
def test_what_others_took_is_in_its_band(size: int, count: int, taken: int) -> None:
    for spare in (Fraction(1, 100), Fraction(1, 10**6)):
        low, high = batch._band(size, count, taken, spare)
        ways = [comb(count, m) * comb(size - count, taken - m) for m in range(min(count, taken) + 1)]
        assert Fraction(sum(ways[high + 1 :]), comb(size, taken)) <= spare
        assert Fraction(sum(ways[:low]), comb(size, taken)) <= spare


def test_what_a_batch_costs_beyond_a_single_answer() -> None:
    """One urn as large as the paper's at delta = 1e-6, for 1, 10 and 100 answers: about as the root of their number."""
    urn = ob.secure.algorithm2(ONE, Fraction(1, 10**6), 1, 1)
    found = [
        float(joint_delta([urn], answers, ONE, 1, spare=ONE / 10**7).high) for answers in (1, 2, 10, 100)
    ]
    assert found == pytest.approx([6.0136e-7, 9.2312e-7, 2.0871e-6, 7.1962e-6], rel=1e-4)


# -- which entries are drawn ---------------------------------------------------------------------------------------------


def test_different_numbers_in_every_order_alike() -> None:
    drawn = batch.different(5, 3, 60_000, system_bits())
    assert all(len(set(row)) == 3 for row in drawn[:1000].tolist())
    orders = drawn @ np.asarray([25, 5, 1])
    allowed = [a * 25 + b * 5 + c for a, b, c in itertools.permutations(range(5), 3)]
    law = ob.secure.Law(0, tuple(int(k in allowed) for k in range(125)))
    assert fits(orders, law)
    skewed = ob.secure.Law(0, tuple(weight * (11 if k < 25 else 10) for k, weight in enumerate(law.weights)))
    assert not fits(orders, skewed)


def test_no_entry_serves_two_answers() -> None:
    noise = two_digits(3)
    first = noise.sent[0].size
    for _ in range(200):
        picked = noise.picked(system_bits())
        assert len(picked) == 3
        assert len({index for one in picked for index in one}) == 6
        assert all(a < first <= b < noise.entries_sent for a, b in picked)


def test_a_batch_has_its_joint_law() -> None:
    plan = ob.secure.draw_plan(two_digits(2), low=0, high=100, unit=ob.Unit.row())
    drawn = plan.measure(plan.prepare([50, 70]), system_bits(), 20_000) - np.asarray([50, 70])
    assert drawn.shape == (20_000, 2)
    law = batch.joint_law(plan.noise.sent, 2, 16)
    both = (drawn + 7) @ np.asarray([1, 16])
    assert fits(both, law)
    for column in drawn.T:
        assert fits(column, plan.noise.law)


# -- the promise -----------------------------------------------------------------------------------------------------------


def test_a_batch_costs_the_joint_delta_in_one_part() -> None:
    plan = ob.secure.draw_plan(two_digits(3), low=0, high=100, unit=ob.Unit.row())
    (part,) = plan.parts
    assert part.of == "3 answers together"
    joint = joint_delta(plan.noise.sent, 3, ONE, 1, spare=Fraction(1, 800)).high
    assert part.costs == ob.Approx(1, joint)
    assert joint > exact_delta(plan.noise.law, ONE, 1).high
    assert plan_from(plan.to_dict()) == plan
    assert "answers" not in two_digits(1).to_dict()  # the hash of a single answer's plan is as it was


@pytest.mark.parametrize(
    "careless",
    [{"answers": 20}, {"answers": 0}, {"answers": 27}, {"answers": 10**6}, {"answers": True}],
    ids=str,
)
def test_more_answers_than_the_urns_bear_are_refused(careless: dict[str, int], tmp_path: Path) -> None:
    from secure_help import make_ledger

    good = two_digits(3)
    with pytest.raises(InputError):
        ob.secure.NoisePlan(good.promise, 1, "digits", good.urns, **careless)
    plan = ob.secure.draw_plan(good, low=0, high=100, unit=ob.Unit.row())
    ledger = make_ledger(tmp_path / "p2.ledger")
    with pytest.raises(InputError):
        ob.run(forged(plan, noise=forged(good, **careless)), [1, 2, 3], ledger)
    assert ledger.spent.unconditional == ob.Approx(0, 0)


def test_plain_numbers_of_any_kind_and_length_are_prepared() -> None:
    plan = ob.secure.draw_plan(two_digits(3), low=0, high=100, unit=ob.Unit.row())
    assert plan.prepare([5, 700, "x"]) == (5, 100, 0)
    assert plan.prepare([5]) == (5, 0, 0)
    assert plan.prepare(np.asarray([5, 6, 7, 8])) == (5, 6, 7)
    assert plan.prepare(None) == (0, 0, 0)
    (pair,) = plan.neighbours()
    assert (pair.one, pair.other) == ((0, 0, 0), (1, 0, 0))


def test_the_exact_audit_of_a_batch_finds_the_joint_delta() -> None:
    """By the law of every outcome, listed for the audit: at the joint delta it finds eps, at less than it more."""
    plan = ob.secure.draw_plan(two_digits(3), low=0, high=100, unit=ob.Unit.row())
    joint = plan.noise.kept.delta
    for asked, least, most in ((joint, 0.0, 1 + 1e-9), (joint * Fraction(99, 100), 1 + 1e-6, 9.0)):
        other = forged(plan, noise=forged(plan.noise, promise=ob.Approx(1, asked)))
        (finding,) = ob.audit.exact(other).findings
        assert least <= finding.eps_lower <= most
    many = ob.secure.plan(eps=1, delta="1e-2", urns=1, answers=20)
    assert ob.secure.draw_plan(many, low=0, high=9, unit=ob.Unit.row()).added() is None


def test_the_audit_attacks_a_batch() -> None:
    plan = ob.secure.draw_plan(two_digits(3), low=0, high=100, unit=ob.Unit.row())
    assert ob.audit.run(plan, trials=20_000).verdict == "holds"
    broken = forged(plan, noise=forged(plan.noise, urns=(Urn.symmetric(1, (30, 1)),)))
    assert ob.audit.run(broken, trials=20_000).verdict == "broken"


@pytest.mark.parametrize("method", ["digits", "paper"])
def test_urns_for_a_batch_are_found(method: str) -> None:
    noise = ob.secure.plan(eps=1, delta="1e-2", urns=1, draws=1, method=method, answers=5)
    assert (noise.answers, noise.method) == (5, method)
    assert ob.secure.verify(noise).delta.high <= Fraction(1, 100)
    assert float(noise.mean_abs) <= 1.4 * 1.05 * noise.optimum
    assert noise.entries_sent == noise.entries
    with pytest.raises(GuaranteeError, match="no urns were found"):
        ob.secure.plan(eps=1, delta="1e-6", urns=1, draws=1, method=method, answers=1000, excess="0.04")


# -- by hand and over a connection ----------------------------------------------------------------------------------------


@pytest.fixture
def parties(tmp_path: Path) -> Parties:
    made = make_parties(tmp_path)
    noise = two_digits(3)
    public = made.holder.secret.public
    made.noise, made.holder = noise, ob.secure.Holder(noise, made.holder.secret, made.holder.shelf)
    made.answer = [ob.secure.Answer.encrypt(n, low=0, high=100, public=public) for n in (20, 42, 90)]  # type: ignore[assignment]
    return made


def test_a_batch_over_tls(parties: Parties) -> None:
    with parties.serving() as where:
        release = parties.draw(where)
    values = release.to_arrow().column("value").to_pylist()
    assert release.to_arrow().column("answer").to_pylist() == [1, 2, 3]
    assert all(abs(value - true) <= 7 for value, true in zip(values, (20, 42, 90), strict=True))
    assert parties.heard[0].startswith(f"opened {', '.join(map(str, values))} from urns")
    assert parties.spent == 1  # all three for one eps: a unit moves one of them
    interval = release.interval()
    for low, value, high in zip(
        interval.column("low").to_pylist(), values, interval.column("high").to_pylist(), strict=True
    ):
        assert low <= value <= high or value < 0 or value > 100


def test_a_batch_by_files(parties: Parties) -> None:
    urns, drawn = parties.folder / "urns.enc", parties.folder / "drawn.enc"
    ob.secure.write_urns(parties.holder, urns)
    assert urns.stat().st_size < 92 * CIPHERTEXT + 300  # one set of urns for three answers
    release = ob.secure.draw_from_file(urns, parties.answer, parties.ledger, parties.shelf, parties.noise)
    release.save(drawn)
    _, numbers = ob.secure.open_file(parties.holder, drawn)
    assert all(abs(value - true) <= 7 for value, true in zip(numbers, (20, 42, 90), strict=True))


def test_another_number_of_answers_is_refused_before_anything_is_spent(parties: Parties) -> None:
    urns = parties.folder / "urns.enc"
    ob.secure.write_urns(parties.holder, urns)
    held: list[ob.secure.Answer] = parties.answer  # type: ignore[assignment]
    public = parties.holder.secret.public
    other = ob.secure.Answer.encrypt(1, low=0, high=99, public=public)
    stranger = ob.secure.Answer.encrypt(
        1, low=0, high=100, public=ob.secure.load_public(parties.folder / "p2.public")
    )
    for wrong, said in (
        (held[:2], "another number of answers"),
        ([*held[:2], other], "different bounds"),
        ([*held[:2], stranger], "another key"),
        ([], "not an encrypted answer"),
        ([1, 2, 3], "not an encrypted answer"),
    ):
        with pytest.raises(ob.OboroError, match=said):
            ob.secure.draw_from_file(urns, wrong, parties.ledger, parties.shelf, parties.noise)  # type: ignore[arg-type]
    assert parties.spent == 0
    ob.secure.draw_from_file(
        urns, held, parties.ledger, parties.shelf, parties.noise
    )  # they are unused still


# -- Protocol 1 as it is printed --------------------------------------------------------------------------------------------


def test_the_protocol_as_printed_carries_its_drawers_delta() -> None:
    with pytest.raises(GuaranteeError, match="knows its indices") as caught:
        ob.secure.plan(eps=1, delta="1e-10", method="printed", draws=2)
    assert "3.3886333e-6" in caught.value.given
    offered = dict(part.split("=") for part in caught.value.fix.replace("'", "").split(", "))
    plan = ob.secure.plan(eps=1, method="printed", draws=2, **offered)
    paper = ob.secure.plan(eps=1, delta="1e-10", method="paper", draws=2)
    assert (plan.urns, plan.law) == (paper.urns, paper.law)
    assert (plan.entries_sent, paper.entries_sent) == (295_384, 590_768)
    seen = drawer_delta(plan.urns[0], 2, ONE, 1)
    assert plan.kept == ob.Approx(1, seen.high)
    assert float(plan.promise.delta) == pytest.approx(3.38863e-6, rel=1e-5)
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        ob.secure.NoisePlan(paper.promise, 1, "printed", paper.urns, 2)


def test_what_is_drawn_as_printed_may_be_the_same_entry() -> None:
    plan = ob.secure.NoisePlan(ob.Approx(1, "0.9"), 1, "printed", (Urn.symmetric(1, (2, 1)),), 2)
    picked = [tuple(plan.picked(system_bits())[0]) for _ in range(400)]
    assert set(picked) == set(itertools.product(range(4), repeat=2))


def test_a_draw_as_printed_by_files(tmp_path: Path) -> None:
    parties = make_parties(tmp_path)
    noise = ob.secure.plan(eps=1, delta="0.05", method="printed", draws=2, urn_delta="1e-3")
    holder = ob.secure.Holder(noise, parties.holder.secret, parties.holder.shelf)
    ob.secure.write_urns(holder, tmp_path / "urns.enc")
    release = ob.secure.draw_from_file(
        tmp_path / "urns.enc", parties.answer, parties.ledger, parties.shelf, noise
    )
    release.save(tmp_path / "drawn.enc")
    _, number = ob.secure.open_file(holder, tmp_path / "drawn.enc")
    assert abs(number - 42) <= 10
    assert parties.ledger.spent.unconditional.delta <= Fraction(1, 20)  # type: ignore[attr-defined]


def test_several_noises_as_printed_are_refused() -> None:
    """Section 3.2: lines 6 and 7, repeated. The same entries for two answers publish the difference of these."""
    for call in (
        lambda: ob.secure.plan(eps=1, delta="0.05", method="printed", answers=2),
        lambda: ob.secure.NoisePlan(
            ob.Approx(1, "0.9"), 1, "printed", digits((1, (8, 3, 1)), (3, (16, 1))).urns
        ),
    ):
        with pytest.raises(ParameterError, match="one noise from one urn"):
            call()
    with pytest.raises(ParameterError, match="urn_delta"):
        ob.secure.plan(eps=1, delta="0.05", method="paper", urn_delta="0.1")


# -- what else there is ------------------------------------------------------------------------------------------------------


def test_the_rows_of_other_work() -> None:
    table = ob.secure.compare(eps=1, delta="1e-2", urns=(1,), draws=(2,), answers=5)
    rows = {str(row[0]): row for row in table.rows}
    assert list(rows) == [
        "paper, 2 draws from one urn",
        "1 digit urns",
        "1 digit urns that 5 answers share",
        "bitwise circuits",
        "lists of noise",
        "Pólya shares",
        "each party adds its own",
        "one party adds",
    ]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert rows["paper, 2 draws from one urn"][1:4] == ("26", "52", "3,328")
    assert rows["lists of noise"][1:4] == ("100", "100", "6,400")
    shared = ob.secure.plan(eps=1, delta="1e-2", urns=1, answers=5)
    assert rows["1 digit urns that 5 answers share"][1] == f"{shared.entries:,}"
    assert rows["1 digit urns that 5 answers share"][2] == f"{-(-shared.entries // 5):,}"


@pytest.mark.parametrize("eps", ["1", "0.1"])
def test_the_digits_of_a_bitwise_circuit_are_coins(eps: str) -> None:
    """The formula's law: digits of two geometric variables as independent coins, against the discrete Laplace law."""
    from oboro.secure.compare import circuit

    rate = float(Fraction(eps))
    gates, kept = circuit(Fraction(eps), Fraction(1, 10**6), Fraction(eps))
    digits_ = next(
        b for b in range(1, 40) if gates % b == 0 and (gates // b) % 2 and 2**b * rate > np.log(1e6)
    )
    law = np.ones(1)
    for j in range(digits_):
        chance = 1 / (1 + np.exp(rate * 2**j))
        law = np.convolve(law, np.r_[1 - chance, np.zeros(2**j - 1), chance])
    both = np.convolve(law, law[::-1])
    k = np.arange(both.size) - (law.size - 1)
    exact = np.tanh(rate / 2) * np.exp(-rate * np.abs(k))
    distance = (np.abs(both - exact).sum() + 1 - exact.sum()) / 2
    assert (1 + np.exp(rate)) * distance <= kept <= 1e-6


def test_a_polya_share_is_half_of_the_noise() -> None:
    from oboro.secure.compare import half_delta

    for rate in (1.0, 0.25):
        p = np.exp(-rate)
        j = np.arange(400)
        weights = np.exp(np.cumsum(np.r_[0, np.log((2 * j[1:] - 1) / (2 * j[1:]) * p)]))
        half = np.convolve(weights, weights[::-1]) * (1 - p)
        whole = np.convolve(half, half)
        k = np.arange(whole.size) - whole.size // 2
        assert np.abs(whole - np.tanh(rate / 2) * np.exp(-rate * np.abs(k)))[300:-300].max() < 1e-12
        over = np.maximum(half[1:] - np.exp(rate) * half[:-1], 0).sum()
        assert half_delta(Fraction(rate), Fraction(rate), 1) == pytest.approx(over, rel=1e-9)
    assert half_delta(ONE, Fraction(1, 10**9), 1) is None
