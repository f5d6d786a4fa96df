"""A report as a value: a header for every page, and pages of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from .tables import Table

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph; ``kind`` is its style."""

    form: ClassVar[str] = "prose"
    text: str
    kind: Literal["good", "bad", "lead", "note", "heading"] = "note"


Block = Figure | Table | Prose


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a report; ``flows``: it may continue on the next page."""

    title: str
    blocks: tuple[Block, ...]
    flows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of every page (PTS 2.0.2 chapter 5).

    ``dates``, ``test``, ``standard`` and ``names`` are the banner's rows, ``heads`` and ``blocks`` the four
    blocks of facts.
    """

    dates: Table
    test: Table
    standard: Table
    names: Table
    heads: Table
    blocks: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report.  ``dated`` is the end of its run, as text of the result."""

    title: str
    author: str
    dated: str
    header: Header
    pages: tuple[Page, ...]

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        titles = [page.title for page in self.pages]
        if len(set(names)) != len(names) or len(set(titles)) != len(titles):
            raise ValueError(f"names of figures and titles of pages must be unique: {names}, {titles}")

    @property
    def figures(self) -> Iterator[Figure]:
        """All figures, in the order of their pages."""
        return (block for page in self.pages for block in page.blocks if isinstance(block, Figure))
