"""What a plan draws is what its parts say: the laws that `measure` really samples from, compared with the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from oboro.noise import DiscreteGaussian, DiscreteLaplace, system_bits
from support import audited

SAMPLES = {
    name: plan
    for name, plan in audited().items()
    if any(isinstance(part.noise, DiscreteLaplace | DiscreteGaussian) for part in plan.parts)
}


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[Any]]:
    """Counts what is sampled, by its law; not what a sampler itself samples."""
    drawn: Counter[Any] = Counter()
    inside = [False]
    with monkeypatch.context() as patch:
        for law in (DiscreteLaplace, DiscreteGaussian):

            def sample(self: Any, *args: Any, original: Any = law.sample, **kwargs: Any) -> Any:
                if inside[0]:
                    return original(self, *args, **kwargs)
                drawn[self] += 1
                inside[0] = True
                try:
                    return original(self, *args, **kwargs)
                finally:
                    inside[0] = False

            patch.setattr(law, "sample", sample)
        yield drawn


@pytest.mark.few(27, "samples of the audit")
@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_drawn_is_what_the_parts_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SAMPLES[name]
    said = {part.noise for part in plan.parts if isinstance(part.noise, DiscreteLaplace | DiscreteGaussian)}
    ever: set[Any] = set()
    for pair in list(plan.neighbours())[:2]:
        for data in (pair.one, pair.other):
            prepared = plan.prepare(data)
            for _ in range(4):  # where a table is looked at more closely follows from noisy counts
                with watched(monkeypatch) as drawn:
                    plan.measure(prepared, system_bits())
                assert set(drawn) <= said
                ever |= set(drawn)
    assert ever == said or "filtered" in name


def test_it_sees_noise_that_no_part_names(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SAMPLES["histogram"]
    prepared = plan.prepare(next(iter(plan.neighbours())).one)
    with watched(monkeypatch) as drawn:
        replace(plan, guarantee=replace(plan.guarantee, eps=2)).measure(prepared, system_bits())
    assert not set(drawn) <= {part.noise for part in plan.parts}
