"""Run the programs that manage arrays, and keep their output as evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import CopyableError
from ...lab.process import program as process
from ...temporary import temporary_folder

_ANSWER_SECONDS = 120.0


class ArrayError(CopyableError):
    """An array could not be created, queried or deleted."""


class Programs:
    """Runs programs; the names of their evidence files start with ``evidence``.  If it is None, none are kept."""

    def __init__(self, evidence: Path | None = None) -> None:
        self._evidence = evidence

    def run(self, name: str, *argv: str) -> process.Finished:
        """Run a program and return its outcome, which may be a failure; ``name`` is that of its evidence."""
        with self._evidence_path(name) as evidence:
            return process.run(argv, evidence=evidence, timeout_seconds=_ANSWER_SECONDS)

    def require(self, name: str, *argv: str) -> process.Finished:
        """Run a program and return its outcome; raises ArrayError if it fails or times out."""
        finished = self.run(name, *argv)
        if finished.timed_out:
            raise ArrayError(f"{argv[0]} timed out after {_ANSWER_SECONDS:.0f} s")
        if finished.exit_code:
            raise ArrayError(f"{' '.join(argv[:2])} failed: {finished.error_summary}")
        return finished

    @contextmanager
    def _evidence_path(self, name: str) -> Iterator[Path]:
        if self._evidence is not None:
            yield self._evidence.with_name(f"{self._evidence.name}-{name}")
            return
        with temporary_folder() as folder:
            yield folder / name
