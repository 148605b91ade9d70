"""A mutant: one fault, planted in the real program while the one test that must catch it runs.

A fault is a function that stands in for another. It is handed the function that it replaces, and then what
that one was called with. Its docstring tells what is wrong with it.

    @planted("oboro.noise.laplace:DiscreteLaplace.sample", caught_by="tests/noise/test_x.py::test_y")
    def scale_off(original, self, size=1, bits=None):
        \"\"\"Noise of four fifths of the scale.\"\"\"
        return original(DiscreteLaplace(self.scale * Fraction(4, 5)), size, bits)
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One fault: what is wrong, where it is planted, and the test that must fail."""

    name: str
    layer: str
    story: str
    places: tuple[str, ...]  # "module:attribute" or "module:Class.attribute"
    caught_by: str
    fault: Callable[..., Any] = field(repr=False)
    expected: str = "caught"  # the controls of the harness itself end otherwise


KNOWN: dict[str, Mutant] = {}


def planted(
    *places: str, caught_by: str, expected: str = "caught"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a fault under its own name, and under the last word of its module's name as its layer."""

    def register(fault: Callable[..., Any]) -> Callable[..., Any]:
        name = fault.__name__.replace("_", " ")
        layer = fault.__module__.rpartition(".")[2].removeprefix("faults_")
        story = " ".join((inspect.getdoc(fault) or "").split())
        if name in KNOWN or not story:
            raise ValueError(f"{name}: a mutant needs a name of its own and a story")
        KNOWN[name] = Mutant(name, layer, story, places, caught_by, fault, expected)
        return fault

    return register


class Reached:
    """Whether a planted fault was ever called."""

    def __init__(self) -> None:
        self.calls = 0


def plant(mutant: Mutant) -> Reached:
    """Puts the fault in its places, for the rest of this process."""
    reached = Reached()
    for place in mutant.places:
        owner, name = find(place)
        original = inspect.getattr_static(owner, name)
        stand_in = _stand_in(original, mutant.fault, reached)
        setattr(owner, name, stand_in)
        if inspect.ismodule(owner) and original.__module__ == owner.__name__:
            _replace_everywhere(original, stand_in)
    return reached


def _replace_everywhere(original: Any, stand_in: Any) -> None:
    """A function of a module may have been imported by others under any name: as if its own text were changed.

    A place that names a module which only imports the function changes it there alone.
    """
    tests = str(Path(__file__).parent.parent)
    for module in list(sys.modules.values()):
        if not module.__name__.startswith("oboro") and tests not in str(getattr(module, "__file__", "")):
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, stand_in)


def find(place: str) -> tuple[Any, str]:
    """The module or class that a place speaks of, and the attribute in it. The attribute must be there."""
    module, _, path = place.partition(":")
    *classes, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in classes:
        owner = getattr(owner, part)
    getattr(owner, name)
    return owner, name


def _stand_in(original: Any, fault: Callable[..., Any], reached: Reached) -> Any:
    if isinstance(original, cached_property):
        held: cached_property[Any] = cached_property(_counting(original.func, fault, reached))
        held.attrname = original.attrname
        return held
    if isinstance(original, property):
        return property(_counting(original.fget, fault, reached))
    if isinstance(original, cached_property):
        held: Any = cached_property(_counting(original.func, fault, reached))
        held.attrname = original.attrname  # as __set_name__ would have said
        return held
    if isinstance(original, staticmethod | classmethod):
        return type(original)(_counting(original.__func__, fault, reached))
    return _counting(original, fault, reached)


def _counting(original: Any, fault: Callable[..., Any], reached: Reached) -> Callable[..., Any]:
    @wraps(original, updated=())
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        reached.calls += 1
        return fault(original, *args, **kwargs)

    return stand_in
