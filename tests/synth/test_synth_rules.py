"""What is known of records holds exactly in what is drawn: no record breaks a rule, whatever real ones do."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oboro as ob
from oboro.arrays import Integers
from oboro.domain.rules import Range
from oboro.errors import DomainError, InputError, ParameterError
from oboro.noise.bits import Bits
from oboro.synth.conditions import Wanted, wanted_codes
from oboro.synth.junction import Clique, Junction, Mask
from oboro.synth.measured import Binned
from oboro.synth.model import KnownSampler, _sampler
from oboro.synth.rules import MOST_TIED, _kinds, _zeros, cut, in_whole_numbers, shared_out, with_sums
from oboro.synth.shape import Shape
from support import steps

ROW = ob.Unit.row()
COLUMNS = [
    ob.Integer("age", 0, 99),
    ob.Category("work", ["none", "job", "retired"]),
    ob.Category("sex", ["f", "m"], missing="f"),
    ob.Integer("wages", 0, 500),
    ob.Integer("rent", 0, 100, missing=0),
    ob.Integer("income", 0, 1000),
]
IMPOSSIBLE = [
    {"work": "retired", "age": "..29"},
    {"work": ["job"], "age": (0, 14)},
    {"work": "none", "wages": "1.."},
]
PEOPLE = ob.Domain(COLUMNS, impossible=IMPOSSIBLE, sums={"income": ["wages", "rent"]})


def anybody(n: int, seed: int) -> dict[str, list[Any]]:
    """Rows that know nothing of rules: most of them break one."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 100, n).tolist(),
        "work": rng.choice(["none", "job", "retired"], n).tolist(),
        "sex": rng.choice(["f", "m"], n).tolist(),
        "wages": [None if one < 150 else int(one) for one in rng.integers(0, 500, n)],
        "rent": rng.integers(0, 100, n).tolist(),
        "income": rng.integers(0, 1000, n).tolist(),
    }


def drawn(plan: Any, data: Any, bits: Bits, n: int, where: dict[int, Any] | None = None) -> dict[str, Any]:
    """Records, as codes; `plan.size` of a column stands for missing."""
    sampler = _sampler(plan, plan.publish(plan.measure(plan.prepare(data), bits)))
    codes = with_sums(plan.domain, sampler.draw(n, where or {}, np.random.default_rng(n)))
    return dict(zip(plan.domain.names, codes, strict=True))


def broken(domain: ob.Domain, codes: dict[str, Any]) -> int:
    """How many records meet all conditions of some rule: told by the codes alone."""
    found = np.zeros(len(codes[domain.names[0]]), bool)
    for one in domain.rules.impossible:
        met = np.ones(found.shape, bool)
        for name, ranges in one:
            met &= np.any([(codes[name] >= start) & (codes[name] < stop) for start, stop in ranges], axis=0)
        found |= met
    return int(found.sum())


@pytest.mark.parametrize("method", ["marginals", "quality"])
def test_no_record_breaks_a_rule_that_most_real_ones_break(method: str, test_bits: Bits) -> None:
    plan = ob.synth.plan(PEOPLE, unit=ROW, eps=1, delta="1e-6", method=method)
    data = anybody(800, 1)
    assert broken(PEOPLE, dict(zip(PEOPLE.names, map(np.asarray, _codes(data)), strict=True))) > 200
    codes = drawn(plan, data, test_bits, 5000)
    assert broken(PEOPLE, codes) == 0
    missing = codes["wages"] == 501
    assert missing.any()
    assert np.array_equal(codes["income"] == 1001, missing)
    assert np.array_equal(codes["income"][~missing], (codes["wages"] + codes["rent"])[~missing])
    retired = codes["work"] == 2
    assert retired.sum() > 500  # ruled out where it must be, and there alone
    assert codes["age"][retired].min() >= 30


def _codes(data: dict[str, list[Any]]) -> list[list[int]]:
    work = {"none": 0, "job": 1, "retired": 2}
    return [
        [
            work[one] if name == "work" else 0 if name == "sex" else 501 if one is None else one
            for one in data[name]
        ]
        for name in PEOPLE.names
    ]


@pytest.mark.long("random rules")
@pytest.mark.parametrize("seed", range(12))
def test_no_record_breaks_random_rules_under_random_noise(seed: int, test_bits: Bits) -> None:
    """Random columns, rules and rows, with little noise and with much; also under conditions."""
    rng = np.random.default_rng(seed)
    columns: list[Any] = [
        ob.Integer("a", 0, int(rng.integers(3, 400))),
        ob.Category("b", list("uvwxyz")[: rng.integers(2, 7)]),
    ]
    columns += [
        ob.Integer("c", -5, 5),
        ob.Date("d", "2026-01-01", "2026-12-31"),
        ob.Category("e", ["p", "q"], missing="p"),
    ]
    rules = []
    for _ in range(int(rng.integers(1, 6))):
        one: dict[str, Any] = {}
        for i in rng.choice(5, int(rng.integers(1, 4)), replace=False):
            low, high = sorted(rng.integers(0, columns[i].size, 2).tolist())
            if isinstance(columns[i], ob.Category):
                one[columns[i].name] = list({columns[i].value(low), columns[i].value(high)})
            else:
                one[columns[i].name] = f"{columns[i].value(low)}..{columns[i].value(high)}"
        rules.append(one)
    n = 300
    data = {
        c.name: [None if rng.random() < 0.1 else c.value(int(rng.integers(c.size))) for _ in range(n)]
        for c in columns
    }
    try:
        domain = ob.Domain(columns, impossible=rules)
        plans = [
            ob.synth.plan(domain, unit=ROW, method=method, **price)
            for method, price in (("marginals", {"eps": "0.02"}), ("quality", {"rho": 2}))
        ]
    except DomainError:  # by chance, rules that leave nothing
        return
    for plan in plans:
        assert broken(domain, drawn(plan, data, test_bits, 3000)) == 0
        sampler = _sampler(plan, plan.publish(plan.measure(plan.prepare(data), test_bits)))
        wanted = wanted_codes(domain, {"e": "q", "c": (-5, 0)})
        try:
            codes = sampler.draw(500, wanted, rng)
        except ParameterError:
            continue
        assert broken(domain, dict(zip(domain.names, codes, strict=True))) == 0
        assert (codes[4] == 1).all()
        assert (codes[2] <= 5).all()


def test_known_totals_are_met_exactly_where_the_number_of_records_is_known(test_bits: Bits) -> None:
    data = anybody(800, 2)
    unit = ob.Unit.row("replace")
    some = ob.synth.plan(PEOPLE, unit=unit, n=800, eps=1, known={"sex": {"f": 700}})
    assert (drawn(some, data, test_bits, 800)["sex"] == 0).sum() == 700
    assert (drawn(some, data, test_bits, 8000)["sex"] == 0).sum() == 7000
    both = {"none": 5, "job": 0, "retired": 95}
    every = ob.synth.plan(PEOPLE.only("age", "work"), unit=ROW, eps=1, known={"work": both})
    codes = drawn(every, data, test_bits, 100)
    counts = np.bincount(codes["work"], minlength=4)
    assert counts.tolist() == [5, 0, 95, 0]
    assert broken(every.domain, codes) == 0


def test_many_known_totals_are_drawn_in_one_pass(test_bits: Bits, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the tree is the same for 3 known values and for 300; and records of each follow its law."""
    names, asked = [f"v{i}" for i in range(400)], []
    original = Junction.marginals

    def counted(self: Junction, potentials: Any) -> Any:
        asked.append(1)
        return original(self, potentials)

    rng = np.random.default_rng(5)
    towns = rng.integers(0, 400, 6000)
    data = {
        "town": [names[i] for i in towns],
        "sex": np.where(rng.random(6000) < 0.2 + towns / 800, "f", "m").tolist(),
    }
    domain = ob.Domain([ob.Category("town", names), ob.Category("sex", ["f", "m"])])
    passes = []
    for many in (3, 300):
        known = {"town": {name: 10 + i % 7 for i, name in enumerate(names[:many])}}
        plan = ob.synth.plan(
            domain, unit=ob.Unit.row("replace"), n=6000, rho=9, known=known, method="marginals"
        )
        sampler = _sampler(plan, plan.publish(plan.measure(plan.prepare(data), test_bits)))
        assert isinstance(sampler, KnownSampler)
        with monkeypatch.context() as patch:
            patch.setattr(Junction, "marginals", counted)
            asked.clear()
            town, sex = sampler.draw(6000, {}, np.random.default_rng(1))
            sampler.draw(600, {1: Wanted(np.array([0]), np.array([1]))}, np.random.default_rng(1))
        passes.append(len(asked))
        assert np.bincount(town, minlength=400)[:many].tolist() == list(known["town"].values())
        # of each value every record is as likely as the tree has it: evenly, so that none is off by more than a record
        (law,) = original(sampler.tree.law.junction, sampler.tree.law.potentials)
        joint = law if sampler.tree.law.junction.cliques[0] == (0, 1) else law.T
        for code in range(many):
            bin = int(sampler.tree.bins[0].bins_of(np.array([code]))[0])
            share = joint[bin] / joint[bin].sum()
            own = np.bincount(sampler.tree.bins[1].bins_of(sex[town == code]), minlength=share.size)
            assert np.abs(own - share * own.sum()).max() < 1.01
    assert passes[0] == passes[1] <= 6


class _Start:
    """A generator whose one draw is known."""

    def __init__(self, start: int) -> None:
        self.start = start

    def integers(self, below: int) -> int:
        assert 0 <= self.start < below
        return self.start


@pytest.mark.parametrize("n", [1, 3, 10, 47, 94, 1000])
def test_records_are_shared_out_so_that_each_value_has_its_share_on_average(n: int) -> None:
    """Over all starts the mean is exact; in each draw nothing is further off than by rounding, and whole shares are what they are."""
    totals = [20, 0, 13, 1, 9, 4]
    every: Any = [shared_out(totals, n, _Start(start)) for start in range(47)]  # type: ignore[arg-type]
    shares = np.array(totals) * n / 47
    assert np.sum(every, axis=0).tolist() == [total * n for total in totals]
    assert (np.abs(np.array(every) - shares) < 1).all()
    assert {sum(one) for one in every} == {n}
    if n % 47 == 0:
        assert every[0] == [total * n // 47 for total in totals] == every[46]


def test_shares_are_whole_also_where_no_double_tells_them_apart() -> None:
    totals = [2**61 + 1, 2**61 - 3, 0, 7]
    assert shared_out(totals, sum(totals), _Start(sum(totals) - 1)) == totals  # type: ignore[arg-type]
    assert in_whole_numbers(np.array([0.0, 1e-300, 0.25, 1e-9])) == [0, 0, 2**50, 4 * 2**50 // 10**9]


@pytest.mark.parametrize("where", [{}, {1: Wanted(np.array([0]), np.array([1]))}])
def test_one_record_of_known_totals_has_any_value(where: dict[int, Wanted], test_bits: Bits) -> None:
    """Of 400 draws of one record about 3 in 5 have the value of 600 in 1000; fewer than 190, or more than 290, come by chance once in 10^6."""
    domain = ob.Domain([ob.Category("sex", ["f", "m"]), ob.Category("work", ["a", "b"])])
    data = {"sex": ["f"] * 600 + ["m"] * 400, "work": ["a", "b"] * 500}
    plan = ob.synth.plan(
        domain, unit=ob.Unit.row("replace"), n=1000, rho=9, known={"sex": {"f": 600, "m": 400}}
    )
    sampler = _sampler(plan, plan.publish(plan.measure(plan.prepare(data), test_bits)))
    drawn = [int(sampler.draw(1, where, np.random.default_rng(seed))[0][0]) for seed in range(400)]
    assert 190 < drawn.count(0) < 290


def test_a_value_that_is_not_drawn_is_missing_where_it_may_be(test_bits: Bits) -> None:
    """The last value and what is missing may share a bin: of the known value come as many as are known, and no null among them."""
    domain = ob.Domain([ob.Category("town", ["a", "b"]), ob.Category("sex", ["f", "m"])])
    data = {"town": ["a"] * 300 + ["b"] * 300 + [None] * 300, "sex": ["f", "m", "m"] * 300}
    plan = ob.synth.plan(
        domain, unit=ob.Unit.row("replace"), n=900, rho=9, known={"town": {"b": 300}}, method="marginals"
    )
    town, _ = _sampler(plan, plan.publish(plan.measure(plan.prepare(data), test_bits))).draw(
        900, {}, np.random.default_rng(1)
    )
    counts = np.bincount(town, minlength=3)
    assert counts[1] == 300
    assert abs(counts[0] - 300) < 40
    assert abs(counts[2] - 300) < 40


def test_conditions_meet_rules_and_totals(tmp_path: Path) -> None:
    unit = ob.Unit.row("replace")
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="people", unit=unit, budget=ob.Pure(9))
    plan = ob.synth.plan(PEOPLE, unit=unit, n=800, eps=4, known={"sex": {"f": 700}})
    model = ob.synth.release(anybody(800, 3), plan, ledger=ledger)
    table = model.sample(400, where={"work": "retired", "age": (20, 40)}).to_pandas()
    assert table["age"].between(30, 40).all()
    assert (table["work"] == "retired").all()
    women = (model.sample(4000, where={"work": "job"}, seed=1).to_pandas()["sex"] == "f").mean()
    assert 0.6 < women < 1  # seven of eight, where work tells nothing of it
    assert set(model.sample(50, where={"sex": "m"}).to_pandas()["sex"]) == {"m"}
    for where in ({"work": "retired", "age": (0, 29)}, {"income": 3}):
        with pytest.raises(ParameterError):
            model.sample(10, where=where)
    again = ob.synth.load(model.save(tmp_path / "m.oboro"))
    assert again.sample(50, seed=2) == model.sample(50, seed=2)
    assert again.plan.domain == plan.domain


def test_rules_cost_nothing_and_a_sum_is_not_paid_for() -> None:
    plain, ruled = (ob.synth.plan(domain, unit=ROW, eps=1) for domain in (ob.Domain(COLUMNS[:5]), PEOPLE))
    assert ruled.parts == plain.parts
    data = anybody(50, 4)
    assert np.array_equal(plain.prepare(data), ruled.prepare(data))  # nothing that touches data knows of them


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "nothing is left": {"impossible": [{"sex": ["f", "m"]}, {"sex": "m"}]},
    "two rules leave nothing": {"impossible": [{"sex": "f"}, {"sex": "m"}]},
    "known and impossible": {"impossible": [{"sex": "f"}], "known": {"sex": {"f": 3}}},
    "more than there are": {"known": {"sex": {"f": 900}}},
    "not all": {"known": {"sex": {"f": 400, "m": 399}}},
    "two columns": {"known": {"sex": {"f": 4}, "work": {"job": 4}}},
    "negative": {"known": {"sex": {"f": -1}}},
    "halves": {"known": {"sex": {"f": 1.5}}},
    "none at all": {"known": {"sex": {"f": 0}}},
    "numbers": {"known": {"age": {"3": 4}}},
    "nobody": {"known": {"sex": {"x": 4}}},
    "said once too often": {"known": {"place": {1: 4, "1": 5}}},
    "a column twice": {"impossible": pa.table([["f"], ["m"]], names=["sex", "sex"])},
    "no condition": {"impossible": [{}]},
    "no column": {"impossible": [{"wage": 3}]},
    "no value": {"impossible": [{"work": "student"}]},
    "out of bounds": {"impossible": [{"age": "100..120"}]},
    "missing": {"impossible": [{"age": None}]},
    "backwards": {"impossible": [{"age": (5, 3)}]},
    "words": {"impossible": [{"age": "young"}]},
    "no file": {"impossible": "nowhere.csv"},
    "sums too large": {"sums": {"rent": ["wages", "age"]}},
    "a sum of one": {"sums": {"income": ["wages"]}},
    "a sum of itself": {"sums": {"income": ["income", "rent"]}},
    "a sum of words": {"sums": {"income": ["wages", "work"]}},
    "said twice": {"sums": {"income": ["wages", "rent"]}, "impossible": [{"income": 3}]},
}


@pytest.mark.parametrize("rules", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictions_are_refused_by_public_facts_alone(rules: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ob.synth.plan(
            ob.Domain([*COLUMNS, ob.Category("place", [1, 2])]),
            unit=ob.Unit.row("replace"),
            n=800,
            eps=1,
            **rules,
        )


def test_a_total_of_no_value_is_refused_as_a_total() -> None:
    with pytest.raises(DomainError, match="the known totals of 'sex'") as error:
        PEOPLE.ruled(known={"sex": {"x": 4}})
    assert error.value.argument == "known"


def test_methods_that_cannot_keep_rules_refuse_them() -> None:
    for method, more in (("moments", {}), ("gaussian", {"delta": "1e-6", "records": 5, "n_min": 100})):
        with pytest.raises(ParameterError, match="cannot keep"):
            ob.synth.plan(PEOPLE.only("age", "work"), unit=ROW, eps=1, method=method, **more)
    unit = ob.Unit.row("replace")
    drawn = ob.synth.plan(
        ob.Domain(COLUMNS[:1]), unit=unit, n=99, eps=1, delta="1e-6", method="gaussian", records=5
    )
    record: Any = drawn.to_dict()
    record["domain"] = ob.Domain(COLUMNS[:1], impossible=[{"age": 3}]).to_dict()
    with pytest.raises(ParameterError, match="cannot keep"):  # by whatever way it comes
        ob.release.plan_from(record)
    sums = ob.Domain([*COLUMNS[3:]], sums={"income": ["wages", "rent"]})
    assert ob.synth.plan(sums, unit=ROW, eps=1, method="moments").learned.names == ("wages", "rent")


def test_a_domain_file_declares_rules(tmp_path: Path) -> None:
    domain = PEOPLE.ruled(known={"sex": {"f": 3}})
    domain.to_toml(tmp_path / "people.toml")
    assert ob.Domain.from_toml(tmp_path / "people.toml") == domain
    assert ob.Domain.from_dict(domain.to_dict()) == domain
    text = (tmp_path / "people.toml").read_text()
    assert "[known.sex]" in text
    few = domain.only("work", "age", "income")
    assert len(few.rules.impossible) == 2
    assert not few.rules.sums
    assert not few.rules.known
    (tmp_path / "never.csv").write_text("work,age\nretired,3\nretired,4\n")
    listed = ob.Domain(COLUMNS, impossible=tmp_path / "never.csv")
    assert listed == ob.Domain(
        COLUMNS, impossible=[{"work": "retired", "age": 3}, {"work": "retired", "age": 4}]
    )


def test_a_file_of_combinations_lies_beside_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a command is typed decides nothing: another file of that name may lie there."""
    (tmp_path / "study").mkdir()
    ob.Domain(COLUMNS).to_toml(tmp_path / "study" / "people.toml")
    text = (tmp_path / "study" / "people.toml").read_text()
    (tmp_path / "study" / "people.toml").write_text('impossible = "never.csv"\n' + text)
    (tmp_path / "study" / "never.csv").write_text("work,age\nretired,..29\n")
    (tmp_path / "never.csv").write_text("work,age\njob,..29\n")
    monkeypatch.chdir(tmp_path)
    for path in ("study/people.toml", tmp_path / "study" / "people.toml"):
        assert ob.Domain.from_toml(path) == ob.Domain(COLUMNS, impossible=IMPOSSIBLE[:1])


def test_a_thousand_conditions_on_many_values_take_little_room() -> None:
    """Bins are cut after the release is paid for: by edges, not by values."""
    size, conditions = 20_000, 300
    column = ob.Category("x", [str(value) for value in range(size)])
    never = [{"x": [str(i), str(i + 9000)], "s": "a"} for i in range(0, 2 * conditions, 2)]
    domain = ob.Domain([column, ob.Category("s", ["a", "b"])], impossible=never)
    start = np.arange(size + 1)
    bins = Binned(Shape(start, start + 1, np.ones(size + 1), size), np.minimum(start, 50))
    tracemalloc.start()
    found = cut(bins, column, domain)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.size == 51 + conditions  # each has a bin of its own beside the values that had one
    assert peak < 8_000_000  # as many conditions of as many values: 48 MB


def test_a_range_of_thirds_is_read_back_as_it_was_written() -> None:
    domain = ob.Domain(
        [ob.Real("x", 0, 9, "1/3"), ob.Category("s", ["a", "b"])],
        impossible=[{"x": ("1/3", "8/3"), "s": "a"}],
    )
    assert domain.rules.impossible[0][0] == ("x", ((1, 9),))
    assert ob.Domain.from_dict(domain.to_dict()).rules == domain.rules


def test_the_domain_of_a_record_opens_no_file(tmp_path: Path) -> None:
    """A certificate of somebody else's must not make its reader open, or quote, a file of the reader's."""
    (tmp_path / "own.csv").write_text("work\nretired\n")
    plan = ob.synth.plan(PEOPLE, unit=ROW, eps=1)
    record: Any = plan.to_dict()
    assert ob.release.plan_from(record) == plan
    record["domain"]["impossible"] = str(tmp_path / "own.csv")
    with pytest.raises(DomainError, match="the conditions themselves"):
        ob.release.plan_from(record)


def test_totals_that_leave_records_with_no_value_are_refused() -> None:
    domain = ob.Domain(
        [ob.Category("sex", ["f", "m"], missing="m"), ob.Category("w", ["a", "b"])],
        impossible=[{"sex": "m"}],
        known={"sex": {"f": 60}},
    )
    with pytest.raises(DomainError, match="do not fit the number of records"):
        ob.synth.plan(domain, unit=ob.Unit.row("replace"), n=100, eps=5)
    assert ob.synth.plan(domain, unit=ob.Unit.row("replace"), n=60, eps=5).n == 60


@pytest.mark.parametrize(("totals", "asked"), [({"f": 0, "m": 100}, "f"), ({"f": 50, "m": 50}, None)])
def test_no_record_is_drawn_that_totals_exclude(totals: Any, asked: Any, tmp_path: Path) -> None:
    unit = ob.Unit.row("replace")
    domain = ob.Domain([ob.Category("sex", ["f", "m"]), ob.Category("w", ["a", "b"])], known={"sex": totals})
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=unit, budget=ob.Pure(9))
    plan = ob.synth.plan(domain, unit=unit, n=100, eps=5)
    model = ob.synth.release({"sex": ["f"] * 50 + ["m"] * 50, "w": ["a", "b"] * 50}, plan, ledger=ledger)
    with pytest.raises(ParameterError, match="known totals leave no record"):
        model.sample(20, where={"sex": asked})


def test_a_plan_of_an_earlier_version_keeps_its_shares() -> None:
    """Or the noise of a model that was released before would be taken for another."""
    plan: Any = ob.synth.plan(PEOPLE, unit=ROW, rho="0.5")
    record = plan.to_dict()
    earlier: Any = ob.release.plan_from({key: value for key, value in record.items() if key != "single"})
    assert [str(share) for share in plan.shares] == ["3/10", "1/10", "3/5"]
    assert [str(share) for share in earlier.shares] == ["1/10", "1/10", "4/5"]
    assert earlier.noise.sd < plan.noise.sd


def test_a_file_of_combinations_is_read_as_it_is_written(tmp_path: Path) -> None:
    """Codes of places begin with zeros, and are no numbers."""
    (tmp_path / "never.csv").write_text("place,age,flag\n01,..29,true\n10,3,false\n")
    columns = [
        ob.Category("place", ["01", "1", "10"]),
        ob.Integer("age", 0, 99),
        ob.Category("flag", ["true", "false"]),
    ]
    domain = ob.Domain(columns, impossible=tmp_path / "never.csv")
    assert domain.to_dict()["impossible"] == [
        {"place": ["01"], "age": ["0..29"], "flag": ["true"]},
        {"place": ["10"], "age": ["3..3"], "flag": ["false"]},
    ]


def test_the_forecast_counts_what_rules_add_to_the_work() -> None:
    """Four columns tied together make a model of tens of thousands of cells, whatever the seconds say."""
    columns = [ob.Integer(name, 0, 999) for name in "abcd"]
    rule = {"a": (0, 9), "b": (0, 9), "c": (0, 9), "d": (0, 9)}
    free, tied = (
        ob.synth.plan(ob.Domain(columns), unit=ob.Unit.row(), eps=1, delta="1e-6", seconds=5, impossible=one)
        for one in (None, [rule])
    )
    assert free.expected_seconds <= 5 < tied.expected_seconds  # type: ignore[union-attr]
    assert f"up to about {tied.expected_seconds} seconds" in str(tied.forecast())  # type: ignore[union-attr]


REPLACE = ob.Unit.row("replace")


def sampler_of(domain: ob.Domain, data: dict[str, list[Any]], bits: Bits, **how: Any) -> Any:
    plan = ob.synth.plan(domain, method="marginals", **how)
    return _sampler(plan, plan.publish(plan.measure(plan.prepare(data), bits)))


@pytest.mark.parametrize("men", [0, 50])
def test_totals_hold_where_only_null_is_left_beside_them(men: int, test_bits: Bits) -> None:
    domain = ob.Domain(
        [ob.Category("sex", ["f", "m"]), ob.Integer("age", 0, 50)],
        known={"sex": {"f": 50}},
        impossible=[{"sex": "m"}],
    )
    data = {"sex": ["f"] * (100 - men) + ["m"] * men, "age": [3] * 100}
    sampler = sampler_of(domain, data, test_bits, unit=REPLACE, n=100, eps=5)
    sex, _ = sampler.draw(100, {}, np.random.default_rng(1))
    assert np.bincount(sex, minlength=3).tolist() == [50, 0, 50]


NO_BIRTHS, NO_PROSTATE = {"sex": "m", "births": "0..20"}, {"sex": "f", "prostate": "0..9"}
HALVES = {"sex": {"f": 54, "m": 46}}


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(
    "rules",
    [
        {"impossible": [NO_BIRTHS]},
        {"impossible": [NO_BIRTHS], "known": HALVES},
        {"impossible": [NO_BIRTHS, NO_PROSTATE]},
        {"impossible": [NO_BIRTHS, NO_PROSTATE], "known": HALVES},
        {"impossible": [{"sex": ["f", "m"]}]},
        {"impossible": [{"births": "0..20"}, {"prostate": (0, 9)}, {"sex": "m"}], "known": {"sex": {"f": 9}}},
    ],
    ids=["one", "one and totals", "two", "two and totals", "all of a column", "nearly all"],
)
def test_a_question_that_does_not_apply_is_missing(
    rules: dict[str, Any], answered: bool, test_bits: Bits
) -> None:
    """Whether it was answered by real people all the same or not."""
    columns = [ob.Category("sex", ["f", "m"]), ob.Integer("births", 0, 20), ob.Integer("prostate", 0, 9)]
    data: dict[str, list[Any]] = {
        "sex": ["f"] * 54 + ["m"] * 46,
        "births": [i % 4 for i in range(54)] + [1 if answered else None] * 46,
        "prostate": [2 if answered else None] * 54 + [i % 9 for i in range(46)],
    }
    domain = ob.Domain(columns, **rules)
    sampler = sampler_of(domain, data, test_bits, unit=REPLACE, n=100, eps=2)
    codes = dict(zip(domain.names, sampler.draw(100, {}, np.random.default_rng(1)), strict=True))
    assert broken(domain, codes) == 0
    for name, totals in domain.rules.known:
        assert [int((codes[name] == code).sum()) for code, _ in totals] == [count for _, count in totals]


def test_what_cannot_be_missing_can_be_impossible() -> None:
    stands_in = [ob.Category("sex", ["f", "m"], missing="m"), ob.Integer("births", 0, 20, missing=0)]
    for rules, refusal in (
        ({"impossible": [{"sex": ["f", "m"]}]}, "no record is possible"),
        ({"impossible": [NO_BIRTHS], "known": HALVES}, "impossible, and known to occur"),
    ):
        with pytest.raises(DomainError, match=refusal):
            ob.synth.plan(ob.Domain(stands_in, **rules), unit=REPLACE, n=100, eps=1)


def test_noise_makes_no_null_of_a_column_whose_values_all_stand_in_rules(test_bits: Bits) -> None:
    """What is missing meets no rule, so it has a bin of its own there: empty, but for noise; and it is drawn where it is asked for."""
    columns = [ob.Category("work", ["none", "job"]), ob.Category("old", ["n", "y"])]
    domain = ob.Domain(
        columns, impossible=[{"work": "none", "old": "y"}, {"work": "job", "old": "n"}, {"old": "y"}]
    )
    data = {"work": ["none", "job"] * 50, "old": ["n", "y"] * 50}
    for _ in range(10):
        sampler = sampler_of(domain, data, test_bits, unit=ROW, eps="0.2")
        work, old = sampler.draw(200, {}, np.random.default_rng(1))
        assert (work.max(), old.max()) == (0, 0)
        work, old = sampler.draw(9, {0: Wanted(np.array([2]), np.array([3]))}, np.random.default_rng(1))
        assert (work == 2).all()


def test_totals_under_a_condition_that_the_model_gives_next_to_nothing(test_bits: Bits) -> None:
    domain = ob.Domain(
        [ob.Category("s", ["f", "m"]), ob.Category("w", ["a", "b", "c"])],
        known={"s": {"f": 200, "m": 100}},
        impossible=[{"s": "f", "w": "b"}],
    )
    data = {"s": ["f"] * 300, "w": ["a"] * 300}
    sampler = sampler_of(domain, data, test_bits, unit=REPLACE, n=300, eps=50)
    with np.errstate(all="raise", under="ignore"):
        s, w = sampler.draw(50, {1: Wanted(np.array([1]), np.array([2]))}, np.random.default_rng(1))
    assert (s == 1).all()
    assert (w == 1).all()


def test_one_of_very_many_can_be_asked_for(test_bits: Bits) -> None:
    domain = ob.Domain([ob.Category("s", ["f", "m"])], known={"s": {"f": 1, "m": 10**11}})
    sampler = sampler_of(domain, {"s": ["m"] * 30}, test_bits, unit=ROW, eps=5)
    (s,) = sampler.draw(7, {0: Wanted(np.array([0]), np.array([1]))}, np.random.default_rng(1))
    assert (s == 0).all()


def test_a_condition_that_possible_records_meet_is_answered(test_bits: Bits) -> None:
    """Also where all that the model believes to be there is ruled out, and where a noisy total leaves nobody."""
    domain = ob.Domain([ob.Integer("age", 0, 179)], impossible=[{"age": (92, 174)}])
    wanted = {0: Wanted(np.array([76]), np.array([112]))}
    for _ in range(10):
        sampler = sampler_of(domain, {"age": [100] * 100}, test_bits, unit=ROW, eps=10)
        (age,) = sampler.draw(20, wanted, np.random.default_rng(1))
        assert ((age >= 76) & (age < 92)).all()
    some = ob.Domain([ob.Category("s", ["f", "m"])], known={"s": {"f": 1000}})
    sampler = sampler_of(some, {"s": ["f"] * 30}, test_bits, unit=ROW, eps=5)
    (s,) = sampler.draw(7, {0: Wanted(np.array([1]), np.array([2]))}, np.random.default_rng(1))
    assert (s == 1).all()


def _inside(codes: Integers, ranges: Sequence[Range]) -> Mask:
    found = np.zeros(codes.shape, np.bool_)
    for start, stop in ranges:
        found |= (codes >= start) & (codes < stop)
    return found


def _by_whole_tables(domain: ob.Domain, codes: Sequence[Integers]) -> dict[Clique, Mask]:
    """What rules leave possible, with a mark for every cell at every condition."""
    found: dict[Clique, Any] = {}
    for one in domain.rules.impossible:
        columns = tuple(domain.names.index(name) for name, _ in one)
        met = np.ix_(*(_inside(codes[i], ranges) for i, (_, ranges) in zip(columns, one, strict=True)))
        table = found.setdefault(columns, np.ones([codes[i].size for i in columns], bool))
        table[met] = False
    return found


def test_conditions_rule_out_the_same_cells_one_by_one_as_all_at_once() -> None:
    draw = np.random.default_rng(4)

    def conditions(sizes: Sequence[int]) -> list[dict[str, Any]]:
        """Of one to all columns: a range, or several that may lie apart."""
        found = []
        for _ in range(draw.integers(1, 9)):
            one: dict[str, Any] = {}
            for i in draw.permutation(len(sizes))[: draw.integers(1, len(sizes) + 1)]:
                ends = np.sort(draw.integers(0, sizes[i], (draw.integers(1, 4), 2)), axis=1)
                one[f"x{i}"] = [f"{low}..{high}" for low, high in ends]
            found.append(one)
        return found

    ruled_out = 0
    for _ in range(300):
        sizes = draw.integers(1, 13, draw.integers(1, 4)).tolist()
        columns = [ob.Integer(f"x{i}", 0, size - 1) for i, size in enumerate(sizes)]
        domain = ob.Domain(columns, impossible=conditions(sizes))
        # the first codes of bins: in no order, some left out, and of a bin that is empty none
        codes = [draw.permutation(size)[: draw.integers(1, size + 1)] for size in sizes]
        codes = [np.append(one, np.iinfo(np.int64).max) for one in codes]
        found = {one.columns: one.possible for one in _zeros(domain, codes)}
        wanted = _by_whole_tables(domain, codes)
        assert list(found) == list(wanted)
        assert all(np.array_equal(found[one], wanted[one]) for one in wanted)
        ruled_out += sum(int((~one).sum()) for one in wanted.values())
    assert ruled_out > 3000


def test_many_combinations_write_the_cells_that_they_pick_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many cells as conditions pick; a mark for every cell at every condition would be 4 * 10^6 for these."""
    written = 0

    class Counted(np.ndarray):
        def __setitem__(self, at: Any, value: Any) -> None:
            nonlocal written
            written += np.asarray(self[at]).size
            super().__setitem__(at, value)

    values, pairs = [f"v{i}" for i in range(100)], np.random.default_rng(1).choice(100**2, 400, replace=False)
    domain = ob.Domain(
        [ob.Category("a", values), ob.Category("b", values)],
        impossible=[{"a": f"v{pair // 100}", "b": f"v{pair % 100}"} for pair in pairs],
    )
    made: list[int] = []

    def ones(shape: Any, dtype: Any) -> Any:
        made.append(int(np.prod(shape)))
        return np.full(shape, True, dtype).view(Counted)

    monkeypatch.setattr("oboro.synth.rules.np.ones", ones)
    (zeros,) = _zeros(domain, [np.arange(100), np.arange(100)])
    monkeypatch.undo()
    assert int((~np.asarray(zeros.possible)).sum()) == 400 == written
    assert made == [100**2]  # one table, however many conditions
    few, many = (
        steps(lambda size=size: _zeros(domain, [np.arange(size), np.arange(size)])) for size in (100, 300)
    )
    assert many == few


def test_codes_are_of_one_kind_where_all_conditions_are_alike() -> None:
    draw = np.random.default_rng(3)
    for _ in range(200):
        conditions = [
            tuple(
                (int(a), int(a + w))
                for a, w in zip(draw.integers(0, 30, k), draw.integers(1, 9, k), strict=True)
            )
            for k in draw.integers(0, 4, draw.integers(1, 7))
        ]
        edges = np.unique([0, *(edge for ranges in conditions for one in ranges for edge in one)])
        kind = _kinds(edges, conditions)
        met = np.stack([_inside(edges, ranges) for ranges in conditions], axis=1)
        same = (met[:, None] == met[None, :]).all(axis=2)
        assert ((kind[:, None] == kind[None, :]) == same).all()
        assert ((kind == 0) == ~met.any(axis=1)).all()


def test_bins_of_many_known_totals_take_little_work() -> None:
    codes = np.arange(20_001)
    domain = ob.Domain(
        [ob.Category("k", [f"v{i}" for i in range(20_000)])],
        known={"k": {f"v{i}": 1 for i in range(0, 6000, 2)}},
    )
    bins = Binned(Shape(codes, codes + 1, np.ones(20_001), 20_000), np.zeros(20_001, np.int64))
    tracemalloc.start()
    try:
        assert cut(bins, domain["k"], domain).size == 3001
        assert (
            tracemalloc.get_traced_memory()[1] < 20 << 20
        )  # a mark for each edge and condition: 18 MB, and again to sort
    finally:
        tracemalloc.stop()


def test_rules_that_would_take_gigabytes_are_refused_before_anything_is_paid() -> None:
    """Each pair of neighbours is within its limit; together they asked for gigabytes, after payment."""
    values = [f"v{i}" for i in range(2000)]

    def tied(columns: int) -> ob.Domain:
        rules = [{f"c{j}": "v0", f"c{j + 1}": "v1"} for j in range(columns - 1)]
        # a condition for each value, so that each has a bin of its own
        rules += [{f"c{j}": value, f"c{j + 1}": value} for j in range(columns - 1) for value in values]
        return ob.Domain([ob.Category(f"c{j}", values) for j in range(columns)], impossible=rules)

    for method in ("quality", "marginals"):
        with pytest.raises(DomainError, match="in too many places") as refused:
            ob.synth.plan(tied(8), unit=ob.Unit.row(), eps=1, method=method)  # type: ignore[arg-type]
        assert "in 7 groups of columns" in str(refused.value)
        plan: Any = ob.synth.plan(tied(4), unit=ob.Unit.row(), eps=1, method=method)  # type: ignore[arg-type]
        assert plan.tied_cells <= MOST_TIED
