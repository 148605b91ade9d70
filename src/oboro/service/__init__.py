"""A service: analysts ask, and never see the data. `connect` is the analyst's side, and needs nothing of the server's.

Its examples begin with:

>>> import oboro as ob
"""

from oboro.service.client import Remote, Service, connect

__all__ = ["Remote", "Service", "connect"]


def __dir__() -> list[str]:
    return __all__
