"""The interface of an I/O engine: what a laboratory needs to measure stimuli on a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ..model.measurement import IdleOutcome, Measurement, Sample
from ..model.steps import ContinuousStimulus, Stimulus

#: Called before each stimulus; raises to forbid it.
Guard = Callable[[Stimulus], None]


def allow(_: Stimulus) -> None:
    """Allow every stimulus."""


class EngineIdentity(Protocol):
    """The properties of an engine that a report states."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def io_engine(self) -> str: ...


class Engine(EngineIdentity, Protocol):
    """Runs stimuli on the target of a run."""

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Run ``stimuli`` in order without a gap, and yield each measurement.

        The engine prepares the next stimulus while one runs; it may already have started the next when it yields a
        measurement.  ``before`` is called immediately before each stimulus, and raises to forbid it.  Raises
        fio.AnswerRejected if an answer is invalid.  With ``allow_uncounted``, I/Os that the engine lost count of do not
        make it invalid.
        """
        ...

    def measure_continuous(self, step: ContinuousStimulus) -> Iterator[Sample | Measurement]:
        """Run a continuous stimulus without interruption; yield its samples while it runs, then the whole measurement.

        There are ``step.samples`` samples of about ``step.sample_seconds`` each; fewer if a limit ended the stimulus,
        or if all I/O stalled for longer than a sample.  Raises fio.AnswerRejected if an answer is invalid.
        """
        ...

    def idle(self, seconds: float) -> IdleOutcome:
        """Do no I/O on the target, so that ``seconds`` pass between its last I/O and the next one.

        It may return earlier; the next stimulus then waits for the end of the idle time.
        """
        ...

    def count_idle_io(self) -> None:
        """Count all I/O on the target until the next stimulus as that of other programs, for example after a purge."""
        ...
