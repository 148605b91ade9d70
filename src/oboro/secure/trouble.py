"""What goes wrong between two parties.

    OboroError
    └── PeerError          the other party, or a file from it, sent something that cannot be used, or went away
        └── UsedError      urns that were used before

No text of these errors depends on an answer, an index or an entry.
"""

from __future__ import annotations

from oboro.errors import OboroError


class PeerError(OboroError):
    """The other party sent something that cannot be used, or went away."""


class UsedError(PeerError):
    """Urns are used once. These were used before, or may have been."""
