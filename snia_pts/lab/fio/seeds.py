"""Derive the seed of each stimulus from the seed of the run."""

from __future__ import annotations

import hashlib

from ...model.steps import Stimulus


def seed_for(stimulus: Stimulus, run_seed: int, number: int) -> int:
    """Return the seed of a stimulus: from its number, or from its name if each repeat uses the same offsets."""
    return stimulus_seed(run_seed, stimulus.name if stimulus.repeats_offsets else number)


def stimulus_seed(run_seed: int, number: int | str) -> int:
    """Return a large seed that depends only on the run's seed and a number or name."""
    digest = hashlib.sha256(f"{run_seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2 | 1 << 61
