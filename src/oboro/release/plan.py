"""A plan: what will be measured, with which noise, at which guarantee. Made of public facts only.

Everything that oboro can release is a plan, and `run` is the one way to run it. A plan neither charges,
signs nor brings its own randomness, so it cannot forget to.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from oboro.domain import read_toml
from oboro.errors import InputError, ParameterError
from oboro.files import write_whole
from oboro.kinds import path_of, shown, takes
from oboro.noise.bits import Bits
from oboro.privacy import Guarantee, Unit
from oboro.release.forecast import Forecast

Table = Any  # pyarrow.Table, loaded on first use


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring datasets, as `prepare` takes them: a worst case for the audit."""

    one: Any
    other: Any
    why: str


@runtime_checkable
class Plan(Protocol):
    """What a capability implements. A frozen dataclass is enough."""

    @property
    def kind(self) -> str:
        """Such as "statistics.histogram": the package that knows it, and its name there."""

    @property
    def unit(self) -> Unit:
        """Who is protected."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""

    def forecast(self) -> Forecast:
        """The error that this plan will have. Never touches data."""

    def prepare(self, data: Any) -> Any:
        """Reads, clips, puts on the public grid, aggregates. No randomness, and no complaint about any value."""

    def measure(self, prepared: Any, bits: Bits, trials: int | None = None) -> Any:
        """The only place where noise is drawn, from the bits that are handed in.

        With `trials`, that many independent measurements along a new first axis, for the audit.
        """

    def publish(self, measured: Any) -> Table:
        """The noisy measurements as the table that goes out: post-processing, without data or noise."""

    def describe(self) -> dict[str, Any]:
        """For the certificate: {"released": what, "noise": law and public parameters, "domain": where there is one}."""

    def neighbours(self) -> Iterator[Pair]:
        """Worst-case neighbouring datasets under the plan's unit."""

    def to_dict(self) -> dict[str, Any]:
        """The canonical form: texts, integers, lists and dictionaries, with the plan's `kind`."""


def a_plan(name: str, value: Any) -> Any:
    """`value`, if it can be run as a plan."""
    return _with(name, value, "unit", "guarantee", "prepare", "measure", "publish", "to_dict")


def attackable(name: str, value: Any) -> Any:
    """`value`, if it can be measured and promises something; it need not be able to be released."""
    return _with(name, value, "kind", "guarantee", "prepare", "measure", "neighbours")


def _with(name: str, value: Any, *parts: str) -> Any:
    if all(hasattr(value, part) for part in parts):
        return value
    raise ParameterError(
        f"{name} is not a plan",
        given=f"{name}={shown(value)}",
        needed="what a plan function of oboro returns",
    )


_P = TypeVar("_P")
_known: dict[str, Callable[[dict[str, Any]], Any]] = {}


def register(cls: type[_P]) -> type[_P]:
    """Makes a plan class loadable by its `kind`; it needs a classmethod `from_dict`."""
    _known[cls.kind] = cls.from_dict  # type: ignore[attr-defined]
    return cls


def plan_from(record: dict[str, Any]) -> Any:
    """The plan that `to_dict` wrote."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if isinstance(kind, str) and kind not in _known and kind.partition(".")[0].isidentifier():
        with suppress(ImportError):  # capabilities lie above this layer: a file names the one it needs
            importlib.import_module(f"oboro.{kind.partition('.')[0]}")
    if not isinstance(kind, str) or kind not in _known:
        raise ParameterError(
            "the plan has an unknown kind",
            given=f"kind={kind!r}",
            needed="a plan that this version of oboro can make",
            fix='kind = "statistics.histogram"',
        )
    try:
        return _known[kind](record)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ParameterError(
            f"the plan of kind {kind!r} is incomplete", given=f"{type(error).__name__}: {error}"
        ) from None


@takes(plan=a_plan, path=path_of)
def save_plan(plan: Plan, path: str | Path) -> None:
    """Writes a plan as TOML: for a colleague to read, to keep in version control, to run later."""
    import tomli_w

    write_whole(Path(path), tomli_w.dumps(plan.to_dict()).encode())


def load_plan(path: str | Path) -> Any:
    """Reads a plan from TOML."""
    return plan_from(read_toml(path))
