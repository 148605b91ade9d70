"""Synthetic data beside AIM and MST of OpenDP, on public tables that are not Adult: distances, AUC, SDMetrics, processor time, with error bars.

`make bench PART=synth` makes the environment of the peers, `.venv-aim`. Everybody gets the same rows and the same rho; peers are given bins
at the quantiles of the data, which nobody would know. AIM runs at full strength: 16 rounds for each column, tables of up to three columns, a model of up to 80 MB.
That takes hours: TASKS, BUDGETS, REPEATS and PEERS run a part, as in `TASKS=smoking BUDGETS=1 REPEATS=1 PEERS=MST make bench PART=synth`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import oboro as ob
from bench.measure import Row
from bench.synth_data import Grid, Task, names, tasks
from bench.synth_score import auc, distances
from oboro.noise import system_bits
from oboro.privacy import Approx
from oboro.synth.codes import to_table
from oboro.synth.model import TreeSampler
from oboro.synth.plan import rho_within

HERE = Path(__file__).parents[1]
DELTA = "1e-6"
METHODS = ("quality", "marginals")
FIGURES = ("1-way", "2-way", "3-way", "AUC", "SDMetrics", "seconds")


def _listed(name: str, default: str) -> list[str]:
    return os.environ.get(name, default).split(",")


class Beside:
    """The process of the peers; without its environment nobody is compared, and SDMetrics is left out."""

    def __init__(self) -> None:
        python = HERE / ".venv-aim" / "bin" / "python"
        self.process = None
        if python.exists():
            self.process = subprocess.Popen(
                [str(python), "-W", "ignore", "-m", "bench.beside_aim"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=HERE,
            )

    def ask(self, **job: Any) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


def split(task: Task, seed: int) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Four fifths to learn from, one to test on."""
    order = np.random.default_rng(seed).permutation(task.n)
    cut = task.n * 4 // 5
    first, last = ({k: [v[i] for i in at] for k, v in task.data.items()} for at in (order[:cut], order[cut:]))
    return first, last


def made_by_us(task: Task, train: dict[str, list[Any]], eps: str, method: str) -> tuple[Any, float]:
    """Records as values, and the processor time of learning, fitting and drawing them."""
    plan: Any = ob.synth.plan(task.domain, unit=ob.Unit.row(), eps=eps, delta=DELTA, method=method)
    codes = plan.prepare(train)
    start = time.process_time()
    measured = plan.measure(codes, system_bits())
    sampler = TreeSampler(plan.law(measured), measured.bins)
    drawn = sampler.draw(codes.shape[1], {}, np.random.default_rng(0))
    spent = time.process_time() - start
    return to_table(task.domain, drawn).to_pydict(), spent


def rows() -> Iterator[Row]:
    yield from wide()
    beside, peers = Beside(), [] if os.environ.get("PEERS") == "" else _listed("PEERS", "MST,AIM")
    if beside.process is None:
        print("AIM, MST and SDMetrics are not here: make bench PART=synth makes their environment")
        peers = []
    print(f"{'':22} {'eps':>4} {'by':10}" + "".join(f"{name:>18}" for name in FIGURES))
    for task in tasks(_listed("TASKS", ",".join(names()))):
        for eps in _listed("BUDGETS", "0.3,1,3,10"):
            found: dict[str, Any] = {by: [] for by in ("real rows", *METHODS, *peers)}
            for repeat in range(int(os.environ.get("REPEATS", "3"))):
                _one(task, eps, repeat, found, beside)
            for by, every in found.items():
                print(f"{task.name:22} {eps:>4} {by:10}" + _shown(np.array(every)), flush=True)
            mine = np.array(found["quality"]).mean(axis=0)
            for peer in peers:
                theirs = np.array(found[peer]).mean(axis=0)
                for place, figure in enumerate(FIGURES):
                    better = figure in ("AUC", "SDMetrics")
                    ratio = mine[place] / theirs[place] if better else theirs[place] / mine[place]
                    target = (
                        10 if (figure, peer) == ("seconds", "AIM") else None if figure == "seconds" else 1
                    )
                    what = f"{figure}, {task.name}, eps {eps}"
                    yield Row(
                        what,
                        mine[place],
                        peer,
                        theirs[place],
                        "of processor" if place == 5 else "",
                        ratio,
                        target,
                    )


def _shown(every: Any) -> str:
    """Mean and standard error."""
    errors = every.std(axis=0, ddof=1) / len(every) ** 0.5 if len(every) > 1 else every[0] * np.nan
    return "".join(
        f"{f'{mean:.4g} ± {error:.2g}':>18}" for mean, error in zip(every.mean(axis=0), errors, strict=True)
    )


def _one(task: Task, eps: str, repeat: int, found: dict[str, Any], beside: Beside) -> None:
    grid = Grid.of(task)
    target = list(task.domain.names).index(task.target)
    train, test = split(task, repeat)
    real, unseen = grid.codes(train), grid.codes(test)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "real.npy"), Path(folder, "made.npy")
        np.save(path, real)
        for by, every in found.items():
            spent = 0.0
            if by == "real rows":
                made = unseen
            elif by in METHODS:
                table, spent = made_by_us(task, train, eps, by)
                values = {k: [None if value is None else str(value) for value in v] for k, v in table.items()}
                made = grid.codes(values)
            else:
                rho = float(rho_within(Approx(eps, DELTA)))
                spent = beside.ask(do=by, codes=str(path), sizes=grid.sizes, rho=rho, to=str(out))["seconds"]
                made = np.load(out)
            np.save(out, made)
            score = np.nan
            if beside.process is not None:
                score = beside.ask(do="score", real=str(path), made=str(out))["score"]
            learned = auc(real if by == "real rows" else made, unseen, target)
            every.append([*distances(real, made, grid.sizes).values(), learned, score, spent])


# A million rows of forty columns


def wide() -> Iterator[Row]:
    """Fit in under 3 minutes and 3 GB, draw a million records in under 20 seconds, of processor time. Ratios are of these limits."""
    n = int(float(os.environ.get("ROWS", "1e6")))
    draw = np.random.default_rng(1)
    hidden = draw.normal(size=(4, n))
    data, columns = {}, []
    for i in range(40):
        value = hidden[i % 4] + draw.normal(size=n) * (1 + i / 20)
        top = 100 if i % 2 else 4
        data[f"c{i}"] = np.clip((value + 3) * top / 6, 0, top).astype(np.int64)
        columns.append(ob.Integer(f"c{i}", 0, top))
    plan: Any = ob.synth.plan(ob.Domain(columns), unit=ob.Unit.row(), eps=1, delta=DELTA)
    start = time.process_time()
    measured = plan.measure(plan.prepare(data), system_bits())
    law = plan.law(measured)
    fitted = time.process_time()
    TreeSampler(law, measured.bins).draw(n, {}, np.random.default_rng(0))
    drawn = time.process_time() - fitted
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = f"{n:.0e} rows, 40 columns"
    yield Row(f"fit, {size}", fitted - start, "limit", 180, "s of processor", 180 / (fitted - start), 1)
    yield Row(f"memory, {size}", most, "limit", 3, "GB", 3 / most, 1)
    yield Row(f"draw, {size}", drawn, "limit", 20, "s of processor", 20 / drawn, 1)
