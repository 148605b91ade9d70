"""Tables over areas: a tree of any form, that a public table gives."""
