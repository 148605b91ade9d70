"""All mutants, layer by layer."""

from __future__ import annotations

from importlib import import_module

from mutants.planting import KNOWN

LAYERS = (
    "noise",
    "privacy",
    "ledger",
    "release",
    "engine",
    "tables",
    "statistics",
    "secure",
    "synth",
    "dynamics",
    "controls",
)

for layer in LAYERS:
    import_module(f"mutants.faults_{layer}")

__all__ = ["KNOWN", "LAYERS"]
