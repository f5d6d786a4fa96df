"""A continuous stimulus whose rule evaluates samples ends even if the samples have wrong lengths."""

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


@given(lengths=lengths, values=st.lists(st.integers(1, 1000), min_size=1, max_size=20), maximum=st.integers(1, 400))
def test_it_ends_with_samples_of_any_length(lengths: list[float], values: list[int], maximum: int) -> None:
    """Late, merged or short samples neither end nor prolong it: it ends at steady state or at the maximum time."""
    requested_seconds: list[float] = []
    spec = spec_of("wsat")
    assert isinstance(spec, WriteSaturationSpec)
    rule = replace(spec.settling, sample_seconds=1.0, stride_samples=4)

    def answer(step: Step) -> Iterator[Outcome]:
        assert isinstance(step, ContinuousStimulus)
        total = step.stimulus.seconds or 0.0
        requested_seconds.append(total)
        ended, number = 0.0, 0
        while ended < total and number < step.samples:
            length = lengths[number % len(lengths)]
            last = number + 1 == step.samples or ended + length >= total
            until = total if last else ended + length
            number += 1
            yield sample(number, values[number % len(values)], seconds=max(0.001, until - ended), ended_seconds=until)
            ended = until
        yield whole(step, total)

    end = drive(run_until_steady(stimulus(seconds=1.0), rule, phase="PC", max_samples=maximum), answer)

    assert sum(requested_seconds) <= maximum
    assert end.reason == "steady state" or sum(requested_seconds) == maximum
    assert all(seconds >= 1 for seconds in requested_seconds)


def whole(step: ContinuousStimulus, seconds: float) -> Measurement:
    """Return the measurement of a whole continuous stimulus."""
    return measurement(step.stimulus, write=transfers(1000, runtime_ms=round(1000 * seconds)))
