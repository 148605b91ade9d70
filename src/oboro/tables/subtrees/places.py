"""Where a table is cut into sub-trees, and how its cells are numbered in files. Follows from public facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oboro.arrays import Integers
from oboro.domain.mesh import width
from oboro.tables.tree.filtered import Filtered
from oboro.tables.tree.lattice import Tree
from oboro.tables.tree.strategy import PlannedTree

if TYPE_CHECKING:
    from oboro.tables.plan import TablePlan

_PREFIX_BITS = {"wavelet": 12, "filtered": 10, "tree": 10}


@dataclass(frozen=True, slots=True)
class Places:
    """A cell's number has so many bits, and the first of them say in which sub-tree it lies."""

    bits: int
    prefix_bits: int
    prefixes: (
        int  # how many there are; not all that so many bits could name, in a tree of other parts than halves
    )

    @property
    def below(self) -> int:
        """So many bits say where in its sub-tree a cell lies."""
        return self.bits - self.prefix_bits


def places_of(plan: TablePlan) -> Places:
    """Keys are cut at some of their bits; a tree at one of its levels."""
    bits = plan.layout.bits
    if isinstance(plan.mechanism, PlannedTree):
        (tree,) = plan.mechanism.lattice.trees
        level = cut_level(tree)
        first = width(tree.nodes(level))
        return Places(first + width(tree.under(level)), first, tree.nodes(level))
    if isinstance(plan.mechanism, Filtered):
        first = min(_PREFIX_BITS["filtered"], max(plan.mechanism.blocks.bits - 4, 0))
    else:
        first = min(_PREFIX_BITS["wavelet"], bits // 2)
    return Places(bits, first, 1 << first)


def cut_level(tree: Tree) -> int:
    """The finest level of few nodes, and above the leaves: what lies below one of them is a sub-tree."""
    few = [at for at in range(tree.depth) if tree.nodes(at) <= 1 << _PREFIX_BITS["tree"]]
    return max(few, default=0)


def numbered(plan: TablePlan, keys: Integers) -> Integers:
    """The numbers of cells: keys, or in a tree the node of its cut, and the leaf below that."""
    if not isinstance(plan.mechanism, PlannedTree):
        return keys
    lattice = plan.mechanism.lattice
    (tree,) = lattice.trees
    under = tree.under(cut_level(tree))
    leaves = lattice.leaf(plan.layout, keys)
    nodes = leaves // under
    return (nodes << width(under)) | (leaves - nodes * under)
