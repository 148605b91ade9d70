"""Every public name shows itself at work in its docstring, and what it shows is so."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oboro
from oboro.errors import OboroError

ROOMS = (
    *(
        "domain",
        "privacy",
        "noise",
        "ledger",
        "release",
        "engine",
        "tables",
        "statistics",
        "statistics.sensitivity",
    ),
    *("synth", "dynamics", "secure", "audit", "report", "service", "errors"),
)
WITHOUT = {  # and why
    "release.upgrade": "for records of oboro 0.1: tests/test_upgrading.py",
    "secure.serve": "needs a second process: examples/two_party_noise.py",
    "secure.draw": "the other half of serve",
    "service.Service": "needs a server: tests/service",
    "service.Remote": "the same",
}
SLOW = (  # scikit-learn loads, many releases are made, or there is a search
    "audit.EndToEnd",
    "audit.coverage",
    "audit.end_to_end",
    "audit.everything",
    "dynamics.alpha_for",
    "statistics.estimators.KMeans",
    "statistics.estimators.PCA",
    "synth.quality",
    "synth.Quality",
)


def _public() -> dict[str, Any]:
    """What a user calls, by the name it is called by. Errors are raised, not called: the first shows how they read."""
    found: dict[str, Any] = {}
    for room in ROOMS:
        package = importlib.import_module(f"oboro.{room}")
        for name in getattr(package, "__all__", None) or _own(package):
            value = getattr(package, name)
            error = inspect.isclass(value) and issubclass(value, Exception) and value is not OboroError
            if callable(value) and not error and f"{room}.{name}" not in WITHOUT:
                found[f"{room}.{name}"] = value
    return found


def _own(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and not issubclass(value, str)  # the parts of an error's text
    ]


PUBLIC = _public()


def shown(text: str | None) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.cleandoc(text or ""))


def run(room: str, name: str, text: str) -> None:
    """The examples of a docstring, after those that its room begins with. Raises at the first that is not so."""
    begin = importlib.import_module(f"oboro.{room}").__doc__ or ""
    whole = "\n\n".join([inspect.cleandoc(begin), inspect.cleandoc(text)])
    test = doctest.DocTestParser().get_doctest(whole, {"__name__": "example"}, name, None, 0)
    doctest.DebugRunner(optionflags=doctest.ELLIPSIS).run(test)


def test_every_public_name_has_an_example() -> None:
    assert not [name for name, value in PUBLIC.items() if not shown(value.__doc__)]
    for name in WITHOUT:  # the list does not outlive its names
        room, _, own = name.rpartition(".")
        assert not shown(getattr(importlib.import_module(f"oboro.{room}"), own).__doc__)
    front = {id(getattr(oboro, name)) for name in oboro.__all__ if callable(getattr(oboro, name))}
    assert set(SLOW) - set(PUBLIC) == {"statistics.estimators.KMeans", "statistics.estimators.PCA"}
    assert front <= {id(value) for value in PUBLIC.values()}


@pytest.mark.few(80, "examples in docstrings")
@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in SLOW])
def test_what_a_docstring_shows_is_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    room, _, own = name.rpartition(".")
    run(name.split(".")[0], name, getattr(importlib.import_module(f"oboro.{room}"), own).__doc__)


@pytest.mark.long("examples in docstrings")
@pytest.mark.parametrize("name", SLOW)
def test_what_a_docstring_shows_slowly_is_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_what_a_docstring_shows_is_so(name, tmp_path, monkeypatch)


def _wrong() -> None:
    """
    >>> 1 + 1
    3
    """


def test_an_example_that_is_not_so_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong: Callable[[], None] = _wrong
    with pytest.raises(doctest.DocTestFailure):
        run("ledger", "wrong", wrong.__doc__ or "")
