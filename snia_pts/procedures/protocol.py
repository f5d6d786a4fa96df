"""The generator protocol of procedures: how they request steps, and how a caller drives them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from ..model.measurement import Measurement, Outcome, Sample
from ..model.steps import ContinuousStimulus, Step

T = TypeVar("T")

#: A procedure that returns a T.
Procedure = Generator[Step, Iterable[Outcome], T]

#: Performs a step, and yields the outcomes of its parts one by one.
Answer = Callable[[Step], Iterable[Outcome]]


def drive(procedure: Procedure[T], answer: Answer) -> T:
    """Perform each step of ``procedure`` with ``answer``; return the procedure's result.

    The outcomes of a continuous stimulus are passed on one by one as they arrive, so that the many samples of a long
    stimulus are not all in memory.
    """
    try:
        step = next(procedure)
        while True:
            outcomes = answer(step)
            step = procedure.send(iter(outcomes) if isinstance(step, ContinuousStimulus) else tuple(outcomes))
    except StopIteration as conclusion:
        return conclusion.value  # type: ignore[no-any-return]  # the value of StopIteration is untyped


def run_continuous(
    step: ContinuousStimulus, on_sample: Callable[[Sample], None] = lambda _: None
) -> Procedure[Measurement]:
    """Request a continuous stimulus, and pass its samples to ``on_sample``; return the measurement of all of it.

    Raises ValueError if the answer is for another stimulus, or has no samples although the step requests them.
    """
    outcome: Outcome | None = None
    has_samples = False
    for outcome in (yield step):
        if isinstance(outcome, Sample):
            has_samples = True
            on_sample(outcome)
    if not isinstance(outcome, Measurement) or outcome.stimulus != step.stimulus:
        raise ValueError(f"{step.label}: the answer is for another stimulus")
    if step.samples and not has_samples:
        raise ValueError(f"{step.label}: the answer has no samples")
    return outcome
