"""Small things that several tests of the ledger need."""

from __future__ import annotations

import ctypes
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

from kills import collect, in_child
from oboro.ledger import Ledger, Reservation
from oboro.ledger.replay import amounts
from oboro.privacy import Guarantee, Pure

PLAN: dict[str, Any] = {"kind": "histogram", "bins": ["a", "b"], "eps": "0.1"}


def spend(
    ledger: Ledger, cost: Guarantee | str | Fraction, name: str | None = None, **more: Any
) -> Reservation:
    guarantee = cost if isinstance(cost, Guarantee) else Pure(cost)
    return ledger.reserve(
        plan=more.get("plan", PLAN), unit=more.get("unit", ledger.unit), guarantee=guarantee, name=name
    )


def assert_sound(ledger: Ledger) -> None:
    """Everything that must hold whatever happened before."""
    checked = ledger.verify()
    costs = [entry.cost for entry in ledger.history() if entry.cost is not None]
    for i, (spent, budget) in enumerate(zip(amounts(ledger.spent), amounts(ledger.budget), strict=True)):
        assert sum((amounts(cost)[i] for cost in costs), Fraction(0)) == spent <= budget
    assert checked.reservations == len(costs)


def enter_mounts(*mounts: tuple[Path | str, Path | str], kind: str = "", options: str = "") -> None:
    """In a child: a world of mounts of its own, as a container has, in which each first path is mounted at the second.

    Without `kind` it is a file or folder that is there already. Raises OSError where the system forbids it.
    """
    libc, own, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()

    def call(name: str, *arguments: Any) -> None:
        if getattr(libc, name)(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    if own == 0:
        call("unshare", _NEW_MOUNTS)
    else:
        call("unshare", _NEW_MOUNTS | _NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {own} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    call("mount", b"none", b"/", None, _PRIVATE | _DEEP, None)
    for source, target in mounts:
        names = os.fsencode(source), os.fsencode(target), kind.encode() or None
        call("mount", *names, 0 if kind else _BIND, options.encode() or None)


def mounts_are_allowed() -> bool:
    """Whether a child may have mounts of its own here."""
    if not hasattr(os, "fork") or not Path("/proc/self/mountinfo").exists():
        return False
    child, reading = in_child(lambda _: enter_mounts(("/tmp", "/tmp")))
    return collect(child, reading)[0] == 0


_NEW_MOUNTS, _NEW_USER, _BIND, _DEEP, _PRIVATE = 0x20000, 0x10000000, 0x1000, 0x4000, 0x40000
