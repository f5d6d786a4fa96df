"""How much the rounds of a test wrote up to the end of their window.

The standard preconditions with sequential writes, and its steady state requires no minimum of random writes after them.
So a large drive may be steady before it has to collect garbage, and become slower later.
"""

from __future__ import annotations

from ...results.result import Loop, TestResult
from ...spec import RoundsSpec
from ...units import capacity, distinct_digits, number


def rounds_written(result: TestResult, loop: Loop) -> tuple[str, str]:
    """Return the rounds up to the end of the window, and what they wrote: ``412.1 GB, 0.107 fills of the ActiveRange``.

    Both are empty without a window, if the amount is unknown, and for a test without sequential preconditioning.
    """
    fills = loop.fills
    if fills is None or loop.window is None or not isinstance(result.facts.spec, RoundsSpec):
        return "", ""
    least = "at least " if result.interruptions else ""
    shown = number(fills, digits=distinct_digits((fills, 1.0), least=3))
    rounds = f"rounds {loop.rounds[0].number} to {loop.window.numbers[-1]}"
    return rounds, f"{least}{capacity(loop.written_bytes)}, {shown} fills of the ActiveRange"


def rounds_written_note(result: TestResult, loop: Loop) -> str:
    """Return what the rounds wrote as a sentence, with a caution if the drive may be fresh; empty if it is unknown."""
    rounds, amount = rounds_written(result, loop)
    if not amount:
        return ""
    revision = result.facts.spec.revision
    caution = (
        " The window ended before random writes had filled the ActiveRange once; the drive may become slower after "
        f"that. {revision} requires no minimum of random writes before the window."
    )
    return f"Written in {rounds}: {amount}.{caution * is_fresh(loop)}"


def is_fresh(loop: Loop) -> bool:
    """Return whether random writes could not fill the ActiveRange once before the end of a steady window."""
    random = any(point.stimulus.access == "RND" for measured in loop.rounds for point in measured.measurements)
    return loop.steady and random and loop.fills is not None and loop.fills < 1
