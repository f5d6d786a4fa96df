"""The members of an array before it is created: read, checked and claimed like any target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from ...errors import HostFailed, TargetBusy, TargetUnfit, UsageError
from ...lab.device.contents import Contents
from ...lab.device.identity import ROOT, read_dut, resolved
from ...lab.device.target_claim import Target, claim_target, contents, require_claimable
from ...model.array import Layout, Member
from ...model.dut import Dut
from .programs import ArrayError
from .storcli import Storcli


class Members(Protocol):
    """The members of an array."""

    def read(self) -> tuple[Member, ...]:
        """Return the members in order, without claiming them; raises TargetMissing, TargetUnfit or TargetBusy."""
        ...

    def claimed(self, *, confirmed: bool) -> AbstractContextManager[tuple[Target, ...]]:
        """Claim all members exclusively, or raise; ``confirmed`` means that the operator confirmed their erasure.

        Yields () if the kernel does not see the members.
        """
        ...

    def require_claimable(self) -> None:
        """Raise what ``claimed`` would raise, as far as that is known without opening the members for writing."""
        ...

    def contents(self, targets: Sequence[Target], evidence: Path) -> tuple[Contents, ...]:
        """Return each member's contents, for the operator."""
        ...


class Drives:
    """Drives of this host."""

    def __init__(self, layout: Layout, *, discard_data: bool, root: Path = ROOT) -> None:
        self._paths = tuple(Path(name) for name in layout.members)
        self._discard_data, self._root = discard_data, root
        self._duts: tuple[Dut, ...] = ()

    @property
    def duts(self) -> tuple[Dut, ...]:
        """The drives as devices under test."""
        return self._duts or tuple(self._read_dut(path) for path in self._paths)

    def read(self) -> tuple[Member, ...]:
        """See Members."""
        return tuple(map(member_of, self.duts))

    @contextmanager
    def claimed(self, *, confirmed: bool) -> Iterator[tuple[Target, ...]]:
        """See Members; later claims must find the same drives as the first one."""
        self._require_distinct()
        with ExitStack() as stack:
            targets = [stack.enter_context(self._claim(path, confirmed=confirmed)) for path in self._paths]
            for dut, target in zip(self._duts, targets, strict=bool(self._duts)):
                if _identity(dut) != _identity(target.dut):
                    reason = f"{dut.path} is not the drive that was confirmed"
                    raise HostFailed(step="array", what=dut.path, reason=reason)
            self._duts = self._duts or tuple(target.dut for target in targets)
            yield tuple(targets)

    def require_claimable(self) -> None:
        """See Members."""
        self._require_distinct()
        for path in self._paths:
            self._read_dut(path)
            require_claimable(path, size_bytes=None, overwrite=False, discard_data=self._discard_data, root=self._root)

    def contents(self, targets: Sequence[Target], evidence: Path) -> tuple[Contents, ...]:
        """See Members."""
        return tuple(
            contents(target, evidence, f"wipefs-member{number}") for number, target in enumerate(targets, start=1)
        )

    def _claim(self, path: Path, *, confirmed: bool) -> AbstractContextManager[Target]:
        self._read_dut(path)
        # data that a test has written may resemble any signature
        discard = self._discard_data or confirmed
        return claim_target(path, size_bytes=None, overwrite=False, discard_data=discard, root=self._root)

    def _read_dut(self, path: Path) -> Dut:
        dut = read_dut(path, root=self._root)
        if dut.kind == "file":
            raise TargetUnfit(
                path=path, reason="it is a file; the members of an array are drives", hint="Name a drive."
            )
        return dut

    def _require_distinct(self) -> None:
        paths: dict[Path, Path] = {}
        for path in self._paths:
            if (other := paths.setdefault(resolved(path), path)) is not path:
                raise UsageError(detail=f"{other} and {path} are the same drive.", hint="Name each member once.")


class Slots:
    """Drives behind a hardware controller, which only the controller sees, not the kernel."""

    def __init__(self, layout: Layout, *, root: Path = ROOT) -> None:
        self._controller = Storcli(layout, root=root)
        self._layout = layout
        self._members: tuple[Member, ...] = ()

    def read(self) -> tuple[Member, ...]:
        """See Members; queries the controller."""
        if not self._members:
            self._members = self._query()
        return self._members

    @contextmanager
    def claimed(self, *, confirmed: bool) -> Iterator[tuple[Target, ...]]:
        """See Members: they cannot be claimed, but only unused drives are accepted."""
        members = self._query()
        if confirmed and members != self._members:
            reason = "its slots have other drives than those that were confirmed"
            raise HostFailed(step="array", what=self._layout.controller, reason=reason)
        self._members = members
        yield ()

    def require_claimable(self) -> None:
        """See Members."""
        self._query()

    def contents(self, targets: Sequence[Target], evidence: Path) -> tuple[Contents, ...]:
        """See Members: the controller does not report them."""
        del targets, evidence
        return (Contents(unreadable="the controller does not report them"),) * len(self._layout.members)

    def _query(self) -> tuple[Member, ...]:
        try:
            return self._controller.members()
        except ArrayError as error:
            path = f"controller {self._layout.index} ({self._layout.controller})"
            raise TargetBusy(path=path, reason=str(error), hint="Choose other slots.") from None


def member_of(dut: Dut) -> Member:
    """Return a drive as a member."""
    return Member(
        path=dut.path,
        model=dut.model,
        serial=dut.serial,
        firmware=dut.firmware,
        capacity_bytes=dut.capacity_bytes,
        rotational=dut.rotational,
    )


def _identity(dut: Dut) -> tuple[object, ...]:
    return dut.path, dut.model, dut.serial, dut.capacity_bytes, dut.logical_sector_bytes, dut.instance
