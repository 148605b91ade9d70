"""Secure sampling: a complete fresh noise between two processes over loopback, and the set-up against Paillier (phe).

Rows whose peer is a limit show how often ours fits into it.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import phe

import oboro as ob
from bench.measure import Row, seconds
from oboro.noise.bits import system_bits
from oboro.secure import draws, elgamal, group
from oboro.secure import draws as opening

# 5,000 entries: (1, 1e-10) by the urns of the research notes, the last one a little larger
URNS = ((1, (89, 33, 12, 4)), (4, (104, 2)), (8, (2184, 1)), (16, (2517, 1)))
HIGH = 2**21 - 64
FEW = 12  # Paillier encryptions that are timed


def noise() -> ob.secure.NoisePlan:
    urns = tuple(ob.secure.Urn.symmetric(step, counts) for step, counts in URNS)
    return ob.secure.NoisePlan(ob.Approx(1, "1e-10"), 1, "digits", urns)


def rows() -> Iterator[Row]:
    plan = noise()
    bits = system_bits()
    with tempfile.TemporaryDirectory() as folder:
        whole, sent = _complete(plan, Path(folder))
    yield _limit("secure: a fresh noise, 5,000 entries", whole, "s", 3)
    yield _limit("secure: bytes sent", sent / 1e3, "KB", 400)

    secret = elgamal.SecretKey.generate(bits)
    answer = ob.secure.Answer.encrypt(1234, low=0, high=HIGH, public=secret.public)
    with tempfile.TemporaryDirectory() as folder:
        holder = ob.secure.Holder(plan, secret, ob.secure.Shelf(Path(folder) / "urns"))
        start = time.perf_counter()
        entries = b"".join(holder.urns()[1])
        setup = time.perf_counter() - start
    ready = draws.Ready(answer, bytes(32), entries[-32 - 64 * plan.entries : -32], None)
    yield _limit("secure: the draw", 1e3 * seconds(lambda: draws.draw(ready, plan, bits)), "ms", 5)
    point = group.base(group.scalar_of(HIGH))  # the last that is found
    opening.make_ready(0, 2**21 - 1)
    yield _limit(
        "secure: an opening, range 2^21", 1e3 * seconds(lambda: opening.find(point, 0, 2**21 - 1)), "ms", 50
    )

    public, _ = phe.generate_paillier_keypair(n_length=2048)
    theirs = seconds(lambda: [public.encrypt(i % 7 - 3) for i in range(FEW)], repeat=2) / FEW * plan.entries
    yield Row(
        "secure: set-up of 5,000 entries", setup, "Paillier 2048 (phe)", theirs, "s", theirs / setup, 50
    )


def _complete(plan: ob.secure.NoisePlan, folder: Path) -> tuple[float, int]:
    """Seconds and bytes for new urns, draw and opening; P1 is another process, and all goes through a relay that counts."""
    plan.save(folder / "noise.toml")
    for name in ("p1", "p2"):
        ob.secure.create(folder / name)
    budget = ob.Conditional(ob.Approx(100, "1e-6"), ob.secure.ASSUMPTION)
    ledger = ob.Ledger.create(folder / "l.ledger", dataset="bench", unit=ob.Unit.row(), budget=budget)
    public = ob.secure.load_public(folder / "p1.public")
    answer = ob.secure.Answer.encrypt(1234, low=0, high=HIGH, public=public)
    command = [
        "-m",
        "oboro",
        "secure",
        "serve",
        "--plan",
        "noise.toml",
        "--listen",
        "127.0.0.1:0",
        "--count",
        "4",
    ]
    files = ["--key", "p1.secret", "--identity", "p1.pem", "--peer", "p2.crt"]
    process = subprocess.Popen(
        [sys.executable, *command, *files], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().split(",")[0].rpartition(":")[2])
    identity = ob.secure.Identity(folder / "p2.pem", folder / "p1.crt")
    shelf = ob.secure.Shelf(folder / "p2.urns")
    best, counted = float("inf"), 0
    for _ in range(3):
        start = time.perf_counter()
        ob.secure.draw(f"127.0.0.1:{port}", answer, ledger, identity, shelf, plan)
        best = min(best, time.perf_counter() - start)
    with socket.create_server(("127.0.0.1", 0)) as relay:
        total = [0]
        thread = threading.Thread(target=_relay, args=(relay, port, total))
        thread.start()
        ob.secure.draw(f"127.0.0.1:{relay.getsockname()[1]}", answer, ledger, identity, shelf, plan)
        thread.join()
        counted = total[0]
    process.wait(timeout=30)
    return best, counted


def _relay(listener: socket.socket, port: int, total: list[int]) -> None:
    """Passes one connection on, and counts every byte of it, TLS included."""
    near, _ = listener.accept()
    far = socket.create_connection(("127.0.0.1", port))

    def pump(source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(1 << 16):
            total[0] += len(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pump, args=(far, near))
    back.start()
    pump(near, far)
    back.join()


def _limit(what: str, ours: float, unit: str, limit: float) -> Row:
    return Row(what, ours, "the limit", limit, unit, limit / ours, 1)
