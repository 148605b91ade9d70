"""Synthetic data beside AIM and MST of OpenDP, on public tables that are not Adult: distances, AUC, SDMetrics, processor time, with error bars.

`make bench PART=synth` makes the environment of the peers, `.venv-aim`. Everybody gets the same rows and the same rho; peers are given bins
at the quantiles of the data, which nobody would know; `PEERS=AIM-even` gives AIM as many bins of equal width instead, which need no data.
Records of the peers are drawn one by one: the rounding of mbi 1.1, OpenDP's default, ties columns that have nothing to do with one another (`PEERS=AIM-round`).
Ours are spread evenly, which chance disturbs less; `METHODS=quality-singly` draws ours one by one, too, so that models are compared and not draws. AIM runs at full strength: 16 rounds for each column, tables of up to three columns, a model of up to 80 MB.

All of it, twelve tables at four budgets three times, takes half a day of one core or more, nearly all of it AIM's: about a minute for seven columns, and longer the more there are. So every run is kept in bench/synth_runs.jsonl as soon as it is done, and
one that is there is not made again: stop it and start it as you like, and delete lines to have them made anew. One repeat of everything comes first, budget by
budget, the small tables before the large. TASKS, BUDGETS, REPEATS, METHODS and PEERS ask for a part, as in `TASKS=smoking BUDGETS=1 REPEATS=1 PEERS=MST make bench PART=synth_table`;
SHOW=1 prints what is there and runs nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import oboro as ob
from bench.measure import Row
from bench.synth_data import Grid, Task, load, names
from bench.synth_score import auc, distances
from oboro.noise import system_bits
from oboro.privacy import Approx
from oboro.synth.codes import to_table
from oboro.synth.model import TreeSampler
from oboro.synth.plan import rho_within

HERE = Path(__file__).parents[1]
KEPT = HERE / "bench" / "synth_runs.jsonl"
DELTA = "1e-6"
BUDGETS = "1,0.3,3,10"  # in the order in which they are run
METHODS = "quality,marginals"
THEIRS = ("AIM", "MST", *(f"{peer}-{how}" for peer in ("AIM", "MST") for how in ("even", "round")))
FIGURES = ("1-way", "2-way", "3-way", "AUC", "SDMetrics", "seconds")
Key = tuple[str, str, str, int]  # by whom, table, eps, repeat

# one thread each: threads that wait for a busy machine would count as work
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}


def _listed(name: str, default: str) -> list[str]:
    return [one for one in os.environ.get(name, default).split(",") if one]


class Beside:
    """The process of the peers; without its environment nobody is compared, and SDMetrics is left out."""

    def __init__(self) -> None:
        python = HERE / ".venv-aim" / "bin" / "python"
        self.process = None
        if python.parents[1].joinpath("installed").exists():
            self.process = subprocess.Popen(
                [str(python), "-W", "ignore", "-m", "bench.beside_aim"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=HERE,
                env={**os.environ, **ONE_THREAD},
            )

    def ask(self, **job: Any) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


# Runs that were made


def kept() -> dict[Key, list[float]]:
    """Figures of every run, the last one where a run was made twice."""
    found: dict[Key, list[float]] = {}
    if KEPT.exists():
        for line in KEPT.read_text().splitlines():
            one = json.loads(line)
            key = one["by"], one["task"], one["eps"], one["repeat"]
            found[key] = [np.nan if one[figure] is None else one[figure] for figure in FIGURES]
    return found


def keep(key: Key, figures: list[float]) -> None:
    by, task, eps, repeat = key
    shown = {
        name: None if np.isnan(value) else round(value, 6)
        for name, value in zip(FIGURES, figures, strict=True)
    }
    said = {"by": by, "task": task, "eps": eps, "repeat": repeat, **shown, "oboro": ob.__version__}
    with KEPT.open("a") as file:
        print(json.dumps(said), file=file, flush=True)


def mine_of() -> list[str]:
    """Ours; `quality-singly` is `quality` with records that are drawn one by one, as those of the peers are."""
    return _listed("METHODS", METHODS)


def asked(peers: list[str], tables: list[str]) -> Iterator[Key]:
    """Every run, in order: whenever it is stopped, what is done is nearly the same for all tables. Real rows know no budget."""
    for repeat in range(int(os.environ.get("REPEATS", "3"))):
        yield from (("real rows", table, "", repeat) for table in tables)
        for eps in _listed("BUDGETS", BUDGETS):
            for several in (mine_of(), *((peer,) for peer in peers)):
                yield from ((by, table, eps, repeat) for table in tables for by in several)


def rows() -> Iterator[Row]:
    beside = Beside()
    peers = [] if os.environ.get("PEERS") == "" else _listed("PEERS", "AIM,MST")
    if beside.process is None:
        print("AIM, MST and SDMetrics are not here: make bench PART=synth makes their environment")
    tables = _listed("TASKS", ",".join(names()))
    # a run is kept by the name that was typed: one that nobody has would stand there as somebody's
    if unknown := [peer for peer in peers if peer not in THEIRS]:
        sys.exit(f"PEERS={','.join(unknown)}: there are {', '.join(THEIRS)}")
    every, found = list(asked(peers, tables)), kept()
    runs = Runs(beside)
    if os.environ.get("SHOW") != "1":
        if any(key in found for key in every) and any(key not in found for key in every):
            _means(found, peers, tables)  # what is there, before hours of the rest
        for place, key in enumerate(every):
            if key in found or (key[0] in peers and beside.process is None):
                continue
            left = [one for one in every[place:] if one not in found]
            print(f"{len(left)} runs are left{_time_for(left, found)}", flush=True)
            figures = runs.figures(key)
            if figures is not None:
                found[key] = figures
                keep(key, figures)
    yield from _table(found, peers, tables)


def _time_for(left: list[Key], found: dict[Key, list[float]]) -> str:
    """By what those that are there took, by method and table, or by method."""
    hours = 0.0
    for by, table, *_ in left:
        mine = [figures[-1] for key, figures in found.items() if key[0] == by]
        here = [figures[-1] for key, figures in found.items() if key[:2] == (by, table)]
        if not mine:
            return ""
        hours += float(np.mean(here or mine)) / 3600
    return f", about {hours:.1f} hours of one core"


def _means(found: dict[Key, list[float]], peers: list[str], tables: list[str]) -> None:
    """With standard errors, and how many runs they are of."""
    print(f"{'':12} {'eps':>4} {'by':10} {'runs':>4}" + "".join(f"{name:>20}" for name in FIGURES))
    for table in tables:
        for eps in ("", *sorted(_listed("BUDGETS", BUDGETS), key=float)):
            for by in ("real rows", *mine_of(), *peers):
                mine = [figures for key, figures in found.items() if key[:3] == (by, table, eps)]
                if mine:
                    print(f"{table:12} {eps:>4} {by:10} {len(mine):>4}" + _shown(np.array(mine)), flush=True)


def _table(found: dict[Key, list[float]], peers: list[str], tables: list[str]) -> Iterator[Row]:
    """Means; then each figure beside that of each peer, over the repeats that both have."""
    _means(found, peers, tables)
    for table in tables:
        for eps in sorted(_listed("BUDGETS", BUDGETS), key=float):
            for peer in peers:
                yield from _beside(found, table, eps, peer)


def _beside(found: dict[Key, list[float]], table: str, eps: str, peer: str) -> Iterator[Row]:
    both = [
        (found["quality", table, eps, key[3]], figures)
        for key, figures in found.items()
        if key[:3] == (peer, table, eps) and ("quality", table, eps, key[3]) in found
    ]
    if not both:
        return
    mine, theirs = np.array(both).mean(axis=0)
    for place, figure in enumerate(FIGURES):
        better = figure in ("AUC", "SDMetrics")
        ratio = mine[place] / theirs[place] if better else theirs[place] / mine[place]
        time = figure == "seconds"
        target = (10 if peer == "AIM" else None) if time else 1
        unit = "of processor" if time else f"{len(both)} runs"
        what = f"{figure}, {table}, eps {eps}"
        yield Row(what, float(mine[place]), peer, float(theirs[place]), unit, float(ratio), target)


def _shown(every: Any) -> str:
    """Mean and standard error; of one run nothing is known of its error."""
    if len(every) == 1:
        return "".join(f"{figure:>20.4g}" for figure in every[0])
    errors = every.std(axis=0, ddof=1) / len(every) ** 0.5
    return "".join(
        f"{f'{mean:.4g} ± {error:.2g}':>20}" for mean, error in zip(every.mean(axis=0), errors, strict=True)
    )


# One run


class Runs:
    """Makes them, and keeps the table that was read last."""

    def __init__(self, beside: Beside) -> None:
        self.beside = beside
        self.task: Task | None = None

    def figures(self, key: Key) -> list[float] | None:
        """None where a peer failed, which is told and not kept."""
        by, table, eps, repeat = key
        if self.task is None or self.task.name != table:
            self.task = load(table)
        task, spent = self.task, 0.0
        grid = Grid.of(task)
        train, test = split(task, repeat)
        real, unseen = grid.codes(train), grid.codes(test)
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder, "real.npy"), Path(folder, "made.npy")
            np.save(path, real)
            if by == "real rows":
                made = unseen
            elif by in mine_of():
                records, spent = made_by_us(task, train, eps, by)
                made = grid.codes(
                    {k: [None if value is None else str(value) for value in v] for k, v in records.items()}
                )
            else:
                peer, _, how = by.partition("-")
                bins = Grid.even(task) if how == "even" else grid
                np.save(path, bins.codes(train))
                rho = float(rho_within(Approx(eps, DELTA)))
                answer = self.beside.ask(
                    do=peer,
                    codes=str(path),
                    sizes=bins.sizes,
                    rho=rho,
                    to=str(out),
                    method="round" if how == "round" else "sample",
                )
                if "failed" in answer:
                    print(f"{by} failed on {table} at eps {eps}: {answer['failed']}", flush=True)
                    return None
                spent, made = answer["seconds"], np.load(out)
                if how == "even":
                    made = grid.codes(bins.values(made, np.random.default_rng(0)))
                np.save(path, real)
            np.save(out, made)
            score = np.nan
            if self.beside.process is not None:
                score = self.beside.ask(do="score", real=str(path), made=str(out))["score"]
        target = list(task.domain.names).index(task.target)
        with threadpool_limits(1):
            learned = auc(real if by == "real rows" else made, unseen, target)
        return [*distances(real, made, grid.sizes).values(), learned, score, spent]


def split(task: Task, seed: int) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Four fifths to learn from, one to test on."""
    order = np.random.default_rng(seed).permutation(task.n)
    cut = task.n * 4 // 5
    first, last = ({k: [v[i] for i in at] for k, v in task.data.items()} for at in (order[:cut], order[cut:]))
    return first, last


def made_by_us(task: Task, train: dict[str, list[Any]], eps: str, method: str) -> tuple[Any, float]:
    """Records as values, and the processor time of learning, fitting and drawing them."""
    method, _, singly = method.partition("-")
    plan: Any = ob.synth.plan(task.domain, unit=ob.Unit.row(), eps=eps, delta=DELTA, method=method)
    codes = plan.prepare(train)
    start = time.process_time()
    measured = plan.measure(codes, system_bits())
    sampler = TreeSampler(plan.law(measured), measured.bins)
    n, rng = codes.shape[1], np.random.default_rng(0)
    drawn = sampler.draw(n * (40 if singly else 1), {}, rng)
    if singly:  # as good as one by one: few of very many
        picked = rng.choice(40 * n, n)
        drawn = [column[picked] for column in drawn]
    spent = time.process_time() - start
    return to_table(task.domain, drawn).to_pydict(), spent
