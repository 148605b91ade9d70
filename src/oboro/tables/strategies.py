"""Strategies by name.

`wavelet`, `filtered` and `threshold` never list the empty cells. The others do, and serve only domains that are
small enough for that. `adaptive` serves only tables with a public total that is small, and is not listed with them.
"""

from __future__ import annotations

from oboro.kinds import unknown
from oboro.tables.papers.dense import RIVALS
from oboro.tables.strategy import Strategy
from oboro.tables.tree.adaptive import Adaptive
from oboro.tables.tree.filtered import Filtered
from oboro.tables.tree.strategy import PlannedTree
from oboro.tables.wavelet import Wavelet

_LISTED: tuple[type[Strategy], ...] = (Wavelet, PlannedTree, Filtered, *RIVALS)
STRATEGIES = {strategy.name: strategy for strategy in _LISTED}


def strategy_called(name: object) -> type[Strategy]:
    """A strategy by its name, to be bound to the facts of a plan."""
    if name == Adaptive.name:
        return Adaptive
    if not isinstance(name, str) or name not in STRATEGIES:
        raise unknown("strategy", name, ["tree", *sorted(STRATEGIES.keys() - {"tree"}), "adaptive"])
    return STRATEGIES[name]
