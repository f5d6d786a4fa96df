"""How a procedure asks, and how it is driven."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from ..measurement import Outcome
from ..steps import Step

T = TypeVar("T")

#: A procedure that concludes with a T.
Procedure = Generator[Step, tuple[Outcome, ...], T]

#: Performs a step, giving the outcomes of its parts one by one.
Answer = Callable[[Step], Iterable[Outcome]]


def drive(procedure: Procedure[T], answer: Answer) -> T:
    """Let ``answer`` perform each step that ``procedure`` asks for; return what the procedure concludes."""
    try:
        step = next(procedure)
        while True:
            step = procedure.send(tuple(answer(step)))
    except StopIteration as conclusion:
        return conclusion.value  # type: ignore[no-any-return]  # StopIteration does not say what it carries
