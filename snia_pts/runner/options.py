"""The options of the tests of a suite, and those to resume a run, as values: the agent of a lab imports no more."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import UsageError
from ..model.run_options import RunOptions, texts
from ..results.interruption import ResumePolicy
from ..text import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """The options for resuming a run, in addition to those in its journal.

    ``policy`` determines where it resumes.  ``target`` is the present path of the target; None if it is unchanged.  The
    other fields are those of RunOptions: options that destroy data or start a program are never taken from a journal.
    """

    policy: ResumePolicy = "rule"
    target: str | None = None
    serial: str | None = None
    overwrite: bool = False
    discard_data: bool = False
    purge_command: str | None = None
    power_command: str | None = None
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugins", texts(self.plugins))


def split_options(options: RunOptions, tests: Sequence[str]) -> tuple[RunOptions, ...]:
    """Return the options of each test, with its own overrides (from ``TEST.KEY=VALUE``) and seed.

    The seeds depend only on ``options.seed``.  Raises UsageError for an override of another test.
    """
    overrides_by_test: dict[str, list[str]] = {test: [] for test in tests}
    for text in options.overrides:
        test, dot, override = text.partition(".")
        if test not in overrides_by_test or not dot:
            hint = suggestion(test, tests) or "for example --set iops.rounds.maximum=7."
            raise UsageError(
                detail=f"--set {text}: expected TEST.KEY=VALUE with one of the tests {', '.join(tests)}.",
                hint=f"{hint[:1].upper()}{hint[1:]}",
            )
        overrides_by_test[test].append(override)
    seed = new_seed() if options.seed is None else options.seed
    return tuple(
        replace(options, test=test, overrides=tuple(overrides), seed=derive_seed(seed, test))
        for test, overrides in overrides_by_test.items()
    )


def derive_seed(seed: int, test: str) -> int:
    """Return the seed of a test, below 2^63, derived from the seed of the suite."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{test}".encode()).digest()[:8], "big") >> 1


def new_seed() -> int:
    """Return a random seed."""
    return secrets.randbits(63)
