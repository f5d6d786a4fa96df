"""The write caches of an array's members, handled as one cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from ...lab.device.identity import ROOT, block_directory
from ...lab.settings.settings import AppliedChange, Change
from ...lab.settings.write_cache import WriteCache, WriteCacheStatus
from ...model.dut import CacheState, Dut
from ...spec import Deviation

_DISABLED_STATES: frozenset[CacheState] = frozenset({"none", "disabled"})


class MemberCaches(WriteCache):
    """The write caches of all members, and the state requested for a run; see WriteCache."""

    def __init__(self, members: Sequence[Dut], requested: str, *, keep: bool = False, root: Path = ROOT) -> None:
        self._members = [(dut, WriteCache(dut, _block(dut, root), requested, keep=keep, root=root)) for dut in members]
        self._changes: list[tuple[Change, ...]] = [() for _ in members]

    def changes(self, evidence: Path) -> tuple[Change, ...]:
        paths = (_member_evidence(evidence, number) for number, _ in enumerate(self._members, start=1))
        self._changes = [cache.changes(path) for (_, cache), path in zip(self._members, paths, strict=True)]
        return sum(self._changes, ())

    def status(self, evidence: Path | None = None, outcomes: tuple[AppliedChange, ...] = ()) -> WriteCacheStatus:
        statuses = []
        for number, (_, cache) in enumerate(self._members, start=1):
            member_outcomes = tuple(outcome for outcome in outcomes if outcome.change in self._changes[number - 1])
            statuses.append(cache.status(_member_evidence(evidence, number) if evidence else None, member_outcomes))
        return self._combine(statuses)

    def expected_status(self) -> WriteCacheStatus:
        return self._combine([cache.expected_status() for _, cache in self._members])

    def after_purge(self, evidence: Path) -> tuple[tuple[str, ...], tuple[Deviation, ...]]:
        remarks: tuple[str, ...] = ()
        deviations: tuple[Deviation, ...] = ()
        for number, (dut, cache) in enumerate(self._members, start=1):
            member_remarks, member_deviations = cache.after_purge(_member_evidence(evidence, number))
            remarks += tuple(f"{dut.path}: {remark}" for remark in member_remarks)
            deviations += member_deviations
        return remarks, deviations

    def setting_changes(self, evidence: Path) -> tuple[str, ...]:
        changes = (
            cache.setting_changes(_member_evidence(evidence, number))
            for number, (_, cache) in enumerate(self._members, start=1)
        )
        return tuple(chain.from_iterable(changes))

    def _combine(self, statuses: Sequence[WriteCacheStatus]) -> WriteCacheStatus:
        """Return the common status of all members, or a status that lists each member's."""
        first = statuses[0]
        if all(status == first for status in statuses):
            return WriteCacheStatus(state=first.state, source=f"each member: {first.source}")
        states = {status.state for status in statuses}
        is_disabled = states == _DISABLED_STATES
        state: CacheState = first.state if len(states) == 1 else "disabled" if is_disabled else "unknown"
        members = zip(self._members, statuses, strict=True)
        texts = (f"{dut.name} {status.state}, {status.source}" for (dut, _), status in members)
        return WriteCacheStatus(state=state, source=" | ".join(texts))


def _member_evidence(evidence: Path, number: int) -> Path:
    return evidence.with_name(f"{evidence.name}-member{number}")


def _block(dut: Dut, root: Path) -> Path | None:
    try:
        return block_directory(Path(dut.path).stat().st_rdev, root)
    except OSError:
        return None
