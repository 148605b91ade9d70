"""Tables that are measured sub-tree by sub-tree: by processes of this machine, or by the workers of a Spark."""
