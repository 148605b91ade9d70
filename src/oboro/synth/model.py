"""A model that was released: draws as many records as you like, under conditions, and can be kept in one file."""

from __future__ import annotations

import io
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oboro.domain import Domain
from oboro.errors import CertificateError, DataError, ParameterError
from oboro.exact import whole
from oboro.files import reads, write_whole
from oboro.kinds import path_of, takes
from oboro.language import plain
from oboro.privacy import Guarantee, Unit
from oboro.release import Certificate, Release, plan_from, read_certificate, verify_certificate
from oboro.release.files import unbundled
from oboro.release.release import BUNDLED, checked_ending
from oboro.synth.coding import to_table
from oboro.synth.conditions import wanted_codes
from oboro.synth.copula import CopulaSampler, correlations
from oboro.synth.measured import from_rows
from oboro.synth.plan import ModelPlan, TablesPlan
from oboro.synth.sampler import Sampler, TreeSampler

if TYPE_CHECKING:
    import pyarrow as pa

MOST_RECORDS = 10**9


@dataclass(frozen=True, slots=True)
class Model:
    """What a plan learned, noisy all of it. The model itself is private, so drawing from it spends nothing more."""

    plan: ModelPlan
    certificate: Certificate
    table: Any = field(repr=False)
    _sampler: Sampler = field(repr=False)
    _origin: Release | bytes = field(repr=False)  # what it was made from: a release, or the file of one

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

    def sample(self, n: int, where: Mapping[str, Any] | None = None, *, seed: int | None = None) -> pa.Table:
        """n synthetic records as an Arrow table, with the domain's columns in their order.

        `where` sets conditions: {"sex": "F"}, {"region": ["north", "south"]}, {"age": (18, 64)} with both ends, {"income": None} for missing.
        `seed` repeats a draw; it has no bearing on privacy, as the model is public once it is released.
        """
        count = whole("n", n, least=0, most=MOST_RECORDS)
        rng = np.random.default_rng(None if seed is None else whole("seed", seed, least=0))
        wanted = wanted_codes(self.domain, where)
        return to_table(
            self.domain,
            self._sampler.draw(count, wanted, rng) if count else [np.zeros(0, np.int64)] * len(self.domain),
        )

    def save(self, path: str | Path) -> Path:
        """Writes one file: the measurements as they were committed, and their certificate."""
        if isinstance(self._origin, Release):
            return self._origin.save(path)
        where = Path(path)
        checked_ending(self.plan, where)
        write_whole(where, self._origin)
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
    return Model(plan, release.certificate, release.to_arrow(), _sampler(plan, release.to_arrow()), release)


@takes(path=path_of)
def load(path: str | Path) -> Model:
    """Reads a model file, and checks that its measurements are those that its certificate was signed for."""
    import pyarrow.parquet as pq

    reads(path)
    try:
        packed = Path(path).read_bytes()
        parts = unbundled(packed, BUNDLED)
    except FileNotFoundError:
        raise DataError(
            f"no such file: {path}",
            given=str(path),
            needed="a model that oboro synth release wrote",
            fix="model.oboro",
        ) from None
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        EOFError,
    ):
        raise DataError(
            f"{path} is not a model",
            given=str(path),
            needed="a file that oboro synth release wrote",
            fix="model.oboro",
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        for name, content in parts.items():
            (Path(folder) / name).write_bytes(content)
        record = verify_certificate(Path(folder) / BUNDLED[1])
        certificate = read_certificate(Path(folder) / BUNDLED[1])
    plan = plan_from(record["plan"])
    if not isinstance(plan, ModelPlan):
        raise CertificateError(
            f"{path} holds no model",
            given=str(record["plan"].get("kind")),
            needed="synth.marginals, synth.quality or synth.moments",
        )
    table = pq.read_table(io.BytesIO(parts[BUNDLED[0]]))
    return Model(plan, certificate, table, _sampler(plan, table), packed)


def _sampler(plan: ModelPlan, table: Any) -> Sampler:
    measured = from_rows(table, plan.domain)
    if isinstance(plan, TablesPlan):
        return TreeSampler(plan.law(measured), measured.bins)
    return CopulaSampler(correlations(measured, plan.ones.total(measured.levels)), measured.bins)
