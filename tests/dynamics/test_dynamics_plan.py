"""Plans, releases and streams of systems: what is promised, what is refused, and that nothing raises on a value."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oboro as ob
from oboro.dynamics import Operator, SignalPlan, calibrate, gain, plan, release, stream
from oboro.dynamics.laws import Truth
from oboro.dynamics.system import respond
from oboro.errors import DataError, GuaranteeError, InputError, LedgerError, NameTakenError, ParameterError
from oboro.noise.bits import Bits, UnsafeBitsWarning, UnsafeDeterministicBits
from oboro.release import load_plan, plan_from, save_plan
from support import forged

SYSTEM = ([["1.6", "-0.8"], ["1", "0"]], [["1"], ["0"]], [["0.1", "0.05"]], [["0.02"]])
LAG = ([["0.9"]], [["0.1"]], [["1"]], [["0"]])
UNIT = ob.Unit.signal(distance=1)


def make(**said: Any) -> SignalPlan:
    return plan(
        said.pop("system", SYSTEM), **{"unit": UNIT, "horizon": 20, "eps": 1, "delta": "1e-3", **said}
    )


KINDS: list[dict[str, Any]] = [
    {},
    {"alpha": 2},
    {"alpha": "0.7"},
    {"noise": "shared"},
    {"noise": "shared", "method": "theorem1"},
    {"noise": "shared", "method": "exact"},
    {"noise": "shared", "delta": None, "alpha": 1},
    {"noise": "discrete"},
    {"where": "output"},
    {"where": "output", "noise": "shared"},
    {"protect": ("u",), "x0": ["1", "0.5"]},
    {"protect": "x0"},
    {"unit": ob.Unit.signal(2, "inf")},
    {"unit": ob.Unit.signal("0.5", 1)},
]


@pytest.fixture
def ledger(tmp_path: Path) -> ob.Ledger:
    return ob.Ledger.create(tmp_path / "l.ledger", dataset="load", unit=UNIT, budget=ob.Approx(10, "0.5"))


@pytest.mark.parametrize("said", KINDS, ids=str)
def test_the_promise_is_tied_to_the_noise_that_is_drawn(said: dict[str, Any], test_bits: Bits) -> None:
    """z = sensitivity / scale is below what the calibration allows, and the mechanism has that very scale."""
    made = make(**said)
    small = None if said.get("delta", "1e-3") is None else "1e-3"
    method = made.method
    z = calibrate(alpha=made.alpha, eps=1, delta=small, method=method, dims=made.dims)
    assert 1 - 2e-9 <= float(made.sensitivity / made.scale) / z <= 1 - 5e-10
    assert made.mechanism.scale == made.scale
    assert made.mechanism.shared == (made.noise != "independent")
    assert plan_from(made.to_dict()) == made
    assert isinstance(made.guarantee, ob.Pure if small is None else ob.Approx)
    measured = made.measure(made.prepare({"u": np.zeros(21)}), test_bits)
    assert measured.dtype == np.int64
    assert made.publish(measured).num_rows == 21
    assert made.measure(made.prepare({"u": np.zeros(21)}), test_bits, trials=3).shape == (3, measured.size)
    assert "median" in str(made.forecast())
    assert made.describe()["noise"]["calibration"] == method


@pytest.mark.parametrize("said", KINDS, ids=str)
def test_neighbours_are_neighbours_and_reach_the_sensitivity(said: dict[str, Any]) -> None:
    made = make(**said)
    power = np.inf if made.unit.norm is None else float(made.unit.norm)
    operator = Operator(made.system, made.horizon, made.protect)
    reached = 0.0
    for pair in made.neighbours():
        one, other = made.prepare(pair.one), made.prepare(pair.other)
        change = np.concatenate([other.x0 - one.x0, (other.u - one.u).ravel()])
        assert np.linalg.norm(change, power) <= float(made.unit.distance or 0)
        moved = np.linalg.norm(change) if made.where == "input" else np.linalg.norm(operator @ np.concatenate(
            [(other.x0 - one.x0) if "x0" in made.protect else [], (other.u - one.u).ravel() if "u" in made.protect else []]
        ))  # fmt: skip
        assert moved <= float(made.sensitivity)
        reached = max(reached, float(moved))
    assert reached >= 0.999 * float(made.sensitivity)


def test_the_p_norm_is_turned_into_the_euclidean() -> None:
    count = 2 + 21
    for norm, factor in ((1, 1.0), (2, 1.0), (3, count ** (1 / 2 - 1 / 3)), ("inf", math.sqrt(count))):
        made = make(unit=ob.Unit.signal("1.5", norm))
        assert 1.5 * factor * (1 - 1e-14) <= float(made.sensitivity) <= 1.5 * factor * (1 + 1e-12)
    assert float(make(where="output").sensitivity) == pytest.approx(gain(SYSTEM, 20))


def test_a_smaller_scale_is_refused(tmp_path: Path) -> None:
    made = make()
    save_plan(made, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == made
    record = {**made.to_dict(), "scale": str(float(made.scale) * 0.99)}
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        plan_from(record)
    assert plan_from({**made.to_dict(), "scale": str(float(made.scale) * 1.5)}).scale > made.scale


@pytest.mark.parametrize("said", [{}, {"noise": "shared"}, {"where": "output"}, {"alpha": "0.8"}], ids=str)
def test_the_band_covers_as_stated(said: dict[str, Any], test_bits: Bits) -> None:
    made = make(**said)
    u, x0 = np.sin(np.arange(21)), np.array([0.3, -0.2])
    truth = respond(made.system, x0, u[:, None])
    noisy = made.measure(made.prepare({"u": u, "x0": x0}), test_bits, trials=4000)
    errors = np.abs(np.array([made.outputs(one) for one in noisy]) - truth)
    for level in (0.5, 0.95):
        inside = (errors <= made.band(level)).mean(axis=0)
        assert np.abs(inside - level).max() < 0.045
        assert abs(inside[-1, 0] - level) < 0.04


def test_an_interval_comes_with_the_release(ledger: ob.Ledger) -> None:
    two = ([["0.9"]], [["1"]], [["1"], ["2"]], [["0"], ["1"]])
    done = release(np.ones(5), make(system=two, horizon=4), x0=[1], ledger=ledger)
    table = done.interval(0.9)
    assert table.column_names == ["t", "output", "y", "low", "high"]
    assert table.column("output").to_pylist() == [1, 2] * 5
    assert done.certificate.record["noise"]["alpha"] == "1.5"
    assert "95% interval" in str(done)


def test_samples_follow_one_rule() -> None:
    made = make(limit=100)
    given = [1, None, float("nan"), float("inf"), -math.inf, 1e30, "5", "five", 10**400, True, 2j, -7]
    assert made.prepare({"u": given}).u[:, 0].tolist() == [1, 0, 0, 0, 0, 100, 5, 0, 0, 1, 0, -7]
    assert made.prepare([1.0, 2.0]).u.shape == (2, 1)
    assert made.prepare({"u": [1.0], "x0": [math.nan, 500]}).x0.tolist() == [0, 100]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=3), st.integers()), min_size=1, max_size=21)
)
def test_no_value_ever_raises(samples: list[Any]) -> None:
    made = _CACHED
    prepared = made.prepare({"u": samples})
    assert np.isfinite(prepared.u).all()
    made.publish(made.measure(prepared, ob.noise.system_bits()))


_CACHED = make()


def test_the_shape_of_a_signal_is_public_and_checked(ledger: ob.Ledger) -> None:
    made = make()
    for wrong in (np.zeros(22), np.zeros((5, 2)), np.zeros((2, 2, 2)), []):
        with pytest.raises(DataError):
            release(wrong, made, ledger=ledger)
    with pytest.raises(DataError, match="x0"):
        release(np.zeros(21), made, x0=[1, 2, 3], ledger=ledger)
    assert ledger.spent == ob.Approx(0, 0)


def test_tables_are_read_in_order(tmp_path: Path) -> None:
    import pyarrow as pa

    (tmp_path / "load.csv").write_text(
        "time,load\n" + "".join(f"{t},{t / 10}\n" for t in range(20)) + "20,?\n"
    )
    made = make(columns="load")
    wanted = [t / 10 for t in range(20)] + [0.0]
    assert made.prepare(tmp_path / "load.csv").u[:, 0].tolist() == wanted
    assert made.prepare(pa.table({"load": [0.5, None, 1.5]})).u[:, 0].tolist() == [0.5, 0, 1.5]
    with pytest.raises(DataError, match="load"):
        made.prepare({"other": [1]})


@pytest.mark.parametrize("bad", [b"0.5", b"\xff", b"", b'"', b"0.5,1,2", b"\x00", b"9" * 3_000_000], ids=len)
def test_a_signal_in_a_text_file_keeps_every_sample(tmp_path: Path, bad: bytes) -> None:
    """The other samples stay where they are, whatever one line holds: neighbours have the same length."""
    two = make(system=([["0.9"]], [["0.1", "0.1"]], [["1"]], [["0", "0"]]), columns=("a", "b"), limit=100)
    path = tmp_path / "load.csv"
    path.write_bytes(b"a,b\n" + b"".join(b"%d,%d\n" % (t, t) for t in range(9)) + bad + b"\n")
    found = two.prepare(path).u
    assert found.shape == (10, 2)
    assert found[:9].tolist() == [[t, t] for t in range(9)]


@pytest.mark.parametrize(
    "bad", [7.0, None, "x", [1], [1, 2, 3], [[1], [2]], {}, np.zeros((2, 2)), b"", object()]
)
def test_one_sample_never_decides_how_another_is_read(bad: Any) -> None:
    two = make(system=([["0.9"]], [["0.1", "0.1"]], [["1"]], [["0", "0"]]))
    assert two.prepare([[1, 2], bad, [3, 4]]).u[[0, 2]].tolist() == [[1, 2], [3, 4]]
    assert two.prepare([bad]).u.shape == (1, 2)
    assert make().prepare([1, bad, [3]]).u[[0, 2], 0].tolist() == [1, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0},
        {"alpha": "2.01"},
        {"eps": 0},
        {"delta": 2},
        {"delta": 0},
        {"delta": None},
        {"delta": None, "noise": "shared", "alpha": 2},
        {"horizon": None},
        {"horizon": -1},
        {"unit": ob.Unit.row()},
        {"where": "state"},
        {"noise": "white"},
        {"method": "theorem1"},
        {"noise": "shared", "method": "independent"},
        {"noise": "discrete", "where": "output"},
        {"protect": ()},
        {"x0": [1, 2]},
        {"protect": "u", "x0": [1]},
        {"step": 0},
        {"step": "1e-30"},
        {"limit": 0},
        {"columns": ["a", "b"]},
        {"system": ([[1, 2]], [[1]], [[1]], [[0]])},
    ],
    ids=str,
)
def test_bad_plans_are_refused_with_a_fix(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        make(**wrong)
    assert error.value.fix


def test_a_release_is_paid_for_once_and_given_back(ledger: ob.Ledger) -> None:
    made = make(horizon=30)
    u = np.cos(np.arange(25))  # shorter than the horizon: the promise is the same
    done = release(u, made, x0=[0, 1], ledger=ledger, name="load")
    assert done.to_arrow().num_rows == 25
    assert ledger.spent == ob.Approx(1, "1e-3")
    again = release(u, made, x0=[0, 1], ledger=ledger, name="load")
    assert again.to_arrow() == done.to_arrow()
    assert ledger.spent == ob.Approx(1, "1e-3")
    with pytest.raises(ParameterError, match="not protected"):
        release(u, make(protect="u"), x0=[0, 1], ledger=ledger)


def test_the_true_output_is_enclosed_exactly() -> None:
    """Against fractions, for an unstable system as well."""
    system = make(system=([["1.1", "0.3"], ["-0.7", "1"]], [["1"], ["2"]], [["1", "1/3"]], [["0.5"]])).system
    u = np.array([0.1, -0.2, 1e-3, 5.5, 7.0])
    x = [Fraction(1, 4), Fraction(-3)]
    truth = Truth(system, np.array([0.25, -3.0]), u[:, None])
    for t, sample in enumerate(map(Fraction, u.tolist())):
        y = sum((c * s for c, s in zip(system.c[0], x, strict=True)), system.d[0][0] * sample)
        from oboro.noise.lazy import ball, precision

        for bits in (64, 400):
            with precision(bits):
                assert truth.output(t, 0)().contains(ball(y)) or truth.output(t, 0)().overlaps(ball(y))
        values = truth.values()
        assert abs(values.mid[t] - float(y)) <= values.rad[t] + 1e-15 * abs(float(y))
        x = [
            sum((a * s for a, s in zip(row, x, strict=True)), b[0] * sample)
            for row, b in zip(system.a, system.b, strict=True)
        ]


# -- streams -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"noise": "shared"},
        {"noise": "discrete"},
        {"where": "output"},
        {"protect": "u"},
        {"sigma": 99 * np.eye(5)},
    ],
    ids=["independent", "shared", "discrete", "output", "u", "sigma"],
)
def test_a_stream_publishes_step_by_step_and_ends_at_its_horizon(
    said: dict[str, Any], ledger: ob.Ledger
) -> None:
    made = make(horizon=4, **said)
    x0 = None if said.get("protect") else [1, 0]
    with stream(made, x0=x0, ledger=ledger, name="live") as live:
        assert ledger.spent == ob.Approx(1, "1e-3")  # all of it, before the first step
        out = [live.step(float(t)) for t in range(5)]
        assert all(isinstance(y, float) for y in out)
        with pytest.raises(ParameterError, match="horizon"):
            live.step(1.0)
        done = live.close()
    assert done.to_arrow().column("y").to_pylist() == out
    with pytest.raises(ParameterError, match="ended"):
        live.step(1.0)
    with pytest.raises(LedgerError):
        live.close()
    with pytest.raises(NameTakenError):
        stream(made, x0=x0, ledger=ledger, name="live")
    assert ledger.spent == ob.Approx(1, "1e-3")


def test_in_a_closed_loop_what_is_published_is_made_from_the_noisy_numbers_of_the_open_one(
    ledger: ob.Ledger,
) -> None:
    """With the same noise: take off what the controller added, and the noisy private numbers are those without a loop. That is the proof, run."""
    lag = ([["0.5"]], [["1"]], [["1"]], [["0"]])
    made = plan(lag, unit=UNIT, horizon=12, eps=1, delta="1e-4", protect="u", step="1/1024")
    private = (
        np.random.default_rng(1).integers(-64, 64, 13) / 64
    )  # on the grid, as the controller's part: no float is rounded
    noisy = []
    for feedback in (0.0, 0.75, -2.0):
        wide = ob.Ledger.create(
            Path(ledger.where).with_name(f"{feedback}.ledger"),
            dataset="w",
            unit=UNIT,
            budget=ob.Approx(9, "0.5"),
        )
        with pytest.warns(UnsafeBitsWarning):
            live = stream(made, ledger=wide, bits=UnsafeDeterministicBits("the same noise of a loop"))
        out, added = [0.0], []
        for value in private:
            added.append(round(feedback * max(-50.0, min(50.0, out[-1])) * 1024) / 1024)
            out.append(live.step(float(value) + added[-1]))
        y = np.array(out[1:])
        noisy.append(y[1:] - 0.5 * y[:-1] - np.array(added)[:-1])
    assert np.ptp(noisy[0]) > 1
    np.testing.assert_allclose(noisy[1], noisy[0], atol=1e-9)
    np.testing.assert_allclose(noisy[2], noisy[0], atol=1e-9)


@pytest.mark.long("statistical tests")
def test_a_stream_has_the_law_of_the_release(ledger: ob.Ledger, test_bits: Bits) -> None:
    wide = ob.Ledger.create(
        Path(ledger.where).with_name("w.ledger"), dataset="w", unit=UNIT, budget=ob.Approx(10**6, "0.999")
    )
    kinds: list[dict[str, Any]] = [
        {"noise": "shared"},
        {"noise": "discrete"},
        {"sigma": [[400, 300], [300, 900]]},
    ]
    for said in kinds:
        small = plan(LAG, unit=UNIT, horizon=1, eps=1, delta="1e-6", **said)
        errors = []
        for _ in range(100):
            live = stream(small, x0=[0], ledger=wide, bits=test_bits)
            errors.append([live.step(0.0), live.step(0.0)])
        inside = np.mean(np.abs(np.array(errors)) <= small.band(0.5)[:, 0], axis=0)
        assert np.abs(inside - 0.5).max() < 0.27


def test_a_stream_is_not_copied_and_refuses_what_does_not_fit(ledger: ob.Ledger) -> None:
    made = make(horizon=3)
    live = stream(made, x0=[0, 0], ledger=ledger)
    for again in (lambda: copy.copy(live), lambda: copy.deepcopy(live), lambda: pickle.dumps(live)):
        with pytest.raises(ParameterError, match="second record"):
            again()
    with pytest.raises(DataError):
        live.step(np.array([1.0, 2.0]))
    for value in (None, "x", math.nan, math.inf, 1e300):
        assert math.isfinite(live.step(value)) or live.time
        if live.time > 3:
            break
    spent = ledger.spent
    with pytest.raises(DataError):
        stream(made, x0=[1, 2, 3], ledger=ledger)
    with pytest.raises(LedgerError):
        stream(made, ledger=ledger).close()
    assert ledger.spent == ob.Approx(spent.eps + 1, spent.delta + Fraction(1, 1000))  # type: ignore[attr-defined]


# -- the attack ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [{}, {"noise": "shared"}, {"where": "output", "noise": "shared"}], ids=str)
@pytest.mark.long("audits of sound plans")
def test_the_audit_finds_nothing(said: dict[str, Any], test_bits: Bits) -> None:
    made = make(horizon=2, eps="0.5", delta="0.05", **said)
    assert ob.audit.run(made, 60_000, bits=test_bits).verdict == "holds"


def test_the_audit_catches_a_plan_with_half_the_noise(test_bits: Bits) -> None:
    made = plan(
        LAG, unit=UNIT, horizon=0, eps="0.5", delta="0.02", protect="u", noise="shared", method="exact"
    )
    with pytest.raises(GuaranteeError, match="does not keep its promise"):
        dataclasses.replace(made, scale=made.scale / 2)
    weak = forged(made, scale=made.scale / 2)
    assert ob.audit.run(weak, 200_000, bits=test_bits).verdict == "broken"


def test_a_stream_hands_out_a_copy_of_its_plan(tmp_path: Path) -> None:
    """Noise for a small output, put on the input, would hide nothing."""
    unit = ob.Unit.signal(1)
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="a", unit=unit, budget=ob.Approx(9, "0.1"))
    quiet = ob.dynamics.system_from(([[0]], [[1]], [["0.0001"]], [[0]]))
    plan = ob.dynamics.plan(
        quiet, horizon=1, unit=unit, eps=1, delta="1e-3", protect=("u",), where="output", step="1e-8"
    )
    with ob.dynamics.stream(plan, ledger=ledger) as stream:
        for name, other in (("where", "input"), ("horizon", 9), ("protect", ("x0",))):
            object.__setattr__(stream.plan, name, other)
            object.__setattr__(plan, name, other)
        stream.step(0.0)
        stream.step(0.0)
        assert (stream.plan.where, stream.plan.horizon, stream.plan.protect) == ("output", 1, ("u",))
        with pytest.raises(ob.errors.ParameterError, match="horizon"):
            stream.step(0.0)
