"""Where the pages and the API read runs from, and what they can do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Protocol

from .model import (
    ComparisonView,
    MetricView,
    PlanView,
    Request,
    ResultQuery,
    ResultView,
    RunDetail,
    Snapshot,
    SpreadView,
    TrendView,
)

#: What a user is called where no login is required.
UNNAMED = "a user of the pages"


class Source(Protocol):
    """The runs of a folder, or of a lab.

    Every method may be called from any thread.  Methods with the id of a run raise ``UnknownRun`` if there is none;
    those that change something raise the errors of ``snia_pts.errors`` with which it is refused.
    """

    @property
    def name(self) -> str:
        """What is shown, for the title of the pages: the folder, or the name of the lab's database."""

    @property
    def has_lab(self) -> bool:
        """Whether there are a queue, hosts, and drives that can be held."""

    @property
    def has_results(self) -> bool:
        """Whether there is a store of results."""

    def snapshot(self) -> Snapshot:
        """Return everything at the present time."""

    def run(self, run_id: str) -> RunDetail:
        """Return a run with its series, its log and the list of its files."""

    def open_file(self, run_id: str, name: str) -> BinaryIO:
        """Open a file of a run folder, one of those that ``run`` lists, for reading; raises UnknownRun."""

    def results(self, query: ResultQuery) -> Sequence[ResultView]:
        """Return the stored results of a query, the newest first."""

    def metrics(self) -> Sequence[MetricView]:
        """Return the metrics of the stored results, each at each of its points."""

    def trend(self, query: ResultQuery, *, metric: str, at: str, by: str) -> TrendView:
        """Return a metric over the stored runs of a query, and over their groups with equal ``by``."""

    def spread(self, query: ResultQuery, *, metric: str) -> Sequence[SpreadView]:
        """Return the spread of each metric, or of one, over the units of the model of a query."""

    def comparison(self, run_ids: Sequence[str]) -> ComparisonView:
        """Return the comparison of finished runs of one test with the first of them."""

    def plan(self, request: Request) -> PlanView:
        """Return what a run of the request would do; changes nothing."""

    def submit(self, request: Request) -> str:
        """Start the run of a request, or add it to the queue; return the id of the run."""

    def stop(self, run_id: str, *, at_once: bool = False, by: str = "") -> str:
        """Ask a run to stop after its current point or sample, or ``at_once``; return what happens now.

        ``by`` is the name of the user or token; empty if no login is required.
        """

    def resume(self, run_id: str, *, serial: str = "") -> str:
        """Resume a stopped run; return what happens now.  ``serial`` confirms that data are destroyed."""

    def hold(self, drive_id: str, reason: str) -> str:
        """Start nothing new on a drive of a lab until it is released; return what happens now."""

    def release(self, drive_id: str) -> str:
        """End the hold of a drive; return what happens now."""
