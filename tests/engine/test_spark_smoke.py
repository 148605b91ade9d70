"""In the quick tests too Spark answers, where there is one: Java, and the environment that `make test-spark` makes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
SPARK = HERE / ".venv-spark"


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is not None, reason="test_cluster.py tries it here")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.skipif(not (SPARK / "installed").exists(), reason="make test-spark makes Spark's environment")
def test_spark_answers_in_an_environment_of_its_own() -> None:
    test = "tests/engine/test_cluster.py::test_spark_answers_a_session"
    command = [str(SPARK / "bin" / "python"), "-m", "pytest", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "1 passed" in done.stdout
