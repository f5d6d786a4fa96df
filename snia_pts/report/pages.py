"""A report as a value: a header that stands on every page, and pages of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from .tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: The room that a figure may take on a page, in inches.
FIGURE_WIDTH = 6.9
FIGURE_HEIGHT = 4.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with the caption that belongs to it.  ``name`` is its file's stem, ``alt`` what it shows in words.

    ``draw`` makes it, ``width`` x ``height`` inches large.
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
    """One page of a report; ``flows`` says that it may go on to a next one."""

    title: str
    blocks: tuple[Block, ...]
    flows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands on top of every page (PTS 2.0.2 chapter 5).

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
    """A whole report.  ``dated`` is when its run ended, as the result says it."""

    title: str
    author: str
    dated: str
    header: Header
    pages: tuple[Page, ...]

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        titles = [page.title for page in self.pages]
        if len(set(names)) != len(names) or len(set(titles)) != len(titles):
            raise ValueError(f"figures and pages are told apart by their names: {names}, {titles}")

    @property
    def figures(self) -> Iterator[Figure]:
        """All figures, in the order of their pages."""
        return (block for page in self.pages for block in page.blocks if isinstance(block, Figure))
