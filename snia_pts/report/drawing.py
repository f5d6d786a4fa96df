"""Turns a report's figures into files' contents."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..aside import aside
from .pages import Report
from .style import SETTINGS

#: No clock and no version in the files.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(Mapping[str, bytes]):
    """A report's figures in one form, by name; they may still be drawn, and whoever asks for one waits for all.

    ``first`` is where they begin in what ``brought`` returns.
    """

    names: Sequence[str]
    brought: Callable[[], Sequence[bytes]]
    first: int

    def __getitem__(self, name: str) -> bytes:
        return self.brought()[self.first + self.names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@contextmanager
def drawn(report: Report, forms: Sequence[str]) -> Iterator[dict[str, Drawn]]:
    """Give every figure by form and name, drawn aside: matplotlib is loaded and works while others typeset."""
    names = [figure.name for figure in report.figures]

    def work() -> list[bytes]:
        made = draw(report, forms)
        return [made[form][name] for form in forms for name in names]

    with aside(work) as brought:
        places = {form: place * len(names) for place, form in enumerate(forms)}
        yield {form: Drawn(names=names, brought=brought, first=first) for form, first in places.items()}


def draw(report: Report, forms: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Return every figure in each of ``forms``, by form and name; matplotlib's settings stay as they were."""
    drawn: dict[str, dict[str, bytes]] = {form: {} for form in forms}
    with settings():
        for figure in report.figures:
            made = figure.draw()
            for form in forms:
                output = io.BytesIO()
                made.savefig(output, format=form, metadata=_METADATA[form])
                drawn[form][figure.name] = output.getvalue()
    return drawn


@contextmanager
def settings() -> Iterator[None]:
    """Draw with the report's settings alone, whatever the user's matplotlibrc says; put back what was set before."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(dict(SETTINGS))
        yield
