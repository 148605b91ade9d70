"""One world for all tests of the doors, and copies of it that may be spoiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from doors_world import copied, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def folder(world: Path, tmp_path: Path) -> Iterator[Path]:
    with copied(world, tmp_path / "copy") as copy:
        yield copy


@pytest.fixture(autouse=True)
def no_studio_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that opens would serve until it is stopped, and show a browser: tests/service has those. Here it ends at once."""
    from oboro.service.studio.local import Studio

    monkeypatch.setattr(Studio, "run", lambda self, ready: self.close())
