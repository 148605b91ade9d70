"""A look at what a release would be like, beside the truth. FOR THE STEWARD'S EYES: this is not private.

Nothing is paid for, so nothing of this may be published: a preview and a release together would say more than
the release was paid for. A release draws new noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from oboro.exact import Number, positive, show
from oboro.kinds import list_of, takes
from oboro.noise import Bits, system_bits
from oboro.privacy import Pure
from oboro.tables.plan import TablePlan


@takes(plan=TablePlan, eps=list_of)
def preview(
    data: Any, plan: TablePlan, eps: Iterable[Number], *, bits: Bits | None = None
) -> tuple[Any, dict[str, Any]]:
    """The true table, and one noisy table for each eps."""
    cells = plan.prepare(data)
    tables = {}
    for each in eps:
        exact = positive("eps", each)
        other = dataclasses.replace(plan, guarantee=Pure(exact), design=None)
        tables[show(exact)] = other.publish(other.measure(cells, bits or system_bits()))
    return plan.publish(cells), tables
