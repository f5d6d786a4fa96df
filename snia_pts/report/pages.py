"""A report as a value: a header for every page, and pages of blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from .tables import NOT_APPLICABLE, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: The default size of a figure, in inches.
FIGURE_WIDTH = 6.9
FIGURE_HEIGHT = 4.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with its caption.  ``name`` is the stem of its file, ``alt`` describes its content.

    ``draw`` returns it, ``width`` x ``height`` inches large.
    """

    form: ClassVar[str] = "figure"
    name: str
    caption: str
    alt: str
    draw: Callable[[], Drawing]
    width: float = FIGURE_WIDTH
    height: float = FIGURE_HEIGHT


def slug(text: str) -> str:
    """Return ``text`` as a figure's name: ``window-rnd-4kib-rw0``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


class Differing(str):
    """In the header of a comparison, a field that differs between the runs: their values, or a reference to them."""

    __slots__ = ()


ProseKind = Literal["good", "bad", "neutral", "lead", "note", "heading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph; ``kind`` is its style."""

    form: ClassVar[str] = "prose"
    text: str
    kind: ProseKind = "note"


Block = Figure | Table | Prose

#: A report of fewer pages has no table of contents.
_LEAST_WITH_CONTENTS = 6
#: Letters in a line of prose, and the most lines of a page that is short.
_LINE_LETTERS, _SHORT_LINES = 130, 20
#: The most lines of tables and prose below a full header.
_FULL_HEADER_LINES = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a report.

    ``flows``: it may continue on the next page; ``brief``: the PDF has a short header on it; ``summary``: a terminal
    shows its tables of numbers and facts, too.
    """

    title: str
    blocks: tuple[Block, ...]
    flows: bool = False
    brief: bool = False
    summary: bool = False

    @property
    def lines(self) -> int | None:
        """The approximate number of lines if it has only tables and prose; None if it has a figure."""
        counts = [
            2 + len(block.rows) if isinstance(block, Table) else 1 + len(block.text) // _LINE_LETTERS
            for block in self.blocks
            if not isinstance(block, Figure)
        ]
        return sum(counts) if len(counts) == len(self.blocks) else None

    @property
    def is_short(self) -> bool:
        """Whether it may begin below the page before it, if there is room: its own would be nearly empty."""
        return self.lines is not None and self.lines <= _SHORT_LINES

    @property
    def has_short_header(self) -> bool:
        """Whether the PDF has a short header on it: if it is brief, or if its tables do not fit below a full one."""
        return self.brief or (self.flows and (self.lines or 0) > _FULL_HEADER_LINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of every page (PTS 2.0.2 chapter 5); a page that continues a section has a short one in the PDF.

    ``dates``, ``test``, ``standard`` and ``names`` are the banner's rows, ``heads`` and ``blocks`` the four
    blocks of facts.
    """

    dates: Table
    test: Table
    standard: Table
    names: Table
    heads: Table
    blocks: Table

    @property
    def identity(self) -> tuple[str, ...]:
        """Version and test, model, serial number and report id: what the short header of a continuation page shows.

        The name of the document replaces a version that does not apply.  Those that differ between the runs of a
        comparison are empty.
        """
        serial = next((row[3] for row in self.blocks.rows if row[2] == "S/N"), "")
        model, report_id = self.names.rows[0][3], self.dates.rows[0][-1]
        known = ("" if isinstance(text, Differing) else text for text in (model, serial, report_id))
        test = self.test.rows[0][0].replace(" - Report Page", "")
        _, document, _, _, version, *_ = self.standard.rows[0]
        version = document if version == NOT_APPLICABLE else version
        return (test if isinstance(version, Differing) else f"{version} - {test}", *known)


_NO_ROWS = Table(kind="banner", columns=(), rows=(), headed=False)
#: The header of an HTML page that has none.
NO_HEADER = Header(dates=_NO_ROWS, test=_NO_ROWS, standard=_NO_ROWS, names=_NO_ROWS, heads=_NO_ROWS, blocks=_NO_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report.  ``dated`` is the end of its run, as text of the result.

    In a report of the standard, each page that is not short has a PDF page of its own; only the second may begin below
    the first, and any page below the end of one that began on an earlier PDF page.  In others, ``joined``, any page may
    begin below the one before it.

    ``runs`` names the runs that the letters in the tables of a comparison mean, on every printed page.
    """

    title: str
    author: str
    dated: str
    header: Header
    pages: tuple[Page, ...]
    joined: bool = False
    runs: str = ""

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        titles = [page.title for page in self.pages]
        if len(set(names)) != len(names) or len(set(titles)) != len(titles):
            raise ValueError(f"names of figures and titles of pages must be unique: {names}, {titles}")

    def may_share(self, page: Page, *, continued: bool) -> bool:
        """Return whether ``page`` may begin below the page before it, if there is room.

        ``continued``: the page before it began on an earlier PDF page.
        """
        return self.joined or page.is_short or page is self.pages[1] or continued

    @property
    def has_contents(self) -> bool:
        """Whether it has a table of contents, at the end of its first page."""
        return len(self.pages) >= _LEAST_WITH_CONTENTS

    @property
    def figures(self) -> Iterator[Figure]:
        """All figures, in the order of their pages."""
        return (block for page in self.pages for block in page.blocks if isinstance(block, Figure))
