"""A purge of an array: it is taken apart, each member is purged and preconditioned, and it is made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ...model.dut import Dut
from ...model.measurement import PurgeOutcome
from ...spec import Deviation
from ..device.safety import Target
from ..process.program import Tick
from ..purge import NONE, Purger
from .assembled import AssembledArray
from .members import Drives, Members
from .preconditioning import Preconditioning


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPurger:
    """How the array of a run is purged: each member by ``each``; see Purger.

    Without ``preconditioning`` the members stay as their purge leaves them.
    """

    standing: AssembledArray
    members: Members
    each: Purger
    preconditioning: Preconditioning | None = None
    tick: Tick | None = None

    @property
    def requested(self) -> str:
        """See Purger."""
        return self.each.requested

    def expected_deviations(self, dut: Dut) -> tuple[Deviation, ...]:
        """Return how the purges of the members will differ from the standard; see Purger."""
        del dut
        duts = self.members.duts if isinstance(self.members, Drives) else ()
        found = (deviation for each in duts for deviation in self.each.expected_deviations(each))
        return tuple(dict.fromkeys(found))

    def purge(self, target: Target, seed: int, evidence: Path) -> PurgeOutcome:
        """Take the array apart, purge each member, and make the array again; see Purger."""
        if target is not self.standing.target:
            raise RuntimeError("another target than the array")
        started = datetime.now().astimezone().isoformat(timespec="milliseconds")
        known = self.members.look()
        self.standing.take_apart(known, evidence.with_name(f"{evidence.name}-before"))
        with ExitStack() as stack:
            held = stack.enter_context(self.members.free(confirmed=True))
            purged = [
                self.each.purge(each, seed + number, evidence.with_name(f"{evidence.name}-member{number}"))
                for number, each in enumerate(held, start=1)
            ]
            if self.preconditioning is not None and held:
                self.preconditioning.write(held, seed, evidence, self.tick)
        clean = not self.standing.layout.redundant or self.standing.layout.sync == "skip"
        self.standing.make(known, evidence.with_name(f"{evidence.name}-after"), clean=clean, tick=self.tick)
        if not purged:
            return _unpurged(started)
        return replace(
            purged[0],
            method=self._method(purged),
            samples=_samples(purged),
            survivors=sum(each.survivors for each in purged),
            started=started,
            seconds=sum(each.seconds for each in purged),
            evidence=evidence.name,
            deviations=tuple(dict.fromkeys(_deviations(held, purged))),
            remarks=tuple(
                f"{each.dut.path}: {line}" for each, one in zip(held, purged, strict=True) for line in one.remarks
            ),
        )

    def _method(self, purged: Sequence[PurgeOutcome]) -> str:
        """Tell what was done to all members; what was done to none is told as for a single drive."""
        methods = dict.fromkeys(each.method for each in purged)
        if methods.keys() == {NONE} and self.preconditioning is None:
            return NONE
        how = f"{' / '.join(methods)}, each of {len(purged)} members"
        return f"{how}, then {self.preconditioning.passes} x SEQ writes" if self.preconditioning else how


def _deviations(held: Sequence[Target], purged: Sequence[PurgeOutcome]) -> Iterator[Deviation]:
    """Give what was otherwise than the standard wants; of what was not so for all members, for which."""
    for target, one in zip(held, purged, strict=True):
        for deviation in one.deviations:
            if all(deviation in each.deviations for each in purged):
                yield deviation
            else:
                yield replace(deviation, actual=f"{target.dut.path}: {deviation.actual}")


def _samples(purged: Sequence[PurgeOutcome]) -> int:
    """Return the blocks of all proofs; none where one is missing, as then the whole is not proven."""
    each = [one.samples for one in purged]
    return sum(each) if all(each) else 0


def _unpurged(started: str) -> PurgeOutcome:
    """What came of a purge where nobody reaches the members."""
    deviation = Deviation(
        what="purge",
        standard="each drive purged",
        actual="not purged: the controller hides its members",
        clause="PTS chapter 3, Purge",
    )
    return PurgeOutcome(
        method=NONE, samples=0, survivors=0, started=started, seconds=0.0, evidence="", deviations=(deviation,)
    )
