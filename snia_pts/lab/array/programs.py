"""The programs that make arrays, run as all programs of the suite: each leaves its evidence."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..process import program as process

_ANSWER_SECONDS = 120.0


class ArrayError(Exception):
    """An array could not be made, looked at, or taken apart; why."""


class Programs:
    """Programs whose evidence lies beside a base name; without one it is not kept."""

    def __init__(self, evidence: Path | None = None) -> None:
        self._evidence = evidence

    def ask(self, name: str, *argv: str) -> process.Finished:
        """Run a program, and return what came of it."""
        with self._place(name) as evidence:
            return process.run(argv, evidence=evidence, timeout_seconds=_ANSWER_SECONDS)

    def act(self, name: str, *argv: str) -> process.Finished:
        """Run a program that has to succeed; raises ArrayError."""
        done = self.ask(name, *argv)
        if done.timed_out:
            raise ArrayError(f"{argv[0]} was not done after {_ANSWER_SECONDS:.0f} s")
        if done.exit_code:
            raise ArrayError(f"{' '.join(argv[:2])} failed: {done.error_summary}")
        return done

    @contextmanager
    def _place(self, name: str) -> Iterator[Path]:
        if self._evidence is not None:
            yield self._evidence.with_name(f"{self._evidence.name}-{name}")
            return
        with tempfile.TemporaryDirectory(prefix="snia-pts-") as folder:
            yield Path(folder) / name
