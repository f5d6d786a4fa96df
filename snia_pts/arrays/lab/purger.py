"""Purge an array: delete it, purge and precondition each member, and create it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ...lab.device.target_claim import Target
from ...lab.process.program import Tick
from ...lab.purge import NONE, Purger
from ...model.dut import Dut
from ...model.measurement import PurgeOutcome
from ...spec import Deviation
from .assembled import AssembledArray
from .members import Drives, Members
from .preconditioning import Preconditioning


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPurger:
    """Purges the array of a run, each member by ``member_purger``; see Purger.

    Without ``preconditioning``, the members are not written after their purge.
    """

    array: AssembledArray
    members: Members
    member_purger: Purger
    preconditioning: Preconditioning | None = None
    tick: Tick | None = None

    @property
    def requested(self) -> str:
        """See Purger."""
        return self.member_purger.requested

    def expected_deviations(self, dut: Dut) -> tuple[Deviation, ...]:
        """Return how the purges of the members will differ from the standard; see Purger."""
        del dut
        duts = self.members.duts if isinstance(self.members, Drives) else ()
        deviations = (deviation for member in duts for deviation in self.member_purger.expected_deviations(member))
        return tuple(dict.fromkeys(deviations))

    def purge(self, target: Target, seed: int, evidence: Path) -> PurgeOutcome:
        """Delete the array, purge each member, and create the array again; see Purger."""
        if target is not self.array.target:
            raise RuntimeError("the target is not the array")
        started = datetime.now().astimezone().isoformat(timespec="milliseconds")
        members = self.members.read()
        self.array.delete(members, evidence.with_name(f"{evidence.name}-before"))
        with ExitStack() as stack:
            targets = stack.enter_context(self.members.claimed(confirmed=True))
            outcomes = [
                self.member_purger.purge(member, seed + number, evidence.with_name(f"{evidence.name}-member{number}"))
                for number, member in enumerate(targets, start=1)
            ]
            if self.preconditioning is not None and targets:
                self.preconditioning.write(targets, seed, evidence, self.tick)
        clean = not self.array.layout.redundant or self.array.layout.sync == "skip"
        self.array.create(members, evidence.with_name(f"{evidence.name}-after"), clean=clean, tick=self.tick)
        if not outcomes:
            return _unpurged(started)
        return replace(
            outcomes[0],
            method=self._method(outcomes),
            samples=_samples(outcomes),
            survivors=sum(outcome.survivors for outcome in outcomes),
            started=started,
            seconds=sum(outcome.seconds for outcome in outcomes),
            evidence=evidence.name,
            deviations=tuple(dict.fromkeys(_deviations(targets, outcomes))),
            remarks=tuple(
                f"{target.dut.path}: {remark}"
                for target, outcome in zip(targets, outcomes, strict=True)
                for remark in outcome.remarks
            ),
        )

    def _method(self, outcomes: Sequence[PurgeOutcome]) -> str:
        """Return the methods used for the members; ``none``, as for a single drive, if none was purged or written."""
        methods = dict.fromkeys(outcome.method for outcome in outcomes)
        if methods.keys() == {NONE} and self.preconditioning is None:
            return NONE
        method = f"{' / '.join(methods)}, each of {len(outcomes)} members"
        return f"{method}, then {self.preconditioning.passes} x SEQ writes" if self.preconditioning else method


def _deviations(targets: Sequence[Target], outcomes: Sequence[PurgeOutcome]) -> Iterator[Deviation]:
    """Yield the deviations; one that does not apply to all members names the member."""
    for target, outcome in zip(targets, outcomes, strict=True):
        for deviation in outcome.deviations:
            if all(deviation in other.deviations for other in outcomes):
                yield deviation
            else:
                yield replace(deviation, actual=f"{target.dut.path}: {deviation.actual}")


def _samples(outcomes: Sequence[PurgeOutcome]) -> int:
    """Return the number of sample blocks; 0 if a member has none, because then the purge is not proven."""
    counts = [outcome.samples for outcome in outcomes]
    return sum(counts) if all(counts) else 0


def _unpurged(started: str) -> PurgeOutcome:
    """Return the outcome if the members are not accessible."""
    deviation = Deviation(
        what="purge",
        standard="each drive purged",
        actual="not purged: the controller hides its members",
        clause="PTS chapter 3, Purge",
    )
    return PurgeOutcome(
        method=NONE, samples=0, survivors=0, started=started, seconds=0.0, evidence="", deviations=(deviation,)
    )
