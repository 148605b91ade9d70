"""Noise that no party knows: a carrier and a city add up their counts, and neither sees the other's.

Two real processes over TLS, each with its own keys, on this machine. Run it in an empty folder.

The carrier holds the key. The city holds the encrypted sum and the ledger. The noise is picked blindly by the city from
urns that the carrier filled, shuffled and encrypted: the carrier does not know what was picked, the city does
not know what it picked, and only the noisy sum is ever opened.
"""

import subprocess
import sys
from pathlib import Path

import oboro as ob

CARRIER = """
from pathlib import Path

import oboro as ob
from oboro.secure.wire import listening

holder = ob.secure.Holder(
    ob.secure.NoisePlan.load(Path("noise.toml")),
    ob.secure.load_secret("carrier.secret"),
    ob.secure.Shelf(Path("carrier.urns")),
)
identity = ob.secure.Identity(Path("carrier.pem"), Path("city.crt"))
with listening("127.0.0.1:0") as listener:
    print(listener.getsockname()[1], flush=True)
    ob.secure.serve(holder, listener, identity, count=1)
"""

# Once: each party makes its files, and both agree on the noise. The search takes seconds; anyone can verify what it found.
ob.secure.create("carrier")
ob.secure.create("city")
noise = ob.secure.plan(eps=1, delta="1e-6", urns=3, seconds=300)
noise.save("noise.toml")
print(f"noise from {noise.entries:,} entries in {len(noise.urns)} urns, E|Z| = {float(noise.mean_abs):.3f}")

# Each clamps its own count to public bounds and encrypts it for the carrier's key; ciphertexts can be added.
public = ob.secure.load_public("carrier.public")
answer = ob.secure.Answer.encrypt(1200, low=0, high=100_000, public=public) + ob.secure.Answer.encrypt(
    34, low=0, high=100_000, public=public
)

# The city pays. Its ledger names what the promise rests on: two parties that follow the protocol.
ledger = ob.Ledger.create(
    "city.ledger",
    dataset="customers of both",
    unit=ob.Unit.row(),
    budget=ob.Conditional(ob.Approx(3, "1e-5"), ob.secure.ASSUMPTION),
)
carrier = subprocess.Popen([sys.executable, "-c", CARRIER], stdout=subprocess.PIPE, text=True)
try:
    port = carrier.stdout.readline().strip()
    us, them = ob.secure.Identity(Path("city.pem"), Path("carrier.crt")), f"127.0.0.1:{port}"
    release = ob.secure.draw(them, answer, ledger, us, ob.secure.Shelf(Path("city.urns")), noise=noise)
    carrier.wait()
finally:
    carrier.kill()
print(release)
