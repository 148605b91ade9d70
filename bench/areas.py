"""Tables over areas: errors against the default tree of the mesh, shares against an exhaustive search, time and memory.

On generated countries of about 387,000 cells of 1 km in 1,900 municipalities in 47 prefectures, by sex and five ages. The default
plan was made with the first kind of country in view; the others have other coasts, and municipalities of other sizes and forms.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import sqrt

import numpy as np
import numpy.typing as npt

from bench.measure import Row
from oboro.domain import Areas, Category, Domain, Grid
from oboro.privacy import Unit
from oboro.tables.nested.answers import Pieces
from oboro.tables.nested.lattice import AreaLattice
from oboro.tables.nested.planner import Forms, Problem, mesh_design, plan_shares, questions
from oboro.tables.nested.strategy import AreaTree
from oboro.tables.plan import plan
from oboro.tables.tree.partition import grouped
from oboro.tables.tree.workload import areas, block, cells

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CELLS, TOWNS, REGIONS, SIDE = 387_000, 1_900, 47, 1_280
COUNTRIES = ("islands", "plains", "valleys")
BESIDE = (Category("sex", ["F", "M"]), Category("age", ["0", "15", "30", "45", "65"]))
_STEPS = 40  # of shares in the exhaustive search


def rows() -> Iterator[Row]:
    for country in COUNTRIES:
        yield from errors(country)
    for seed in range(3):
        yield exhaustive(seed)
    spent, released, megabytes = alone("islands")
    what = f"{CELLS:,} cells x sex x 5 ages"
    yield Row(f"{what}: plan", spent, "what it may take", 2.0, "s", 2 / spent, 1)
    yield Row(f"{what}: release", released, "what it may take", 20.0, "s", 20 / released, 1)
    yield Row(f"{what}: release", megabytes, "what it may take", 2000.0, "MB", 2000 / megabytes, 1)


@cache
def column(country: str) -> Areas:
    """Land, municipalities and prefectures of one country, by a fixed generator."""
    random = np.random.default_rng([COUNTRIES.index(country), 7])
    row, col = (part.reshape(-1) for part in np.mgrid[:SIDE, :SIDE])
    height = _hills(random, {"islands": 6, "plains": 2, "valleys": 16}[country])
    if country == "plains":  # one round country
        height -= 3 * np.hypot(row - SIDE / 2, col - SIDE / 2) / SIDE
    if country == "islands":  # a long one, from corner to corner
        height -= 5 * np.abs(row - col) / SIDE
    land = np.sort(np.argpartition(-height, CELLS)[:CELLS])
    place = np.stack([row[land], col[land]], axis=1).astype(float)
    # where municipalities are: as many people as hills say, or spread evenly, or along narrow valleys
    weight = np.exp({"islands": 1.5, "plains": 0.0, "valleys": 1.0}[country] * random.normal(size=CELLS))
    if country == "islands":
        weight *= np.exp(1.5 * _hills(random, 12)[land])
    seeds = place[random.choice(CELLS, TOWNS, replace=False, p=weight / weight.sum())]
    squeeze = np.array([1.0, 4.0]) if country == "valleys" else np.ones(2)
    town = _nearest(place * squeeze, seeds * squeeze)
    centres = seeds[random.choice(TOWNS, REGIONS, replace=False)]
    region = _nearest(seeds, centres)[town]
    table = {
        "prefecture": [f"{one:02d}" for one in region.tolist()],
        "municipality": [f"{a:02d}{b:04d}" for a, b in zip(region.tolist(), town.tolist(), strict=True)],
        "row": row[land],
        "col": col[land],
    }
    levels = ["prefecture", "municipality", "row,col"]
    return Areas("row,col", levels=levels, table=table, of=Grid("row", "col", shape=(SIDE, SIDE)))


def _hills(random: np.random.Generator, number: int) -> Floats:
    """A smooth surface: waves of all lengths, from so many in the country on, the long ones higher."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None, :]) * SIDE
    waves = random.normal(size=frequency.shape) + 1j * random.normal(size=frequency.shape)
    surface = np.fft.irfft2(waves / np.maximum(frequency, number) ** 1.8, (SIDE, SIDE)).reshape(-1)
    return np.asarray((surface - surface.mean()) / surface.std())


def _nearest(places: Floats, seeds: Floats) -> Integers:
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(seeds).query(places)[1], np.int64)


def errors(country: str) -> Iterator[Row]:
    """Standard errors before counts are kept at 0 or more, of all municipalities, blocks and cells; over the mesh tree's."""
    made = plan(Domain([column(country), *BESIDE]), unit=Unit.cells(), eps="0.5")
    strategy = made.mechanism
    assert isinstance(strategy, AreaTree)
    lattice, scale = strategy.lattice, 2 * (1 / float(strategy.eps)) ** 2
    branches, nothing = lattice.branches, (0,) * len(lattice.beside)
    found = mesh_design(lattice)
    assert found is not None
    mesh, mu = found
    base, finest = mesh.trees[0], tuple(tree.depth for tree in lattice.beside)
    towns = np.repeat(np.arange(branches.nodes(2)), np.diff(branches.bounds[2]))
    row, col = branches.column.decode(branches.order)
    wanted = {"municipalities": (towns, 0.4), "8 x 8": (grouped(row // 8, col // 8)[2], 1.1)}
    wanted["cells"] = np.arange(branches.leaves), 1.1
    wanted["64 x 64"] = grouped(row // 64, col // 64)[2], 0.0
    wanted["prefectures"] = np.repeat(np.arange(branches.nodes(1)), np.diff(branches.bounds[1])), 0.0
    for name, (group, most) in wanted.items():
        size = int(group.max()) + 1
        variances = Pieces.of(strategy.ways, branches, group, size).variances
        profile = _seen(group, size, branches.places, base)
        if " x " in name:  # of the mesh tree whole blocks, with the sea in them: these are what it counts
            side = int(name.partition(" ")[0])
            profile = block(base, next(at for at in range(base.depth + 1) if base.under(at) == side**2))
        for by, others in (("", nothing), (" by sex and age", finest)):
            theirs = profile
            for tree, at in zip(mesh.trees[1:], others, strict=True):
                theirs = np.multiply.outer(theirs, block(tree, at))
            expected = float((theirs / mu).sum()) * scale
            ratio = sqrt(float((np.array(strategy.seen(others)) @ variances).mean()) / expected)
            limit, target = (most, 1) if most else (ratio, None)
            what = f"{country}: {name}{by}"
            yield Row(what, ratio, "the most it may be of the mesh tree", limit, "", limit / ratio, target)


def _seen(group: Integers, size: int, places: Integers, base: object) -> Floats:
    """The mean profile of groups of cells in the tree of the mesh: what each level sees of one that no coarser one does."""
    squares = []
    for at in range(base.depth + 1):
        held = np.unique(group * base.leaves + places // base.under(at), return_counts=True)[1].astype(float)
        squares.append(float((held**2).sum()) / base.under(at) / size)
    return np.maximum(np.diff(squares, prepend=0.0), 0.0)


def exhaustive(seed: int) -> Row:
    """A tree of four levels: the error of the planned shares over the best of all multiples of 1/40."""
    random = np.random.default_rng(seed)
    towns = random.integers(0, 7, 60)
    table = {
        "region": [f"r{t % 3}" for t in towns],
        "town": [f"t{t}" for t in towns],
        "cell": [f"c{i}" for i in range(60)],
    }
    domain = Domain([Areas("cell", levels=["region", "town", "cell"], table=table)])
    lattice, workload = AreaLattice.of(domain), areas("region", "town") + cells()
    asked, weights = questions(lattice, workload)
    problem = Problem(lattice, Forms.of(lattice.branches), asked, weights, 2)
    mine = np.zeros(4)
    for level, share in zip(*plan_shares(domain, workload), strict=True):
        mine[lattice.levels.index(level)] = float(share)
    best = min(
        problem.value(np.array([a, b, c, _STEPS - a - b - c]) / _STEPS)[0]
        for a, b, c in product(range(_STEPS), repeat=3)
        if a + b + c < _STEPS
    )
    ratio = float(np.exp((problem.value(mine)[0] - best) / 2))
    return Row(
        f"small tree {seed}: planned shares",
        ratio,
        "the most it may be of the best",
        1.02,
        "",
        1.02 / ratio,
        1,
    )


def alone(country: str) -> tuple[float, float, float]:
    """Processor time of a plan and of a release, and the most memory, in a process of its own that compiled its loops before."""
    done = subprocess.run(
        [sys.executable, "-c", _RELEASE.format(country=country)], check=True, capture_output=True, text=True
    )
    spent, released, megabytes = map(float, done.stdout.split())
    return spent, released, megabytes


_RELEASE = """
import re, time
import numpy as np, pyarrow as pa
import oboro as ob
from bench.areas import BESIDE, column
from oboro.noise import system_bits
from oboro.tables.nested.planner import plan_shares

small = {{"town": ["a", "a", "b"], "row": [0, 1, 2], "col": [0, 0, 0]}}
few = ob.Areas("row,col", levels=["town", "row,col"], table=small, of=ob.Grid("row", "col", shape=(4, 4)))
first = ob.tables.plan(ob.Domain([few, *BESIDE]), unit=ob.Unit.cells(), eps="0.5")
first.publish(first.measure(first.prepare({{"row": [0], "col": [0], "sex": ["F"], "age": ["0"]}}), system_bits()))
country = column("{country}")
row, col = country.decode(np.arange(country.size))
random = np.random.default_rng(1)
size = 2 * country.size
at = random.integers(0, country.size, size)
table = pa.table({{"row": row[at], "col": col[at], "sex": random.choice(["F", "M"], size),
                  "age": random.choice(["0", "15", "30", "45", "65"], size), "people": random.geometric(0.03, size)}})
domain = ob.Domain([country, *BESIDE])
start = time.process_time()
plan = ob.tables.plan(domain, unit=ob.Unit.cells(), eps="0.5", count="people")
planned = time.process_time() - start
start = time.process_time()
plan.publish(plan.measure(plan.prepare(table), system_bits()))
released = time.process_time() - start
print(planned, released, int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1.024e-3)
"""
