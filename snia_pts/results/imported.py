"""A run that another tool made: what its file says of itself, and what it claims beside the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen

from ..analysis.window import Window
from ..units import Amount, Difference, Quantity, counted, number

_SHORT, _LONG = 300, 65536
Text = Annotated[str, MaxLen(_LONG)]
#: By how much a claimed average may differ from ours, as a share: it was calculated otherwise.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the file claims of a steady state: whether it was reached, in which rounds (from 1), with which values.

    ``slope`` and ``intercept`` are of its best fit, over rounds that are counted from 0.
    """

    steady: bool
    rounds: tuple[Amount, ...]
    values: tuple[Quantity, ...]
    average: Quantity
    slope: Difference
    intercept: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Where a run comes from: the tool and its version (empty where it does not say), and the file it left.

    ``file`` is its copy's name in evidence/, ``at`` when it was imported, ``name`` what the file calls the test run.
    ``dated``, ``command_line``, ``description`` of the device and ``features`` are the file's own words;
    ``refill_buffers`` and the like are ``options``.  ``claim`` is held against what comes out here.
    """

    tool: Text
    version: Text
    file: Annotated[str, MaxLen(_SHORT)]
    sha256: Annotated[str, MaxLen(_SHORT)]
    at: str
    name: Annotated[str, MaxLen(_SHORT)]
    dated: Text = ""
    command_line: Text = ""
    description: Text = ""
    features: Text = ""
    options: tuple[Text, ...] = ()
    claim: Claim | None = None

    @property
    def label(self) -> str:
        """The tool and its version: ``TKperf 2.2``."""
        return f"{self.tool} {self.version}".strip()


def disputed(claim: Claim, window: Window | None) -> Iterator[str]:
    """Give a sentence for everything that the file claims of its steady state, and that does not come out here.

    ``window`` is the one that is judged here, of the same variable.
    """
    if window is None:
        found = "steady" if claim.steady else "not steady"
        yield f"the file says {found}; here there are too few rounds for a window"
        return
    if claim.steady != window.steady:
        words = {True: "steady", False: "not steady"}
        yield f"the file says {words[claim.steady]}, by the rule it is {words[window.steady]}"
    if claim.rounds != window.numbers:
        named = f"{counted(len(claim.rounds), 'round')}{_span(claim.rounds)}"
        yield f"the file names {named}; judged here are rounds {window.numbers[0]} - {window.numbers[-1]}"
        return
    values = window.determinations[0][1].values
    if len(claim.values) != len(values) or not all(map(_alike, claim.values, values)):
        yield "the values that it says it judged are not those of these rounds"
    average = window.determinations[0][1].average
    if not _alike(claim.average, average):
        yield f"its average is {number(claim.average)}, that of these rounds {number(average)}"
    yield from _disputed_fit(claim, window)


def _disputed_fit(claim: Claim, window: Window) -> Iterator[str]:
    """The slope is so small a difference of large numbers that it is held against the average."""
    found = window.determinations[0][1]
    if found.evaluable and abs(claim.slope - found.slope) > _ROUNDING * found.average:
        yield f"its best fit has the slope {number(claim.slope)}, that of these rounds {number(found.slope)}"
    elif found.evaluable and abs(claim.intercept - found.intercept - found.slope) > 10 * _ROUNDING * found.average:
        yield "its best fit does not go through these rounds"


def _span(rounds: tuple[int, ...]) -> str:
    return f" ({', '.join(map(str, rounds[:8]))})" if rounds else ""


def _alike(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
