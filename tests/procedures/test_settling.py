"""A continuous stimulus that is judged on its samples ends, whatever the host does to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from snia_pts.model.measurement import Measurement, Outcome
from snia_pts.model.steps import ContinuousStimulus, Step
from snia_pts.procedures import drive
from snia_pts.procedures.sampled_steady_state import run_until_steady
from snia_pts.spec import WriteSaturationSpec
from tests.strategies import measurement, sample, spec_of, stimulus, transfers

lengths = st.lists(st.sampled_from([0.01, 0.4, 1.0, 1.0, 1.0, 1.6, 3.0, 7.0]), min_size=1, max_size=40)


@given(lengths=lengths, values=st.lists(st.integers(1, 1000), min_size=1, max_size=20), most=st.integers(1, 400))
def test_it_ends_however_samples_were_cut(lengths: list[float], values: list[int], most: int) -> None:
    """Samples that are late, merged or tiny never stop it or make it go on: its time is the time asked for."""
    asked_seconds: list[float] = []
    spec = spec_of("wsat")
    assert isinstance(spec, WriteSaturationSpec)
    rule = replace(spec.settling, sample_seconds=1.0, stride_samples=4)

    def answer(step: Step) -> Iterator[Outcome]:
        assert isinstance(step, ContinuousStimulus)
        total = step.stimulus.seconds or 0.0
        asked_seconds.append(total)
        ended, number = 0.0, 0
        while ended < total and number < step.samples:
            long = lengths[number % len(lengths)]
            last = number + 1 == step.samples or ended + long >= total
            until = total if last else ended + long
            number += 1
            yield sample(number, values[number % len(values)], seconds=max(0.001, until - ended), ended_seconds=until)
            ended = until
        yield whole(step, total)

    ended = drive(run_until_steady(stimulus(seconds=1.0), rule, phase="PC", max_samples=most), answer)

    assert sum(asked_seconds) <= most
    assert ended.reason == "steady state" or sum(asked_seconds) == most
    assert all(seconds >= 1 for seconds in asked_seconds)


def whole(step: ContinuousStimulus, seconds: float) -> Measurement:
    return measurement(step.stimulus, write=transfers(1000, runtime_ms=round(1000 * seconds)))
