"""A continuous stimulus whose samples are evaluated as rounds (PTS 2.0.2 chapters 10, 11, 13 and 14).

A window counts only after the ActiveRange was written as often as the rule requires, because a large drive has constant
speed for hours while it is fresh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from ..analysis.window import Window, sampled_round, sampled_window
from ..model.measurement import Measurement, Sample, SampledRound
from ..model.steps import ContinuousStimulus, Phase, Stimulus
from ..spec import SampledSteadyStateRule
from .protocol import Procedure, run_continuous
from .ranges import next_start_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationEnd:
    """Why a continuous stimulus ended, and its last window."""

    reason: Literal["steady state", "written", "time"]
    window: Window | None


def run_until_steady(
    stimulus: Stimulus,
    rule: SampledSteadyStateRule,
    *,
    phase: Phase,
    max_samples: int,
    max_written_bytes: int | None = None,
    until_steady: bool = True,
) -> Procedure[SaturationEnd]:
    """Run ``stimulus`` until its samples are steady, or until a maximum of samples or of written bytes is reached.

    If steady state can end it, the stimulus is requested in pieces that end where steady state can be determined: after
    the last sample of the first window, then after every stride.  Otherwise it is requested in one piece.
    """
    can_end_when_steady = until_steady and not _is_mixed_sequential(stimulus)
    rounds: list[SampledRound] = []
    sample_count = written_bytes = sampled_bytes = 0
    window = previous = None
    while sample_count < max_samples:
        piece_end = min(max_samples, _next_decision(rule, sample_count)) if can_end_when_steady else max_samples
        piece = replace(stimulus, seconds=(piece_end - sample_count) * rule.sample_seconds)
        if previous is not None:
            piece = replace(piece, start_bytes=next_start_bytes(piece, previous))
        if max_written_bytes is not None:
            piece = replace(piece, limit_bytes=_limit_bytes(piece, max_written_bytes - written_bytes))

        def on_sample(sample: Sample, sample_count: int = sample_count) -> None:
            nonlocal sampled_bytes
            sampled_bytes += sample.write_bytes
            equivalent = sampled_round(sample_count, sample, rule, stimulus.fills(sampled_bytes))
            rounds.extend([equivalent] if equivalent else [])

        previous = yield from run_continuous(
            ContinuousStimulus(phase=phase, stimulus=piece, sample_seconds=rule.sample_seconds), on_sample
        )
        sample_count = piece_end
        written_bytes += previous.write.transferred_bytes
        window = sampled_window(rounds, rule)
        if window is not None and window.steady and can_end_when_steady:
            return SaturationEnd(reason="steady state", window=window)
        if max_written_bytes is not None and (written_bytes >= max_written_bytes or _ended_early(previous)):
            return SaturationEnd(reason="written", window=window)
    return SaturationEnd(reason="time", window=window)


def _next_decision(rule: SampledSteadyStateRule, sample_count: int) -> int:
    """Return the next sample after which to decide: the last of the first window, then every sampled round."""
    next_round = 2 + (sample_count - rule.first_sample) // rule.stride_samples
    return rule.samples(max(rule.window_rounds, next_round))


def _is_mixed_sequential(stimulus: Stimulus) -> bool:
    """Return whether reads and writes form separate sequential streams.

    Such a stimulus cannot be split: fio does not report where the reads and where the writes stopped.
    """
    return stimulus.access == "SEQ" and 0 < stimulus.read_percent < 100


def _limit_bytes(stimulus: Stimulus, remaining_bytes: int) -> int | None:
    """Return the bytes to transfer until ``remaining_bytes`` are written; None if the stimulus only reads."""
    if stimulus.read_percent == 100:
        return None
    blocks = math.ceil(remaining_bytes * 100 / (100 - stimulus.read_percent) / stimulus.largest_block_bytes)
    return max(1, blocks) * stimulus.largest_block_bytes


def _ended_early(measurement: Measurement) -> bool:
    """Return whether the byte limit ended a stimulus.

    The written bytes do not show it, because the share of writes in a mix varies slightly.
    """
    return measurement.runtime_ms / 1000 < 0.99 * (measurement.stimulus.seconds or 0)
