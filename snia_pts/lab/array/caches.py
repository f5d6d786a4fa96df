"""The write caches of an array's members, as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...model.dut import CacheState, Dut
from ...spec import Deviation
from ..device.identity import ROOT, block_directory
from ..settings.settings import AppliedChange, Change
from ..settings.write_cache import WriteCache, WriteCacheStatus

_AS_GOOD: frozenset[CacheState] = frozenset({"none", "disabled"})


class MemberCaches(WriteCache):
    """The write caches of all members, as a run is to have them; see WriteCache."""

    def __init__(self, members: Sequence[Dut], wanted: str, *, keep: bool = False, root: Path = ROOT) -> None:
        self._members = [(dut, WriteCache(dut, _block(dut, root), wanted, keep=keep, root=root)) for dut in members]
        self._changes: list[tuple[Change, ...]] = [() for _ in members]

    def changes(self, evidence: Path) -> tuple[Change, ...]:
        places = (_numbered(evidence, number) for number, _ in enumerate(self._members, start=1))
        self._changes = [cache.changes(place) for (_, cache), place in zip(self._members, places, strict=True)]
        return sum(self._changes, ())

    def told(self, evidence: Path | None = None, held: tuple[AppliedChange, ...] = ()) -> WriteCacheStatus:
        found = []
        for number, (_, cache) in enumerate(self._members, start=1):
            own = tuple(each for each in held if each.change in self._changes[number - 1])
            found.append(cache.told(_numbered(evidence, number) if evidence else None, own))
        return self._together(found)

    def foreseen(self) -> WriteCacheStatus:
        return self._together([cache.foreseen() for _, cache in self._members])

    def after_purge(self, evidence: Path) -> tuple[tuple[str, ...], tuple[Deviation, ...]]:
        remarks: tuple[str, ...] = ()
        deviations: tuple[Deviation, ...] = ()
        for number, (dut, cache) in enumerate(self._members, start=1):
            said, found = cache.after_purge(_numbered(evidence, number))
            remarks += tuple(f"{dut.path}: {line}" for line in said)
            deviations += found
        return remarks, deviations

    def _together(self, found: Sequence[WriteCacheStatus]) -> WriteCacheStatus:
        """Return what is true of all members, or tell each."""
        states = {each.state for each in found}
        state: CacheState = states.pop() if len(states) == 1 else "disabled" if states == _AS_GOOD else "unknown"
        if len({each.source for each in found}) == 1 and not states:
            return WriteCacheStatus(state=state, source=f"each member: {found[0].source}")
        words = (f"{dut.name} {each.state}, {each.source}" for (dut, _), each in zip(self._members, found, strict=True))
        return WriteCacheStatus(state=state, source=" | ".join(words))


def _numbered(evidence: Path, number: int) -> Path:
    return evidence.with_name(f"{evidence.name}-member{number}")


def _block(dut: Dut, root: Path) -> Path | None:
    try:
        return block_directory(Path(dut.path).stat().st_rdev, root)
    except OSError:
        return None
