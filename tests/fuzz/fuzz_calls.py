"""A good call of every public function, constructor and method. A bad call is a good one with one or two arguments bent.

A public name without a line here, or in `NOT_CALLED` with a reason, fails a test.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from fuzz_world import World

import oboro as ob
from oboro.statistics.session import Plans

Arguments = dict[str, Any]  # by name; "*" for those without one, "self" for the object of a method
Good = Callable[[World], Arguments]

PAIR = ob.Domain([ob.Integer("a", 0, 3), ob.Integer("b", 0, 3)])
CALLS: dict[str, Good] = {
    # domain
    "domain.Areas": lambda w: {"name": "m", "levels": ["a", "m"], "table": {"a": ["x", "y"], "m": ["c", "d"]}, "of": None},
    "domain.Category": lambda w: {"name": "c", "values": ["a", "b"], "missing": "a"},
    "domain.Date": lambda w: {"name": "d", "first": "2026-01-01", "last": "2026-12-31", "missing": None},
    "domain.Domain": lambda w: {"columns": [ob.Integer("a", 0, 3)]},
    "domain.Domain.from_dict": lambda w: {"record": w.domain.to_dict()},
    "domain.Domain.from_toml": lambda w: {"path": w.path("domain.toml")},
    "domain.Domain.only": lambda w: {"self": w.domain, "*": ("age",)},
    "domain.Domain.to_toml": lambda w: {"self": w.domain, "path": w.path("again.toml")},
    "domain.Grid": lambda w: {"*": ("r", "c"), "shape": (4, 4)},
    "domain.Integer": lambda w: {"name": "a", "low": 0, "high": 9, "step": 1, "missing": 3},
    "domain.Mesh": lambda w: {"name": "m", "level": "500m", "region": [5339]},
    "domain.Real": lambda w: {"name": "a", "low": 0, "high": 1, "step": "0.1", "missing": 0},
    "domain.column_from": lambda w: {"record": {"kind": "integer", "name": "a", "low": 0, "high": 9}},
    "domain.read_toml": lambda w: {"path": w.path("domain.toml")},
    # dynamics
    "dynamics.EllipticalStable": lambda w: {"alpha": "1.5", "shape": [[1.0, 0.0], [0.0, 1.0]]},
    "dynamics.Stable": lambda w: {"alpha": "1.5", "sigma": 1, "beta": 0},
    "dynamics.EllipticalStable.map": lambda w: {"self": ob.dynamics.EllipticalStable("1.5", np.eye(2)), "matrix": [[1.0, 1.0]]},
    "dynamics.alpha_for": lambda w: {"size": 10, "rate": "0.5", "eps": 1, "delta": "0.01", "distance": 1, "false_alarm": 0.01},
    "dynamics.calibrate": lambda w: {"alpha": "1.5", "eps": 1, "delta": "1e-3", "method": "mixture", "dims": None},
    "dynamics.condition": lambda w: {
        "system": w.system, "shape": np.eye(3), "horizon": 2, "alpha": "1.5", "eps": 1, "delta": "0.01",
        "distance": 1, "method": "theorem1", "protect": ("u",),
    },
    "dynamics.delta": lambda w: {"alpha": "1.5", "eps": 1, "z": 1, "method": "mixture", "dims": None},
    "dynamics.design": lambda w: {
        "system": w.system, "horizon": 2, "alpha": "1.5", "eps": 1, "delta": "0.01", "distance": 1,
        "kind": "optimal", "method": "theorem1", "protect": ("u",),
    },
    "dynamics.detections": lambda w: {
        "eps": 1, "delta": "0.01", "distance": 1, "sizes": (1, 2), "alphas": ("1.5",), "false_alarm": 0.01,
    },
    "dynamics.estimate": lambda w: {"published": np.ones(5), "plan": w.signal, "sd": 1},
    "dynamics.gain": lambda w: {"system": w.system, "horizon": 3, "protect": ("u",)},
    "dynamics.observability": lambda w: {"system": w.system, "horizon": 3},
    "dynamics.plan": lambda w: {
        "system": w.system, "unit": ob.Unit.signal(1), "horizon": 3, "eps": 1, "delta": "0.01", "alpha": "1.5",
        "where": "input", "noise": "independent", "method": None, "protect": ("u",),
    },
    "dynamics.pure_eps": lambda w: {"alpha": "1.5", "z": 2, "dims": 1},
    "dynamics.release": lambda w: {
        "u": np.ones(5), "plan": w.signal, "ledger": w.ledgers["signal"], "x0": None, "name": None,
    },
    "dynamics.stream": lambda w: {"plan": w.signal, "ledger": w.ledgers["signal"], "x0": None, "name": None},
    "dynamics.system_from": lambda w: {"given": ([[0.5]], [[1.0]], [[1.0]], [[0.0]])},
    "dynamics.toeplitz": lambda w: {"system": w.system, "horizon": 3},
    # engine
    "engine.check_rules": lambda w: {"source": ob.engine.open_data(w.path("people.csv")), "domain": w.domain},
    "engine.check_columns": lambda w: {"source": ob.engine.open_data(w.path("people.csv")), "columns": w.domain.columns},
    "engine.count_units": lambda w: {"source": ob.engine.open_data(w.path("people.csv")), "unit": ob.Unit.row()},
    "engine.spark": lambda w: {"session": "cluster"},
    "engine.open_data": lambda w: {"data": {"age": [1, 2], "region": ["north", "x"]}},
    # ledger
    "ledger.Head.parse": lambda w: {"text": f"3:{'0' * 64}"},
    "ledger.Ledger.affords": lambda w: {"self": w.ledger, "cost": ob.Pure(1)},
    "ledger.Ledger.backup": lambda w: {"self": w.ledger, "path": w.path(f"copy-{time.monotonic_ns()}.ledger")},
    "ledger.Ledger.create": lambda w: {
        "where": w.path("people.ledger"), "dataset": "x", "unit": ob.Unit.row(), "budget": ob.Pure(1), "key": None,
    },
    "ledger.Ledger.export": lambda w: {"self": w.ledger, "path": w.path("again.json")},
    "ledger.Ledger.find": lambda w: {"self": w.ledger, "name": "published"},
    "ledger.Ledger.open": lambda w: {"where": w.path("people.ledger"), "key": None},
    "ledger.Ledger.price": lambda w: {"self": w.ledger, "unit": w.ledger.unit, "guarantee": ob.Pure(1)},
    "ledger.Ledger.sign": lambda w: {"self": w.ledger, "message": b"message"},
    "ledger.Ledger.verify": lambda w: {"self": w.ledger, "expected": None},
    "ledger.canonical": lambda w: {"value": {"a": [1, "b"]}},
    "ledger.plan_hash": lambda w: {"plan": {"a": 1}},
    "ledger.verify_export": lambda w: {"path": w.path("export.json"), "expected": None},
    "ledger.verify_signature": lambda w: {"public_key": "00" * 32, "message": b"m", "signature": b"s"},
    # noise
    "noise.DiscreteGaussian": lambda w: {"variance": 4},
    "noise.DiscreteGaussian.interval": lambda w: {"self": ob.noise.DiscreteGaussian(4), "level": 0.95},
    "noise.DiscreteGaussian.sample": lambda w: {"self": ob.noise.DiscreteGaussian(4), "size": 3},
    "noise.DiscreteLaplace": lambda w: {"scale": 4},
    "noise.DiscreteLaplace.interval": lambda w: {"self": ob.noise.DiscreteLaplace(4), "level": 0.95},
    "noise.DiscreteLaplace.sample": lambda w: {"self": ob.noise.DiscreteLaplace(4), "size": (2, 2)},
    "noise.PositiveStable": lambda w: {"alpha": Fraction(3, 4)},
    "noise.StudentT": lambda w: {"nu": Fraction(3)},
    "noise.bernoulli": lambda w: {"p": "1/3", "size": 3},
    "noise.bernoulli_exp": lambda w: {"x": "1/3", "size": 3},
    "noise.binomial": lambda w: {"n": 9, "p": "1/3"},
    "noise.choose": lambda w: {"n": 9, "k": 3},
    "noise.exponential_mechanism": lambda w: {"scores": [1, 2, 3], "eta": "1/2", "counts": None},
    "noise.permutation": lambda w: {"n": 5},
    "noise.permute_and_flip": lambda w: {"scores": [1, 2, 3], "eta": "1/2", "counts": None},
    "noise.round_to_grid": lambda w: {"law": ob.noise.Cauchy(), "centre": 3, "scale": 2, "step": 1},
    "noise.sample_rounded": lambda w: {"law": ob.noise.Cauchy(), "size": 3, "scale": 2, "step": 1, "centre": 0},
    "noise.shuffle": lambda w: {"array": np.arange(4)},
    "noise.uniform_integer": lambda w: {"below": 9},
    "noise.uniform_integers": lambda w: {"below": 9, "size": 3},
    # privacy
    "privacy.ZCDP": lambda w: {"rho": "0.1"},
    "privacy.ZCDP.to_approx": lambda w: {"self": ob.ZCDP(1), "delta": "1e-6"},
    "privacy.ZCDP.to_renyi": lambda w: {"self": ob.ZCDP(1), "order": 2},
    "privacy.Approx": lambda w: {"eps": 1, "delta": "1e-6"},
    "privacy.Approx.covers": lambda w: {"self": ob.Approx(1, 0), "other": ob.Pure(1)},
    "privacy.Composed": lambda w: {"*": (ob.privacy.LaplaceNoise(2),)},
    "privacy.Conditional": lambda w: {"guarantee": ob.Pure(1), "assumptions": "the moon"},
    "privacy.GaussianNoise": lambda w: {"variance": 2, "sensitivity": 1, "discrete": True},
    "privacy.LaplaceNoise": lambda w: {"scale": 2, "sensitivity": 1, "discrete": True},
    "privacy.Pure": lambda w: {"eps": 1},
    "privacy.Pure.covers": lambda w: {"self": ob.Pure(1), "other": ob.Pure(1)},
    "privacy.Pure.to_approx": lambda w: {"self": ob.Pure(1), "delta": "1e-6"},
    "privacy.Pure.to_renyi": lambda w: {"self": ob.Pure(1), "order": 2},
    "privacy.Renyi": lambda w: {"order": 2, "eps": 1},
    "privacy.Renyi.to_approx": lambda w: {"self": ob.Renyi(2, 1), "delta": "1e-6"},
    "privacy.Repeated": lambda w: {"event": ob.privacy.LaplaceNoise(2), "times": 3},
    "privacy.Spend": lambda w: {"guarantee": ob.Pure(1)},
    "privacy.Unit.cells": lambda w: {"max_cells": 1, "max_per_cell": 1, "adjacency": "replace"},
    "privacy.Unit.person": lambda w: {"column": "who", "max_rows": 3, "adjacency": "replace"},
    "privacy.Unit.row": lambda w: {"adjacency": "replace"},
    "privacy.Unit.signal": lambda w: {"distance": 1, "norm": 2},
    "privacy.compose": lambda w: {"*": (ob.Pure(1), ob.Pure(2)), "delta": None, "method": None},
    "privacy.convert": lambda w: {"guarantee": ob.Pure(1), "currency": ob.ZCDP(1)},
    "privacy.guarantee_from": lambda w: {"record": {"kind": "approx", "eps": "1", "delta": "1e-6"}},
    "privacy.parallel": lambda w: {"*": (ob.Pure(1), ob.Pure(2)), "unit": ob.Unit.row(), "inside": None},
    "privacy.translate": lambda w: {"guarantee": ob.Pure(1), "made_for": ob.Unit.row(), "wanted": ob.Unit.row("replace")},
    "privacy.unit_from": lambda w: {"record": {"kind": "person", "column": "who", "max_rows": 3}},
    # release
    "release.Certificate.save": lambda w: {"self": w.release.certificate, "path": w.path("again.certificate.json")},
    "release.Certificate.verify_signature": lambda w: {"self": w.release.certificate, "public_key": None},
    "release.Release.interval": lambda w: {"self": w.release, "level": 0.9},
    "release.Release.save": lambda w: {"self": w.release, "path": w.path("again.csv")},
    "release.load_plan": lambda w: {"path": w.path("plan.toml")},
    "release.plan_from": lambda w: {"record": w.histogram.to_dict()},
    "release.price": lambda w: {"plan": w.histogram, "ledger": w.ledger},
    "release.quote": lambda w: {"plan": w.histogram, "ledger": w.ledger},
    "release.read_certificate": lambda w: {"path": w.path("published.parquet.certificate.json")},
    "release.fetch": lambda w: {"ledger": w.ledger, "name": None, "entry": 1},
    "release.run": lambda w: {"plan": w.histogram, "data": w.path("people.csv"), "ledger": w.ledger, "name": None},
    "release.save_plan": lambda w: {"plan": w.histogram, "path": w.path("again.plan.toml")},
    "release.verify_certificate": lambda w: {
        "path": w.path("published.parquet.certificate.json"), "data": None, "public_key": None,
    },
    # report
    "report.write_map": lambda w: {
        "table": w.counts, "domain": w.grid, "path": w.path("map.html"), "certificate": None, "title": None,
        "language": None, "count": "count",
    },
    # secure
    "secure.Answer.encrypt": lambda w: {
        "number": 3, "low": 0, "high": 9, "public": ob.secure.load_public(w.path("alice.public")),
    },
    "secure.Answer.load": lambda w: {"path": w.path("answer.bin")},
    "secure.NoisePlan.load": lambda w: {"path": w.path("noise.toml")},
    "secure.Urn": lambda w: {"first": -1, "step": 1, "counts": [1, 2, 1]},
    "secure.algorithm2": lambda w: {
        "eps": Fraction(1), "delta": Fraction(1, 100), "sensitivity": 1, "draws": 1, "init": None, "stop": "tables",
    },
    "secure.compare": lambda w: {"eps": 2, "delta": "0.1", "sensitivity": 1, "urns": (1,), "draws": (1,), "seconds": 0.1},
    "secure.create": lambda w: {"name": w.path("alice")},
    "secure.draw_from_file": lambda w: {
        "urns": w.path("urns.bin"), "answer": ob.secure.Answer.load(w.path("answer.bin")),
        "ledger": w.ledgers["people"], "shelf": ob.secure.Shelf(w.path("state")), "noise": w.noise, "name": None,
    },
    "secure.draw_plan": lambda w: {"noise": w.noise, "low": 0, "high": 9, "unit": ob.Unit.row(), "opened": True},
    "secure.load_public": lambda w: {"path": w.path("alice.public")},
    "secure.load_secret": lambda w: {"path": w.path("alice.secret")},
    "secure.plan": lambda w: {
        "eps": 2, "delta": "0.1", "urns": 1, "sensitivity": 1, "method": "digits", "draws": 2, "stop": "tables",
        "init": None, "excess": "0.5", "seconds": 0.05,
    },
    "secure.verify": lambda w: {"plan": w.noise, "view": "everyone"},
    # statistics
    "statistics.Ball": lambda w: {"norm": "l2", "radius": 1, "origin": None},
    "statistics.Bins": lambda w: {"column": w.domain["age"], "edges": [0, 18, 65, 120]},
    "statistics.Oracle.ask": lambda w: {"self": w.session.oracle, "predicate": "age >= 20", "tolerance": "0.3"},
    "statistics.Oracle.price": lambda w: {"self": w.session.oracle, "tolerance": "0.3", "failure": "0.01"},
    "statistics.Session": lambda w: {"data": w.path("people.csv"), "domain": w.domain, "ledger": w.ledger, "unit": None},
    "statistics.Session.batch": lambda w: {"self": w.session, "eps": 1},
    "statistics.Session.by": lambda w: {"self": w.session, "*": ("region",)},
    "statistics.Session.components": lambda w: {
        "self": w.session.plan, "columns": ["age"], "k": 1, "radius": 1, "eps": "1e-6", "delta": "1e-9",
    },
    "statistics.Session.count": lambda w: {"self": w.session.where("age >= 20"), "eps": "1e-6"},
    "statistics.Session.covariance": lambda w: {"self": w.session, "columns": ["age"], "eps": "1e-6"},
    "statistics.Session.histogram": lambda w: {
        "self": w.session, "columns": "age", "edges": {"age": [0, 18, 120]}, "eps": "1e-6",
    },
    "statistics.Session.kmeans": lambda w: {"self": w.session.plan, "columns": ["age"], "k": 2, "eps": "1e-6"},
    "statistics.Session.mean": lambda w: {"self": w.session, "columns": "age", "eps": "1e-6"},
    "statistics.Session.median": lambda w: {"self": w.session, "column": "age", "eps": "1e-6"},
    "statistics.Session.mode": lambda w: {"self": w.session, "column": "age", "eps": "1e-6"},
    "statistics.Session.persons": lambda w: {"self": Plans(w.domain, ob.Unit.person("who", 3), None), "eps": "1e-6"},
    "statistics.Session.cross_covariance": lambda w: {"self": Plans(PAIR, ob.Unit.row(), None), "column": "a", "other": "b", "eps": "1e-6"},
    "statistics.Session.top": lambda w: {"self": w.session, "column": "age", "k": 2, "eps": "1e-6"},
    "statistics.Session.quantile": lambda w: {"self": w.session, "column": "age", "quantiles": 0.5, "eps": "1e-6"},
    "statistics.Session.run": lambda w: {"self": w.session, "plan": w.histogram, "name": None},
    "statistics.Session.sum": lambda w: {"self": w.session, "column": "age", "ball": None, "eps": "1e-6", "expected_n": 5},
    "statistics.Session.sum_of": lambda w: {
        "self": w.session.plan, "function": "def f(row): return 1", "columns": ["age"], "seconds": 60, "label": None, "eps": "1e-6",
    },
    "statistics.Session.trimmed_mean": lambda w: {"self": w.session.plan, "column": "age", "trim": 0.1, "eps": "1e-6"},
    "statistics.Session.variance": lambda w: {"self": w.session, "column": "age", "eps": "1e-6"},
    "statistics.Session.where": lambda w: {"self": w.session, "condition": "age >= 20"},
    "statistics.histogram": lambda w: {
        "data": w.path("people.csv"), "domain": w.domain, "columns": "region", "eps": "1e-6", "ledger": w.ledger,
        "edges": None, "name": None,
    },
    "statistics.histogram_plan": lambda w: {
        "domain": w.domain, "columns": "region", "unit": ob.Unit.row(), "eps": 1, "rho": None, "edges": None, "where": None,
    },
    "statistics.mst_cost_plan": lambda w: {
        "graph": {(0, 1): 3, (1, 2): 5, (0, 2): 4}, "cap": 10, "step": 1, "guarantee": ob.Approx(1, "1e-6"), "noise": None,
        "beta": None,
    },
    "statistics.triangles_plan": lambda w: {"nodes": 5, "guarantee": ob.Approx(1, "1e-6"), "noise": None, "beta": None},
    "statistics.own_function_plan": lambda w: {
        "function": lambda data: 1.0, "sensitivity": lambda data, beta: 1.0, "name": "mine", "bounds": (0, 9),
        "step": 1, "unit": ob.Unit.row(), "guarantee": ob.Approx(1, "1e-6"), "noise": None, "beta": None,
    },
    "statistics.sensitivity.of": lambda w: {
        "function": sum, "values": [0, 1, 2], "n": 3, "adjacency": "replace", "norm": "l1", "ordered": None,
    },
    "statistics.sensitivity.Sensitivity.local": lambda w: {
        "self": ob.statistics.sensitivity.of(sum, [0, 1], 3), "data": [0, 1, 1],
    },
    "statistics.sensitivity.Sensitivity.smooth": lambda w: {
        "self": ob.statistics.sensitivity.of(max, [0, 1], 3), "data": [0, 1, 1], "beta": "0.5",
    },
    "statistics.sensitivity.local_mst_cost": lambda w: {"weights": [(0, 1, 1), (1, 2, 2)], "cap": 5},
    "statistics.sensitivity.local_triangles": lambda w: {"adjacency": np.zeros((3, 3), int)},
    "statistics.sensitivity.smooth_order_statistic": lambda w: {
        "values": [1, 2, 3], "rank": 2, "bounds": (0, 9), "beta": "0.5",
    },
    "statistics.sensitivity.smooth_trimmed_mean": lambda w: {
        "values": [1, 2, 3], "trim": 1, "bounds": (0, 9), "beta": "0.5",
    },
    "statistics.sensitivity.smooth_mst_cost": lambda w: {"weights": {(0, 1): 1, (1, 2): 2}, "cap": 5, "beta": "0.5"},
    "statistics.sensitivity.smooth_triangles": lambda w: {"adjacency": np.zeros((3, 3), int), "beta": "0.5"},
    # synth
    "synth.account": lambda w: {
        "n": 1000, "dims": 2, "records": 10, "delta": "1e-6", "min_eigenvalue": None, "ridge": "0.1",
    },
    "synth.check": lambda w: {"path": w.path("made.parquet"), "model": None, "public_key": None},
    "synth.draft": lambda w: {"data": w.path("people.csv"), "path": w.path("draft.toml")},
    "synth.load": lambda w: {"path": w.path("model.oboro")},
    "synth.Model.sample": lambda w: {"self": model(w), "n": 5, "where": {"region": "north"}, "seed": 3},
    "synth.plan": lambda w: {
        "domain": w.domain, "unit": ob.Unit.row("replace"), "eps": 1, "delta": "1e-6", "rho": None, "n": 120,
        "method": "marginals", "records": None, "n_min": None,
    },
    "synth.quality": lambda w: {"data": w.path("people.csv"), "synthetic": w.path("people.csv"), "target": None, "seed": 0},
    "synth.rdp_private_n": lambda w: {
        "order": 2, "n": 1000, "dims": 2, "min_eigenvalue": None, "ridge": "0.1", "bound": "exact", "both": False,
    },
    "synth.rdp_public_n": lambda w: {
        "order": 2, "n": 1000, "dims": 2, "min_eigenvalue": None, "ridge": "0.1", "bound": "tight",
    },
    "synth.release": lambda w: {
        "data": w.path("people.csv"), "ledger": w.ledger, "name": None,
        "plan": ob.synth.plan(w.domain, unit=ob.Unit.row("replace"), eps="1e-3", delta="1e-9", n=120),
    },
    "synth.renyi_gaussians": lambda w: {
        "order": 2, "mean": [0.0], "covariance": [[1.0]], "other_mean": [1.0], "other_covariance": [[1.0]],
    },
    # tables
    "tables.areas": lambda w: {"*": ("town",)},
    "tables.ask": lambda w: {"published": w.path("table.parquet"), "where": {"row": (0, 3)}, "level": 0.9},
    "tables.check": lambda w: {"data": w.counts, "domain": w.grid, "count": "count"},
    "tables.compare": lambda w: {
        "data": w.counts, "domain": w.grid, "eps": 1, "count": "count", "unit": None, "strategies": ["wavelet"], "trials": 1,
    },
    "tables.each_tick": lambda w: {"*": ("8x8",)},
    "tables.mean_over_ticks": lambda w: {"*": ("cells",)},
    "tables.open_series": lambda w: {"path": w.path("series.toml"), "ledger": None},
    "tables.series": lambda w: {"plan": w.series, "ledger": w.ledgers["cells"], "name": "hours"},
    "tables.Series.publish": lambda w: {"self": w.opened, "data": w.hours, "tick": 0},
    "tables.marginals": lambda w: {"*": (["row"], ["col"])},
    "tables.plan": lambda w: {
        "domain": w.grid, "unit": ob.Unit.cells(), "eps": 1, "delta": None, "strategy": "wavelet", "workload": None,
        "count": "count", "possible": None, "impossible": None, "ticks": None, "max_ticks": None, "event": False,
    },
    "tables.preview": lambda w: {"data": w.counts, "plan": w.table, "eps": [1, 2]},
    "tables.read_estat": lambda w: {"path": w.path("estat.txt")},
    "tables.rectangles": lambda w: {"sides": (1, 3)},
    "tables.release": lambda w: {
        "data": w.counts, "plan": w.table, "ledger": w.ledgers["cells"], "count": "count", "name": None,
    },
    "tables.squares": lambda w: {"sides": (1, 3)},
    "tables.unallocated": lambda w: {"published": w.path("table.parquet")},
    "report.write_hours": lambda w: {"tables": [w.tick], "path": w.path("hours.html"), "title": None, "language": None},
    # audit
    "audit.exact": lambda w: {"plan": w.histogram, "pairs": None},
    "audit.run": lambda w: {"plan": w.histogram, "trials": 1000, "pairs": None},
}  # fmt: skip

FREE = (
    "audit.samples",
    "noise.system_bits",
    "tables.blocks",
    "tables.cells",
    "tables.city",
    "tables.never_worse",
)
NOT_CALLED = {
    # what others hand out: made by oboro, read by the caller
    "result": [
        "audit.AuditReport", "audit.Covered", "audit.EndToEnd", "audit.Finding", "audit.Walked", "dynamics.Operator", "dynamics.Stream", "dynamics.System", "engine.Source",
        "ledger.Entry", "ledger.Head", "ledger.Ledger", "ledger.PublicKey", "ledger.Reservation", "ledger.Stored",
        "ledger.Verification", "release.Certificate", "release.Forecast", "release.Pair", "release.Release",
        "ledger.Account", "ledger.Periods", "release.Reproducible", "release.Reproduction", "release.Part", "release.Quote", "report.Comparison", "secure.Answer", "secure.Verdict", "secure.Law",
        "statistics.Batch", "statistics.Oracle", "synth.Account", "synth.Model", "synth.Quality", "tables.Comparison", "tables.Series",
    ],
    # plans: made by the functions above, read back by `plan_from`, which the documents are sent through
    "plan": [
        "dynamics.SignalPlan", "secure.DrawPlan", "secure.NoisePlan", "synth.GaussianPlan", "synth.MarginalsPlan",
        "synth.MomentsPlan", "synth.QualityPlan", "tables.SeriesPlan", "tables.TablePlan",
        *[f"statistics.{name}" for name in ob.statistics.__all__ if name.endswith("Plan")],
    ],
    # takes seconds or minutes by its nature; checks what it is given as `audit.run` does
    "tables": ["statistics.PersonTables", "statistics.Session.sql"],  # given what sessions are given, by name; statements are tried by tests/sql
    "long": ["audit.coverage", "audit.end_to_end", "audit.everything", "audit.membership", "audit.walk"],
    # what plans are made of, below the line where input is checked
    "inside": [
        "dynamics.SymmetricStable", "domain.Column", "noise.Bits", "noise.Cauchy", "noise.Laplace", "noise.Normal",
        "privacy.Event", "privacy.Guarantee", "privacy.Unit", "release.Plan", "release.register",
        "release.Additive", "release.Choice", "release.Chosen", "release.Selection", "release.Weighted", "release.noise_by_column",
        "release.noise_by_plan", "release.part", "release.same_noise", "release.upgrade",
        "engine.add_up", "engine.check_width", "engine.count_cells", "engine.count_persons", "engine.count_ticks",
        "engine.stream_codes", "secure.conditions", "secure.drawer_delta", "secure.exact_delta",
        "statistics.clusters_plan", "statistics.components_plan", "statistics.sensitivity", "statistics.mst_cost",
        "statistics.triangles",
    ],
    # needs another party at the other end of a connection: its messages are sent through the documents
    "peer": [
        "secure.Holder", "secure.Identity", "secure.Shelf", "secure.draw", "secure.open_file",
        "secure.serve", "secure.write_urns", "service.Remote", "service.Service", "service.connect",
    ],
}  # fmt: skip


def model(world: World) -> Any:
    return ob.synth.load(world.path("model.oboro"))


def public_names() -> Iterator[str]:
    """Every function and class that a user can reach, as module.name."""
    inner = {name: getattr(ob, name) for name in ob.__all__}
    for module, inside in inner.items():
        if not isinstance(inside, ModuleType):
            continue
        for name in getattr(inside, "__all__", ()):
            if callable(getattr(inside, name)) and not _is_error(getattr(inside, name)):
                yield f"{module}.{name}"


def uncovered() -> list[str]:
    """Public names that nothing tries."""
    known = {".".join(name.split(".")[:2]) for name in CALLS} | set(FREE)
    known |= {name for names in NOT_CALLED.values() for name in names}
    return sorted(set(public_names()) - known)


def target(name: str) -> Any:
    """The function that a name of CALLS means."""
    found: Any = ob
    for part in name.split("."):
        found = getattr(found, part)
    return found


def call(name: str, arguments: Arguments) -> Any:
    """Calls it as a user would, by name."""
    given = dict(arguments)
    star = given.pop("*", ())
    if "self" in given:
        return getattr(given.pop("self"), name.rpartition(".")[2])(*star, **given)
    return target(name)(*star, **given)


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)
