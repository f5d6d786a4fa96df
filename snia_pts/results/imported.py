"""A run of another tool: what its file states about itself, and the steady state that it claims."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen

from ..analysis.window import Window
from ..units import Amount, Difference, Quantity, counted, number

_MAX_SHORT_TEXT, _MAX_TEXT = 300, 65536
Text = Annotated[str, MaxLen(_MAX_TEXT)]
#: The relative tolerance of a claimed average, which was calculated in another way.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The steady state that the file claims: whether it was reached, in which rounds (from 1), with which values.

    ``slope`` and ``intercept`` are those of its best fit, over rounds that are counted from 0.
    """

    steady: bool
    rounds: tuple[Amount, ...]
    values: tuple[Quantity, ...]
    average: Quantity
    slope: Difference
    intercept: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """A copy of an imported file: its name in evidence/, and its checksum."""

    name: Annotated[str, MaxLen(_MAX_SHORT_TEXT)]
    sha256: Annotated[str, MaxLen(_MAX_SHORT_TEXT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The origin of an imported run: the tool, its version (empty if the file has none), and its files.

    ``importer`` is the name in ``registries.IMPORTERS`` of the reader of such files.  ``file`` is the name of the copy
    of the first file in evidence/, ``more_files`` are the others.  ``imported_at`` is the time of the import, ``name``
    the name of the test run in the file.  ``date``, ``command_line``, ``description`` of the device and ``features``
    are texts of the file.  ``options`` are options such as ``refill_buffers``.  ``stops_at_limit``: the tool ends a
    continuous stimulus only at the limit of its time or amount.  ``claim`` is checked against the steady state
    calculated here.
    """

    importer: Annotated[str, MaxLen(_MAX_SHORT_TEXT)]
    tool: Text
    version: Text
    file: Annotated[str, MaxLen(_MAX_SHORT_TEXT)]
    sha256: Annotated[str, MaxLen(_MAX_SHORT_TEXT)]
    imported_at: str
    name: Annotated[str, MaxLen(_MAX_SHORT_TEXT)]
    date: Text = ""
    command_line: Text = ""
    description: Text = ""
    features: Text = ""
    options: tuple[Text, ...] = ()
    stops_at_limit: bool = False
    claim: Claim | None = None
    more_files: tuple[ImportedFile, ...] = ()

    @property
    def files(self) -> tuple[ImportedFile, ...]:
        """All files."""
        return (ImportedFile(name=self.file, sha256=self.sha256), *self.more_files)

    @property
    def label(self) -> str:
        """The tool and its version: ``other-tool 2.2``."""
        return f"{self.tool} {self.version}".strip()


def claim_disputes(claim: Claim, window: Window | None) -> Iterator[str]:
    """Yield a sentence for each claim about the steady state that the calculation here contradicts.

    ``window`` is the window of the same variable that is judged here.
    """
    if window is None:
        claimed = "steady" if claim.steady else "not steady"
        yield f"the file says {claimed}; there are too few rounds for a window"
        return
    if claim.steady != window.steady:
        words = {True: "steady", False: "not steady"}
        yield f"the file says {words[claim.steady]}, but by the rule it is {words[window.steady]}"
    if claim.rounds != window.numbers:
        claimed = f"{counted(len(claim.rounds), 'round')}{_span(claim.rounds)}"
        yield f"the file names {claimed}; the window here is rounds {window.numbers[0]} - {window.numbers[-1]}"
        return
    values = window.determinations[0][1].values
    if len(claim.values) != len(values) or not all(map(_close, claim.values, values)):
        yield "its values for the window differ from those of these rounds"
    average = window.determinations[0][1].average
    if not _close(claim.average, average):
        yield f"its average is {number(claim.average)}, that of these rounds is {number(average)}"
    yield from _fit_disputes(claim, window)


def _fit_disputes(claim: Claim, window: Window) -> Iterator[str]:
    """Yield a sentence if the best fit differs; a slope is compared relative to the average, as it is so small."""
    fit = window.determinations[0][1]
    if fit.evaluable and abs(claim.slope - fit.slope) > _TOLERANCE * fit.average:
        yield f"its best fit has the slope {number(claim.slope)}, that of these rounds is {number(fit.slope)}"
    elif fit.evaluable and abs(claim.intercept - fit.intercept - fit.slope) > 10 * _TOLERANCE * fit.average:
        yield "its best fit does not match these rounds"


def _span(rounds: tuple[int, ...]) -> str:
    return f" ({', '.join(map(str, rounds[:8]))})" if rounds else ""


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
