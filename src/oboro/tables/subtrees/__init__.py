"""Tables that are measured sub-tree by sub-tree: on the cores of this machine, or on a cluster."""
