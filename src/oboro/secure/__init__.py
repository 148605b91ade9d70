"""Noise that no party knows, drawn from encrypted urns."""

from oboro.secure.answer import Answer
from oboro.secure.compare import compare
from oboro.secure.draws import ASSUMPTION, DrawPlan, draw_plan
from oboro.secure.holder import Holder
from oboro.secure.kii import algorithm2
from oboro.secure.law import Law, Urn
from oboro.secure.making import plan
from oboro.secure.noise_plan import NoisePlan, Verdict, verify
from oboro.secure.party import create, load_public, load_secret
from oboro.secure.promise import conditions, drawer_delta, exact_delta
from oboro.secure.protocol import draw, draw_from_file, open_file, serve, write_urns
from oboro.secure.shelf import Shelf
from oboro.secure.trouble import PeerError, UsedError
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
