"""The lowest versions that pyproject.toml allows, as pip constraints: `python tools/lowest.py > constraints.txt`.

Only what oboro itself needs: the runtime dependencies and the extras that users install. The tools of
development are taken as they come.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
EXTRAS = ("postgres", "control", "sklearn", "sql", "xlsx", "service", "geo")
BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=(?P<version>[0-9.]+)(?:,<[0-9.]+)?$")


def lowest(project: Path = PROJECT) -> dict[str, str]:
    """The lowest allowed version of each dependency, by name."""
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    wanted = list(declared["dependencies"])
    for extra in EXTRAS:
        wanted += declared["optional-dependencies"][extra]
    found = {}
    for requirement in wanted:
        match = BOUND.match(requirement)
        if match is None:
            sys.exit(f"{requirement!r} has no lower bound of the form name>=version")
        found[match["name"]] = match["version"]
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest().items()))
