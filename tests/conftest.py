"""Fixtures for all tests.

Statistical tests draw the same noise every time: each module and each test has a stream of its own. So a run that
passes passes again, and a change that breaks a law is seen as a change. Tests of the bits themselves, of the runner and of
the ledger use real ones.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from oboro.noise import bits
from oboro.noise.bits import UnsafeDeterministicBits
from support import repeatable

# A busy machine makes no property false: how long an example takes is never a failure.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

OUT_OF_TIME = "no minutes left"
REPEATED = ("audit", "dynamics", "noise", "secure", "statistics", "synth", "tables")


@pytest.fixture
def test_bits() -> UnsafeDeterministicBits:
    return repeatable("tests")


@pytest.fixture(scope="module", autouse=True)
def same_noise_for_a_module(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in REPEATED and request.path.name != "test_bits.py":
            patch.setattr(bits, "_system", repeatable(request.path.name))
        yield


@pytest.fixture(autouse=True)
def same_noise_for_a_test(
    request: pytest.FixtureRequest, same_noise_for_a_module: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.path.parent.name in REPEATED and request.path.name != "test_bits.py":
        monkeypatch.setattr(bits, "_system", repeatable(request.node.name))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test marked `few(count, what)`, so many stay in `make test`, from first to last; the rest are long."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault((item.path, getattr(item, "originalname", item.name)), []).append(item)
    for same in cases.values():
        count, what = same[0].get_closest_marker("few").args  # type: ignore[union-attr]
        kept = {round(i * (len(same) - 1) / max(1, count - 1)) for i in range(count)}
        for i, item in enumerate(same):
            if i not in kept:
                item.add_marker(pytest.mark.long(what))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


# -- what each test costs, and what was left out ---------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu", metavar="FILE", help="write the CPU time of every test to FILE and show the ten slowest"
    )
    parser.addoption(
        "--minutes",
        metavar="N",
        type=float,
        help="begin no test after so many minutes, and say how many were left",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Account(config))
    if config.option.minutes is not None:
        config.pluginmanager.register(Minutes(config.option.minutes))


class Minutes:
    """A limit for machines that may be slow: what has not begun by then is skipped, which the last lines say."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes
        self.left = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.end:
            pytest.skip(OUT_OF_TIME)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.left += bool(report.skipped and OUT_OF_TIME in str(report.longrepr))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.left:
            terminalreporter.write_line(f"left out for want of time: {self.left} tests")


class Account:
    """CPU time of every test, with its fixtures and the processes that it waited for; and the `long` ones left out.

    Workers measure and collect; the process that started them adds up and shows.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.before = os.times()

    def pytest_runtest_logstart(self) -> None:
        self.before = os.times()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        now, report = os.times(), (yield)
        counted = 2 if call.when == "teardown" else 4  # a server that ends worked for all that went before
        report.cpu = sum(now[:counted]) - sum(self.before[:counted])
        self.before = now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += getattr(report, "cpu", 0.0)  # a worker that died has none
        if report.when == "call":
            self.seconds[report.nodeid] += sum(
                s for name, s in report.user_properties if name == "cpu elsewhere"
            )

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.left_out.update(mark.args[0] for item in items if (mark := item.get_closest_marker("long")))

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["left_out"] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))  # the same from each

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.config.option.cpu and not hasattr(self.config, "workerinput"):
            slowest = self.seconds.most_common()
            Path(self.config.option.cpu).write_text(json.dumps(dict(slowest), indent=0))
            terminalreporter.section(f"CPU time: {sum(self.seconds.values()):.0f} s, the ten slowest")
            for name, seconds in slowest[:10]:
                terminalreporter.write_line(f"{seconds:6.1f} s  {name}")

    def pytest_unconfigure(self) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if self.left_out and reporter is not None and self.config.option.markexpr == "not long":
            most = self.left_out.most_common(12)
            rest = self.left_out.total() - sum(count for _, count in most)
            what = [f"{count} {words}" for words, count in most] + [f"{rest} others"] * bool(rest)
            reporter.write_line(f"left out, for make test-long: {', '.join(what)}")
