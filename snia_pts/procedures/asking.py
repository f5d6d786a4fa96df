"""How a procedure asks, and how it is driven."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from ..model.measurement import Measurement, Outcome, Sample
from ..model.steps import ContinuousStimulus, Step

T = TypeVar("T")

#: A procedure that concludes with a T.
Procedure = Generator[Step, Iterable[Outcome], T]

#: Performs a step, giving the outcomes of its parts one by one.
Answer = Callable[[Step], Iterable[Outcome]]


def drive(procedure: Procedure[T], answer: Answer) -> T:
    """Let ``answer`` perform each step that ``procedure`` asks for; return what the procedure concludes.

    A stretch's outcomes are given one by one, as they come: a day has more samples than need be kept.
    """
    try:
        step = next(procedure)
        while True:
            outcomes = answer(step)
            step = procedure.send(iter(outcomes) if isinstance(step, ContinuousStimulus) else tuple(outcomes))
    except StopIteration as conclusion:
        return conclusion.value  # type: ignore[no-any-return]  # StopIteration does not say what it carries


def stretch(step: ContinuousStimulus, note: Callable[[Sample], None] = lambda _: None) -> Procedure[Measurement]:
    """Ask for a stretch, and ``note`` its samples; concludes with the measurement of the whole.

    Raises ValueError when it is answered with another stimulus than it asked for, or without a sample where it is cut.
    """
    whole: Outcome | None = None
    sampled = False
    for whole in (yield step):
        if isinstance(whole, Sample):
            sampled = True
            note(whole)
    if not isinstance(whole, Measurement) or whole.stimulus != step.stimulus:
        raise ValueError(f"{step.label} was answered with another stimulus than it asked for")
    if step.samples and not sampled:
        raise ValueError(f"{step.label} was answered without a sample")
    return whole
