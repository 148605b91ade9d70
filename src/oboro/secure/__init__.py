"""Noise that no party knows, drawn from encrypted urns.

Its examples begin with:

>>> import oboro as ob
>>> noise = ob.secure.plan(eps=1, delta="1e-3", method="paper", draws=2)
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
