"""Small urns, two parties in one folder, and P1 in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import oboro as ob
from oboro.errors import OboroError
from oboro.secure import wire
from oboro.secure.protocol import answer_one
from oboro.secure.wire import Channel

SMALL = ((1, (8, 3, 1)), (3, (16, 1)))  # 34 entries keep (1, 0.01)


def digits(*urns: tuple[int, tuple[int, ...]], eps: str = "1", delta: str = "0.01") -> ob.secure.NoisePlan:
    made = tuple(ob.secure.Urn.symmetric(step, counts) for step, counts in urns)
    return ob.secure.NoisePlan(ob.Approx(eps, delta), 1, "digits", made)


def small() -> ob.secure.NoisePlan:
    return digits(*SMALL)


def make_ledger(path: Path, eps: str = "50") -> ob.Ledger:
    budget = ob.Conditional(ob.Approx(eps, "0.9"), ob.secure.ASSUMPTION)
    return ob.Ledger.create(path, dataset="city", unit=ob.Unit.row(), budget=budget)


@dataclass
class Parties:
    """P1 and P2 with their files, a ledger, and an encrypted answer of 42 between 0 and 100."""

    folder: Path
    noise: ob.secure.NoisePlan
    holder: ob.secure.Holder
    shelf: ob.secure.Shelf
    ledger: ob.Ledger
    answer: ob.secure.Answer
    heard: list[str]

    def identity(self, own: str = "p2", peer: str = "p1") -> ob.secure.Identity:
        return ob.secure.Identity(self.folder / f"{own}.pem", self.folder / f"{peer}.crt")

    @contextmanager
    def serving(self, work: Callable[[Channel], None] | None = None, count: int = 1) -> Iterator[str]:
        """P1 in a thread, honest or doing `work` instead; gives its address. `heard` gets what P1 has to say."""

        def run(listener: socket.socket) -> None:
            for _ in range(count):
                plain, _ = listener.accept()
                try:
                    with wire.accepted(plain, self.identity("p1", "p2"), 600) as channel:
                        if work is None:
                            answer_one(self.holder, channel, self.heard.append)
                        else:
                            work(channel)
                except OboroError as error:
                    self.heard.append(error.message)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=run, args=(listener,), daemon=True)
            thread.start()
            yield f"127.0.0.1:{listener.getsockname()[1]}"
            thread.join(timeout=600)
            assert not thread.is_alive()

    def draw(self, where: str, **options: object) -> ob.Release:
        noise = options.pop("noise", self.noise)
        return ob.secure.draw(where, self.answer, self.ledger, self.identity(), self.shelf, noise, **options)  # type: ignore[arg-type]

    @property
    def spent(self) -> int:
        return int(self.ledger.spent.unconditional.eps)  # type: ignore[attr-defined]


def fits(draws: np.ndarray[Any, Any], law: ob.secure.Law, false_alarm: float = 1e-7) -> bool:
    """Chi-square test of draws against an exact law; rare values together in one cell."""
    from scipy.special import gammaincc

    assert draws.min() >= law.lowest
    assert draws.max() <= law.highest
    observed = np.bincount(draws - law.lowest, minlength=len(law.weights)).astype(float)
    expected = draws.size * np.asarray([weight / law.total for weight in law.weights])
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    statistic = float(((observed - expected)[keep] ** 2 / expected[keep]).sum())
    return float(gammaincc((keep.sum() - 1) / 2, statistic / 2)) > false_alarm


def make_parties(folder: Path) -> Parties:
    noise = small()
    for name in ("p1", "p2", "stranger"):
        ob.secure.create(folder / name)
    secret = ob.secure.load_secret(folder / "p1.secret")
    holder = ob.secure.Holder(noise, secret, ob.secure.Shelf(folder / "p1.urns"))
    answer = ob.secure.Answer.encrypt(42, low=0, high=100, public=secret.public)
    ledger = make_ledger(folder / "l.ledger")
    return Parties(folder, noise, holder, ob.secure.Shelf(folder / "p2.urns"), ledger, answer, [])
