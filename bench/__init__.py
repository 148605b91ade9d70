"""Measurements against peers, in one run, as ratios: absolute times say more about the machine than the code."""
