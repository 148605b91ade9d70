"""Tables that are measured sub-tree by sub-tree: by processes of this machine."""
