"""A continuous stimulus, judged on samples that stand for rounds (PTS 2.0.2 chapters 10, 11, 13 and 14).

No window counts before the ActiveRange was written so often as the rule wants: a large drive is evenly fast for hours,
as long as it is fresh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from ..analysis.window import Window, sampled_round, sampled_window
from ..model.measurement import Measurement, Sample, SampledRound
from ..model.steps import ContinuousStimulus, Phase, Stimulus
from ..spec import SampledSteadyStateRule
from .asking import Procedure, stretch
from .ranges import continued


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
    most_samples: int,
    most_written_bytes: int | None = None,
    until_steady: bool = True,
) -> Procedure[SaturationEnd]:
    """Run ``stimulus`` until its samples are steady, so many were taken, or so much was written, whichever is first.

    It is asked for in stretches that end where steady state may first be seen: after the window's last sample, then
    every stride; in one where steady state does not end it.
    """
    decides = until_steady and not _unbroken(stimulus)
    rounds: list[SampledRound] = []
    done = written_bytes = sampled_bytes = 0
    window = before = None
    while done < most_samples:
        due = min(most_samples, _due(rule, done)) if decides else most_samples
        asked = replace(stimulus, seconds=(due - done) * rule.sample_seconds)
        if before is not None:
            asked = replace(asked, start_bytes=continued(asked, before))
        if most_written_bytes is not None:
            asked = replace(asked, limit_bytes=_limit(asked, most_written_bytes - written_bytes))

        def note(sample: Sample, done: int = done) -> None:
            nonlocal sampled_bytes
            sampled_bytes += sample.write_bytes
            judged = sampled_round(done, sample, rule, stimulus.fills(sampled_bytes))
            rounds.extend([judged] if judged else [])

        whole = yield from stretch(
            ContinuousStimulus(phase=phase, stimulus=asked, sample_seconds=rule.sample_seconds), note
        )
        done = due
        written_bytes += whole.write.transferred_bytes
        window = sampled_window(rounds, rule)
        if window is not None and window.steady and decides:
            return SaturationEnd(reason="steady state", window=window)
        if most_written_bytes is not None and (written_bytes >= most_written_bytes or _ended_early(whole)):
            return SaturationEnd(reason="written", window=window)
        before = whole
    return SaturationEnd(reason="time", window=window)


def _due(rule: SampledSteadyStateRule, done: int) -> int:
    """Return the sample after which to decide: the window's last, then each that stands for a round."""
    following = 2 + (done - rule.first_sample) // rule.stride_samples
    return rule.samples(max(rule.window_rounds, following))


def _unbroken(stimulus: Stimulus) -> bool:
    """Mixed sequential streams are not broken: reads and writes go on from places of their own, which none can tell."""
    return stimulus.access == "SEQ" and 0 < stimulus.read_percent < 100


def _limit(stimulus: Stimulus, left_bytes: int) -> int | None:
    """Return what may still be transferred until ``left_bytes`` are written."""
    if stimulus.read_percent == 100:
        return None
    blocks = math.ceil(left_bytes * 100 / (100 - stimulus.read_percent) / stimulus.largest_block_bytes)
    return max(1, blocks) * stimulus.largest_block_bytes


def _ended_early(whole: Measurement) -> bool:
    """Tell whether a stretch was ended by its limit: what a mix writes of it comes out a little more or less."""
    return whole.runtime_ms / 1000 < 0.99 * (whole.stimulus.seconds or 0)
