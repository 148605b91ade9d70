"""Noise that no party knows, drawn from encrypted urns.

Its examples begin with:

>>> from pathlib import Path
>>> import oboro as ob
>>> noise = ob.secure.plan(eps=1, delta="1e-3", method="paper", draws=2)
>>> _ = ob.secure.create("carrier")
>>> public, secret = ob.secure.load_public("carrier.public"), ob.secure.load_secret("carrier.secret")
>>> holder = ob.secure.Holder(noise, secret, ob.secure.Shelf(Path("carrier.urns")))
>>> budget = ob.Conditional(ob.Approx(1, "1e-3"), ob.secure.ASSUMPTION)
>>> ledger = ob.Ledger.create("city.ledger", dataset="city", unit=ob.Unit.row(), budget=budget)
"""

from oboro.secure.compare import compare
from oboro.secure.draws import ASSUMPTION, Answer, DrawPlan, Holder, draw_plan
from oboro.secure.group import PeerError, UsedError
from oboro.secure.law import Law, Urn, conditions, drawer_delta, exact_delta
from oboro.secure.noise_plan import NoisePlan, Verdict, verify
from oboro.secure.papers.kii import algorithm2
from oboro.secure.party import Shelf, create, load_public, load_secret
from oboro.secure.planner import plan
from oboro.secure.protocol import draw, draw_from_file, open_file, serve, write_urns
from oboro.secure.wire import Identity

__all__ = [
    "ASSUMPTION",
    "Answer",
    "DrawPlan",
    "Holder",
    "Identity",
    "Law",
    "NoisePlan",
    "PeerError",
    "Shelf",
    "Urn",
    "UsedError",
    "Verdict",
    "algorithm2",
    "compare",
    "conditions",
    "create",
    "draw",
    "draw_from_file",
    "draw_plan",
    "drawer_delta",
    "exact_delta",
    "load_public",
    "load_secret",
    "open_file",
    "plan",
    "serve",
    "verify",
    "write_urns",
]


def __dir__() -> list[str]:
    return __all__
