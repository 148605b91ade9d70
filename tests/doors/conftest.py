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
