"""A model that was released: draws as many records as you like, under conditions, and can be kept in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oboro.arrays import Floats, Integers, Table
from oboro.domain import Domain
from oboro.errors import CertificateError, DataError, OboroError, ParameterError, setting, told
from oboro.exact import Number, whole
from oboro.files import content_of, write_whole
from oboro.kinds import path_of, takes, text_of, unknown
from oboro.language import plain
from oboro.ledger import Ledger
from oboro.noise import Bits
from oboro.privacy import Guarantee, Unit
from oboro.release import Certificate, Release, plan_from, run
from oboro.release.certificate import unpacked, verify_unpacked
from oboro.release.release import checked_ending
from oboro.synth.codes import code_count, to_table
from oboro.synth.conditions import Wanted, conditions, in_normal_form, wanted_codes, where_of
from oboro.synth.contents import check_model_room, contents_of, no_room
from oboro.synth.copula import CopulaSampler, MomentsPlan, Segments, correlations, restricted
from oboro.synth.junction import LEAST, Law, Mask, Zeros, size_of_tree, spread_evenly, sum_axes, with_evidence
from oboro.synth.levels import COUNTINGS
from oboro.synth.marginals import MOST_SECONDS, SECONDS, SINGLE, MarginalsPlan, QualityPlan
from oboro.synth.marks import MOST_SEED, mark_of_draw, marked
from oboro.synth.measured import Binned, from_rows, longest_text, schema_of_rows
from oboro.synth.plan import ModelPlan, TablesPlan, promised
from oboro.synth.records import GaussianPlan, gaussian_plan
from oboro.synth.rules import in_whole_numbers, shared_out, tied_by, totals_of, with_sums, zeros_of

if TYPE_CHECKING:
    import pyarrow as pa

    from oboro.arrays import Data


# Records from a law of bins: first the bins, then a block of codes within each, then a code.


class Sampler(Protocol):
    """Draws records as codes, one array for each column."""

    def draw(self, n: int, wanted: Mapping[int, Wanted], rng: np.random.Generator) -> list[Integers]: ...


@dataclass(frozen=True, slots=True)
class TreeSampler:
    """A junction tree over bins."""

    law: Law
    bins: tuple[Binned, ...]
    zeros: tuple[Zeros, ...] = ()  # what is ruled out

    def draw(self, n: int, wanted: Mapping[int, Wanted], rng: np.random.Generator) -> list[Integers]:
        under = self._under(wanted) or self._under(wanted, loose=True)
        if under is None:  # nothing else rules anything out
            raise _left_nothing("what is impossible leaves no record with these values")
        drawn = self.law.junction.draw(under[0], n, rng, under[1])
        segments = [restricted(column.shape, wanted.get(i)) for i, column in enumerate(self.bins)]
        return [codes_within(column, segments[i], drawn[i], rng) for i, column in enumerate(self.bins)]

    def leaves_nothing(self, wanted: Mapping[int, Wanted]) -> bool:
        """Whether what is impossible rules out all that is wanted."""
        return self._under(wanted, loose=True) is None

    def beside(self, i: int, wanted: Mapping[int, Wanted], loose: bool) -> Beside | None:
        """The law of a column, and of the others given its values, under conditions on the others; None where they leave no record."""
        under = self._under({j: one for j, one in wanted.items() if j != i}, loose, own=i)
        if under is None:
            return None
        laws, support = under
        k = self.law.junction.home((i,))
        found = np.maximum(sum_axes(laws[k], self.law.junction.cliques[k], (i,)), LEAST)
        axes = tuple(place for place, axis in enumerate(self.law.junction.cliques[k]) if axis != i)
        shares = found if support is None else np.where(support[k].any(axis=axes), found, 0.0)
        return Beside(shares, laws, support)

    def draw_beside(
        self,
        i: int,
        codes: Integers,
        wanted: Mapping[int, Wanted],
        beside: Beside,
        rng: np.random.Generator,
    ) -> list[Integers]:
        """Records with these codes in a column; its codes meet the conditions and can occur."""
        junction, order = self.law.junction.rooted(self.law.junction.home((i,)))
        given = (i, self.bins[i].bins_of(codes))
        support = beside.support
        drawn = junction.draw(
            [beside.laws[k] for k in order],
            codes.size,
            rng,
            [support[k] for k in order] if support else None,
            given,
        )
        return [
            codes if j == i else codes_within(column, restricted(column.shape, wanted.get(j)), drawn[j], rng)
            for j, column in enumerate(self.bins)
        ]

    def _under(
        self, wanted: Mapping[int, Wanted], loose: bool = False, own: int | None = None
    ) -> tuple[list[Floats], list[Mask] | None] | None:
        """The laws under conditions, and what can occur at all, None where nothing is ruled out; no laws where no record is left.

        First only what the model believes to be there is open. Rules may leave nothing of that: then (`loose`) all that is wanted is alike, and nulls
        that nobody is believed to have may be drawn. What the column `own` holds is decided elsewhere.
        """
        if loose:
            evidence = {i: self.opened(i, one) for i, one in wanted.items()}
        else:
            evidence = {i: self.kept(i, one) for i, one in wanted.items()}
            for i in range(len(self.bins)):
                if i not in wanted and i != own and (unheld := self._unheld(i)).any():
                    evidence[i] = (~unheld).astype(float)
        potentials = with_evidence(self.law.junction, self.law.potentials, evidence)
        # what is excluded has no share at all, not even a tiny one
        closed = [*self.zeros, *(Zeros((i,), weight > 0) for i, weight in evidence.items())]
        support = self.law.junction.support(closed) if closed else None
        if support is not None and not support[0].any():
            return None
        return self.law.junction.marginals(potentials), support

    def lives(self, i: int) -> Mask:
        """Which bins of a column belong to a record that is possible."""
        junction = self.law.junction
        k = junction.home((i,))
        axes = tuple(place for place, axis in enumerate(junction.cliques[k]) if axis != i)
        return np.asarray(junction.support(self.zeros)[k].any(axis=axes))

    def kept(self, i: int, wanted: Wanted) -> Floats:
        """Which share of each bin is wanted; a bin of values that is believed empty counts by how many of its codes are."""
        column = self.bins[i]
        segments = restricted(column.shape, wanted)
        mass = np.bincount(column.bin[segments.block], segments.mass, minlength=column.size)
        whole, opened = column.mass, self.opened(i, wanted)
        empty = np.where(self._unheld(i), 0.0, opened)
        kept = np.where(whole > 0, mass / np.maximum(whole, 1e-12), empty)
        return (
            kept if kept.any() else opened
        )  # nothing is believed to be there: then all of what is wanted is alike

    def opened(self, i: int, wanted: Wanted) -> Floats:
        """Which part of each bin's codes is wanted."""
        column = self.bins[i]
        segments = restricted(column.shape, wanted)
        width = segments.stop - segments.start
        codes = np.bincount(column.bin[segments.block], width, minlength=column.size)
        return np.asarray(codes / np.bincount(column.bin, column.shape.stop - column.shape.start))

    def _unheld(self, i: int) -> Mask:
        """The bin of nulls alone that nobody is believed to have: noise in tables must not make any."""
        column = self.bins[i]
        values = np.bincount(column.bin, column.shape.start < column.shape.values, minlength=column.size)
        return np.asarray((values == 0) & (column.mass <= 0))


@dataclass(frozen=True, slots=True)
class Beside:
    """A column's law under conditions on the others, exactly 0 where none can occur; and the laws of all cliques, with what they can hold."""

    shares: Floats
    laws: list[Floats]
    support: list[Mask] | None


@dataclass(frozen=True, slots=True)
class KnownSampler:
    """A tree whose records have the known totals of a column: so many with each value, each drawn given that value.

    Under conditions, which may leave any share of each value, it draws as the tree does with the totals as its law.
    """

    tree: TreeSampler
    domain: Domain
    total: float
    public: bool  # whether that is the number of records, and not an estimate

    def draw(self, n: int, wanted: Mapping[int, Wanted], rng: np.random.Generator) -> list[Integers]:
        name, totals = self.domain.rules.known[0]
        place = self.domain.names.index(name)
        known, others = np.array([code for code, _ in totals], np.int64), self._others()
        asked = wanted.get(place)
        left = others if asked is None else others[_within(others, asked)]
        meet = np.ones(known.size, np.bool_) if asked is None else _within(known, asked)
        for loose in (False, True):
            beside = self.tree.beside(place, wanted, loose)
            if beside is None:
                continue
            rest = np.zeros(0)
            if left.size:
                only = _ranges(left)
                rest = beside.shares * (self.tree.opened if loose else self.tree.kept)(place, only)
            own = self._shared_out(n, bool(wanted), known, meet, others, rest, beside.shares, rng)
            if own is not None:
                codes = np.repeat(known, own[:-1])
                if own[-1]:
                    codes = np.append(codes, self._rest(place, own[-1], only, rest, rng))
                return self.tree.draw_beside(place, codes[rng.permutation(n)], wanted, beside, rng)
        raise _left_nothing(self._why_nothing(wanted, meet, left.size > 0))

    def _why_nothing(self, wanted: Mapping[int, Wanted], meet: Mask, others: bool) -> str:
        """Whether what is impossible leaves no record, or the totals do, or only both."""
        if self.tree.leaves_nothing(wanted):
            return "what is impossible leaves no record with these values"
        counts = totals_of(self.domain, self.total, others)
        if not counts[np.append(meet, others)].any() and (self.public or not others):
            return "the known totals leave no record with these values"
        return "what is impossible and the known totals together leave no record with these values"

    def _rest(self, place: int, n: int, only: Wanted, weight: Floats, rng: np.random.Generator) -> Integers:
        """Codes of records whose value has no known total."""
        column = self.tree.bins[place]
        bins = spread_evenly(weight[None, :] / weight.max(), np.zeros(n, np.int64), rng)
        bins = np.where(weight[bins] > 0, bins, weight.argmax())  # the ends of intervals are rounded
        return codes_within(column, restricted(column.shape, only), bins, rng)

    def _others(self) -> Integers:
        """The codes whose total is not known, and that can occur. None where the totals of all values are known: then nothing is missing."""
        name, totals = self.domain.rules.known[0]
        place, column = self.domain.names.index(name), self.domain[name]
        if len(totals) == column.size:
            return np.zeros(0, np.int64)
        codes = np.arange(code_count(column))
        lives = self.tree.lives(place)[self.tree.bins[place].bins_of(codes)]
        return codes[lives & ~np.isin(codes, [code for code, _ in totals])]

    def _shared_out(
        self,
        n: int,
        asked: bool,
        known: Integers,
        meet: Mask,
        others: Integers,
        rest: Floats,
        law: Floats,
        rng: np.random.Generator,
    ) -> list[int] | None:
        """How many of n records have each known value, and last another; None where one that must occur cannot.

        Under conditions by Bayes, from the totals and the tree: `meet` are the values that do, `law` is that of the column under the conditions on the
        rest, and `rest` is what it has for others. In logarithms, since the tree may give next to nothing to what the totals are sure of.
        """
        place = self.domain.names.index(self.domain.rules.known[0][0])
        bins = self.tree.bins[place].bins_of(known)
        counts = totals_of(self.domain, self.total, others.size > 0)
        can = np.append(meet & (law[bins] > 0), rest.any())
        if not asked:
            return shared_out(counts.tolist(), n, rng) if can[counts > 0].all() else None
        if not counts[can].any():  # an estimate of how many records there are does not exclude others
            if not can[-1] or self.public:
                return None
            counts[-1] = 1
        plain = self.tree.beside(place, {}, loose=False) or self.tree.beside(place, {}, loose=True)
        assert plain is not None  # some record is possible
        before, after = np.append(plain.shares[bins], 0.0), np.append(law[bins], rest.sum())
        if others.size:
            before[-1] = plain.shares @ self.tree.kept(place, _ranges(others))
        can &= counts > 0
        logs = (
            np.log(np.maximum(after, LEAST))
            - np.log(np.maximum(before, LEAST))
            + np.log(np.maximum(counts, LEAST))
        )
        weights = np.where(can, np.exp(logs - logs[can].max(), where=can, out=np.zeros(can.size)), 0.0)
        return shared_out(in_whole_numbers(weights), n, rng)


def _left_nothing(why: str) -> ParameterError:
    """The conditions themselves are added by whoever set them."""
    return ParameterError(why, needed="values that can occur together", argument="where")


def _ranges(codes: Integers) -> Wanted:
    """Codes in increasing order, as ranges."""
    first = np.flatnonzero(np.diff(codes, prepend=-2) != 1)
    last = np.append(first[1:], codes.size) - 1
    return Wanted(codes[first], codes[last] + 1)


def _within(codes: Integers, wanted: Wanted) -> Mask:
    at = np.searchsorted(wanted.start, codes, side="right") - 1
    return (at >= 0) & (codes < wanted.stop[np.maximum(at, 0)])


def codes_within(column: Binned, segments: Segments, bins: Integers, rng: np.random.Generator) -> Integers:
    """A code for each record, given its bin."""
    owner = column.bin[segments.block]
    order = np.argsort(owner, kind="stable")
    held = np.bincount(owner, segments.mass, minlength=column.size)
    values = segments.start < column.shape.values  # an empty bin is drawn from evenly, but never gives a null
    mass = np.where(held[owner] > 0, segments.mass, values * (segments.stop - segments.start))[order]
    first = np.searchsorted(owner[order], np.arange(column.size))
    place = np.empty(bins.size, np.int64)
    for b in range(column.size):
        inside = np.flatnonzero(bins == b)
        if inside.size:
            last = first[b + 1] if b + 1 < column.size else owner.size
            law = mass[first[b] : last][None, :]
            place[inside] = first[b] + spread_evenly(law, np.zeros(inside.size, np.int64), rng)
    chosen = order[place]
    width = segments.stop[chosen] - segments.start[chosen]
    return np.asarray(
        segments.start[chosen] + np.minimum((rng.random(bins.size) * width).astype(np.int64), width - 1)
    )


MOST_RECORDS = 10**9


@dataclass(frozen=True, slots=True)
class Model:
    """What a plan learned, noisy all of it. The model itself is private, so drawing from it spends nothing more.

    >>> model = ob.synth.release(data, ob.synth.plan(domain, unit=unit, rho="0.5"), ledger=ledger)
    >>> model.sample(1000, where={"sex": "f"}).num_rows
    1000
    >>> str(model.save("people.oboro"))
    'people.oboro'
    """

    plan: ModelPlan
    certificate: Certificate
    table: Any = field(repr=False)
    _sampler: Sampler = field(repr=False)
    _packed: bytes = field(repr=False)  # its file: the ledger, which signs it, is not needed again

    @property
    def guarantee(self) -> Guarantee:
        return self.plan.guarantee

    @property
    def unit(self) -> Unit:
        return self.plan.unit

    @property
    def domain(self) -> Domain:
        return self.plan.domain

    def to_arrow(self) -> pa.Table:
        """The release itself: the noisy measurements that the model is made of."""
        return self.table

    def sample(
        self, n: int, where: Mapping[str, object] | None = None, *, seed: int | None = None
    ) -> pa.Table:
        """n synthetic records as an Arrow table, with the domain's columns in their order.

        `where` sets conditions: {"sex": "F"}, {"region": ["north", "south"]}, {"age": (18, 64)} with both ends, of which None leaves one
        open, {"income": None} for missing.
        `seed` repeats a draw; it has no bearing on privacy, as the model is public once it is released. The table is marked as synthetic:
        its metadata hold the model, its certificate and the seed, Parquet and Arrow files keep them, and `check` draws the records again.
        """
        count = whole("n", n, least=0, most=MOST_RECORDS, open=True)
        chosen = _any_seed() if seed is None else whole("seed", seed, least=0, most=MOST_SEED)
        wanted = in_normal_form(self.domain, wanted_codes(self.domain, where))
        said = mark_of_draw(count, chosen, wanted, self.domain, self.certificate, self.bundle())
        return marked(self.draw(count, wanted, chosen), said)

    def draw(self, n: int, wanted: Mapping[int, Wanted], seed: int) -> Table:
        """The records of one seed, without a mark; conditions as codes."""
        rng = np.random.default_rng(seed)
        learned = self.plan.learned
        if totals := [self.domain.names[i] for i in wanted if self.domain.names[i] not in learned]:
            raise ParameterError(
                f"column {totals[0]!r} is the sum of others: no condition can be set on it",
                given=conditions({totals[0]: where_of(wanted, self.domain)[totals[0]]}),
                needed="conditions on the columns that it is the sum of",
            )
        asked = {learned.names.index(self.domain.names[i]): one for i, one in wanted.items()}
        try:
            codes = self._sampler.draw(n, asked, rng) if n else [np.zeros(0, np.int64)] * len(learned)
        except ParameterError as error:  # a sampler knows codes only
            error.given = conditions(where_of(wanted, self.domain))
            raise
        return to_table(self.domain, with_sums(self.domain, codes))

    def bundle(self) -> bytes:
        """What `save` writes."""
        return self._packed

    def save(self, path: str | Path) -> Path:
        """Writes one file: the measurements as they were committed, and their certificate."""
        where = Path(path)
        checked_ending(self.plan, where)
        write_whole(where, self.bundle())
        return where

    def __str__(self) -> str:
        names, released, dataset = (
            plain(text)
            for text in (
                ", ".join(self.domain.names),
                self.certificate.record["released"],
                self.certificate.record["dataset"],
            )
        )
        return (
            f"{released}\n  columns    {names}\n  guarantee  {plain(str(self.guarantee))}\n  unit       {plain(str(self.unit))}\n"
            f"  dataset    {dataset}\n  records    model.sample(n): as many as you like, at no further cost"
        )

    __repr__ = __str__


def _any_seed() -> int:
    return int(np.random.default_rng().integers(2**53))  # what every reader of JSON keeps exactly


def model_of(release: Release) -> Model:
    """The model that a release describes. Post-processing: from the released table alone."""
    plan = release.plan
    if not isinstance(plan, ModelPlan):
        raise ParameterError(
            "the release is not a model",
            given=plan.kind,
            needed="synth.marginals, synth.quality or synth.moments",
            fix="published.parquet",
        )
    table = release.to_arrow()
    return Model(plan, release.certificate, table, _sampler(plan, table), release.bundle())


@takes(path=path_of)
def load(path: str | Path) -> Model:
    """Reads a model, from its file or from the mark of records that were drawn from it, and checks that its measurements are those
    that its certificate was signed for.

    >>> model = ob.synth.release(data, ob.synth.plan(domain, unit=unit, rho="0.5"), ledger=ledger)
    >>> ob.synth.load(model.save("people.oboro")).sample(10, seed=1) == model.sample(10, seed=1)
    True
    """
    packed = content_of(path, needed="a model that oboro synth release wrote", fix="model.oboro")
    if unpacked(packed) is None:
        from oboro.synth.check import model_in

        packed = model_in(Path(path), packed) or packed
    return loaded(packed, path)


def loaded(packed: bytes, path: str | Path) -> Model:
    """A model from what its file holds; errors name the file."""
    parts = unpacked(packed)
    if parts is None:
        raise DataError(
            f"{path} is not a model",
            given=str(path),
            needed="a file that oboro synth release wrote",
            fix="model.oboro",
        )
    certificate = verify_unpacked(*parts, path)
    record = certificate.record
    plan = plan_from(record["plan"])
    if not isinstance(plan, ModelPlan):
        raise CertificateError(
            f"{path} holds no model",
            given=str(record["plan"].get("kind")),
            needed="synth.marginals, synth.quality or synth.moments",
        )
    try:
        table = _measurements(parts[0], plan, path)
        return Model(plan, certificate, table, _sampler(plan, table), packed)
    except OboroError:
        raise
    except MemoryError:
        raise no_room(path) from None
    except Exception:  # whoever signed it: public numbers that are not those of the plan
        raise CertificateError(
            f"{path} holds measurements that are not those of its plan",
            given=str(path),
            needed="a file that oboro synth release wrote",
        ) from None


_OF_A_ROW = 256  # bytes that a measurement takes while it is read, beside its texts
_OF_A_CELL = 128  # and a cell of the model while it is fitted


def _measurements(released: bytes, plan: ModelPlan, path: str | Path) -> Table:
    """The table of a model file, of which anybody may have signed another: how much it takes is known before it is made.

    A few kilobytes may say that they are any number of rows, and a few small tables may tie all columns together.
    """
    import pyarrow as pa

    contents, width = contents_of(pa.BufferReader(released), ".parquet"), longest_text(plan.learned)
    check_model_room(contents.rows * (_OF_A_ROW + 4 * width), path)
    schema = schema_of_rows()
    table = pa.Table.from_batches(contents.read(schema, [width] * len(schema)), schema=schema)
    measured = from_rows(table, plan.learned)
    sizes = [column.size for column in measured.bins]
    tables = [columns for columns, _ in measured.tables]
    check_model_room(size_of_tree(sizes, [*tables, *tied_by(plan.learned)]) * _OF_A_CELL, path)
    return table


def _sampler(plan: ModelPlan, table: Table) -> Sampler:
    measured = from_rows(table, plan.learned)
    if isinstance(plan, TablesPlan):
        tree = TreeSampler(plan.law(measured), measured.bins, tuple(zeros_of(plan.learned, measured.bins)))
        if not plan.domain.rules.known:
            return tree
        return KnownSampler(tree, plan.learned, plan.ones.total(measured.levels), plan.n is not None)
    return CopulaSampler(correlations(measured, plan.ones.total(measured.levels)), measured.bins)


# The two calls that a user makes: a plan for synthetic data, and its release.

METHODS = ("quality", "marginals", "moments", "gaussian")
SynthPlan = ModelPlan | GaussianPlan


@takes(domain=Domain, unit=Unit)
def plan(
    domain: Domain,
    *,
    unit: Unit,
    eps: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    n: int | None = None,
    method: str = "quality",
    seconds: int | None = None,
    records: int | None = None,
    n_min: int | None = None,
    assume_min_eigenvalue: Number | None = None,
    impossible: Any = None,
    known: Any = None,
    sums: Any = None,
) -> SynthPlan:
    """A plan for synthetic data about every column of the domain.

    method         what is released                                                          records
    "quality"      a model: each column, and tables of two or three, chosen by their error   as many as you like
    "marginals"    the quick one: each column, and a tree of pairs                           as many as you like
    "moments"      a model: each column, and noisy correlations                              as many as you like
    "gaussian"     the records of a Gaussian, by the paper's method                          `records`, fixed now

    `n` is the number of rows: needed for `Unit.row("replace")`, where it is public, and refused where it is private. `rho` instead of eps and
    delta is for a ledger of zCDP; eps alone, for a ledger of eps, is kept with more noise. `seconds` bounds the work of "quality", 60 by default: more seconds
    allow a larger model. `n_min` and `assume_min_eigenvalue` belong to the Gaussian method.

    `impossible`, `known` and `sums` are what is known of records beforehand, in place of what the domain declares (`ob.Domain`): conditions that no record
    meets at once, [{"work": "retired", "age": (0, 29)}]; public totals of one column, {"sex": {"f": 2700}}; columns that are sums of others,
    {"income": ["wages", "rent"]}. Records drawn from the model keep them exactly.

    >>> plan = ob.synth.plan(domain, unit=unit, eps=1, delta="1e-6")
    >>> print(plan.forecast())
    expected error of each count that the model is made of
      of each                  standard error  95% within ±
      count of age                       16.6            33
      count of sex                      16.37            32
      count of a chosen table           5.849            11
      note: the budget can carry all pairs of columns, 1, from about 1,700 records on: noise within a tenth of them
      note: one table of up to three columns will be chosen; oboro synth report measures what comes of it
      note: learning and fitting take from about 1 up to about 2 seconds of one core, the more the larger the model becomes; reading the data comes on top
    """
    if text_of("method", method) not in METHODS:
        raise unknown("method", method, METHODS)
    if seconds is not None and method != "quality":
        raise ParameterError(
            "only the method quality takes a number of seconds",
            given=told(method=method, seconds=f"{seconds}"),
            needed="quality, or no seconds",
            fix=setting(method="quality", seconds=60),
        )
    if any(rule is not None for rule in (impossible, known, sums)):
        domain = domain.ruled(impossible, known, sums)
    if method == "gaussian":
        if records is None or eps is None or delta is None or rho is not None:
            raise ParameterError(
                "the Gaussian method needs eps, delta and the number of records",
                given=told(eps=f"{eps}", delta=f"{delta}", rho=f"{rho}", records=f"{records}"),
                needed="records: each one costs, so their number is part of the plan",
                fix=setting(eps=3, delta="1e-5", records=10**5, **({} if rho is None else {"rho": None})),
            )
        return gaussian_plan(
            domain,
            unit=unit,
            eps=eps,
            delta=delta,
            records=records,
            n=n,
            n_min=n_min,
            assume_min_eigenvalue=assume_min_eigenvalue,
        )
    extra = {"records": records, "n_min": n_min, "assume_min_eigenvalue": assume_min_eigenvalue}
    if any(value is not None for value in extra.values()):
        raise ParameterError(
            f"method {method!r} gives a model, not a fixed number of records",
            given=told(**{name: str(value) for name, value in extra.items() if value is not None}),
            needed="none of these: as many records as you like are drawn from the model after the release",
            fix=setting(**{name: None for name, value in extra.items() if value is not None}),
        )
    kinds: dict[str, type[ModelPlan]] = {
        "marginals": MarginalsPlan,
        "quality": QualityPlan,
        "moments": MomentsPlan,
    }
    if method == "quality":
        limit = SECONDS if seconds is None else whole("seconds", seconds, least=1, most=MOST_SECONDS)
        return QualityPlan(
            domain, unit, promised(eps, delta, rho), n, COUNTINGS, seconds=limit, single=SINGLE
        )
    return kinds[method](domain, unit, promised(eps, delta, rho), n, COUNTINGS)


def release(
    data: Data, plan: SynthPlan, *, ledger: Ledger, name: str | None = None, bits: Bits | None = None
) -> Any:
    """Runs a plan, once, and pays for it. Gives a `Model`; for the Gaussian method a `Release` whose table is the records.

    >>> model = ob.synth.release(data, ob.synth.plan(domain, unit=unit, rho="0.5"), ledger=ledger)
    >>> model.sample(3).column_names, ledger.remaining
    (['age', 'sex'], ZCDP('0.5'))
    """
    released: Release = run(plan, data, ledger, name, bits=bits)
    return released if isinstance(plan, GaussianPlan) else model_of(released)


__all__ = ["METHODS", "Model", "SynthPlan", "plan", "release"]
