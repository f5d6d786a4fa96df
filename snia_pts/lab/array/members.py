"""The members of an array before it is made: looked at, held by the suite's own guard, and found again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from ...errors import HostFailed, TargetBusy, TargetUnfit, UsageError
from ...model.array import Layout, Member
from ...model.dut import Dut
from ..device.identity import ROOT, read_dut
from ..device.safety import Target, claim_target, contents, require_claimable
from .programs import Unmade
from .storcli import Storcli


class Members(Protocol):
    """The members of an array."""

    def look(self) -> tuple[Member, ...]:
        """Return what each is, in order; holds nothing.  Raises TargetMissing, TargetUnfit, TargetBusy."""
        ...

    def free(self, *, confirmed: bool) -> AbstractContextManager[tuple[Target, ...]]:
        """Hold all of them against everybody else, or refuse; ``confirmed`` are those that the operator gave up.

        Gives nothing where the kernel does not see them.
        """
        ...

    def require_free(self) -> None:
        """Raise what ``free`` would, as far as that can be told by reading alone."""
        ...

    def on_it(self, targets: Sequence[Target], evidence: Path) -> tuple[tuple[str, ...], ...]:
        """Return what is recognised on each, for the operator to see."""
        ...


class Drives:
    """Drives of this host."""

    def __init__(self, layout: Layout, *, discard_data: bool, root: Path = ROOT) -> None:
        self._paths = tuple(Path(name) for name in layout.members)
        self._discard_data, self._root = discard_data, root
        self._known: tuple[Dut, ...] = ()

    @property
    def duts(self) -> tuple[Dut, ...]:
        """What each drive says of itself."""
        return self._known or tuple(self._look(path) for path in self._paths)

    def look(self) -> tuple[Member, ...]:
        """See Members."""
        return tuple(map(member_of, self.duts))

    @contextmanager
    def free(self, *, confirmed: bool) -> Iterator[tuple[Target, ...]]:
        """See Members; once they are held they have to stay the same drives."""
        self._require_distinct()
        with ExitStack() as stack:
            held = [stack.enter_context(self._held(path, confirmed=confirmed)) for path in self._paths]
            for was, target in zip(self._known, held, strict=bool(self._known)):
                if _self(was) != _self(target.dut):
                    reason = f"{was.path} is another drive than the one that was confirmed"
                    raise HostFailed(step="array", what=was.path, reason=reason)
            self._known = self._known or tuple(target.dut for target in held)
            yield tuple(held)

    def require_free(self) -> None:
        """See Members."""
        self._require_distinct()
        for path in self._paths:
            self._look(path)
            require_claimable(path, size_bytes=None, overwrite=False, discard_data=self._discard_data, root=self._root)

    def on_it(self, targets: Sequence[Target], evidence: Path) -> tuple[tuple[str, ...], ...]:
        """See Members."""
        return tuple(contents(target, evidence) for target in targets)

    def _held(self, path: Path, *, confirmed: bool) -> AbstractContextManager[Target]:
        self._look(path)
        # what a test wrote over them may look like anything
        discard = self._discard_data or confirmed
        return claim_target(path, size_bytes=None, overwrite=False, discard_data=discard, root=self._root)

    def _look(self, path: Path) -> Dut:
        dut = read_dut(path, root=self._root)
        if dut.kind == "file":
            raise TargetUnfit(path=path, reason="it is a file, and an array is made of drives", hint="Name a drive.")
        return dut

    def _require_distinct(self) -> None:
        known: dict[str, Path] = {}
        for path in self._paths:
            if (other := known.setdefault(os.path.realpath(path), path)) is not path:
                raise UsageError(detail=f"{other} and {path} are the same drive.", hint="Name each member once.")


class Slots:
    """Drives behind a hardware controller, which the kernel does not see; the controller alone tells of them."""

    def __init__(self, layout: Layout, *, root: Path = ROOT) -> None:
        self._asked = Storcli(layout, root=root)
        self._layout = layout
        self._known: tuple[Member, ...] = ()

    def look(self) -> tuple[Member, ...]:
        """See Members; asks the controller."""
        if not self._known:
            self._known = self._looked()
        return self._known

    @contextmanager
    def free(self, *, confirmed: bool) -> Iterator[tuple[Target, ...]]:
        """See Members: nobody can hold them, but only free ones are taken."""
        now = self._looked()
        if confirmed and now != self._known:
            reason = "in its slots are other drives than those that were confirmed"
            raise HostFailed(step="array", what=self._layout.controller, reason=reason)
        self._known = now
        yield ()

    def require_free(self) -> None:
        """See Members."""
        self._looked()

    def on_it(self, targets: Sequence[Target], evidence: Path) -> tuple[tuple[str, ...], ...]:
        """See Members: the controller does not tell."""
        del targets, evidence
        return tuple(("what is on it cannot be told",) for _ in self._layout.members)

    def _looked(self) -> tuple[Member, ...]:
        try:
            return self._asked.members()
        except Unmade as why:
            where = f"controller {self._layout.index} ({self._layout.controller})"
            raise TargetBusy(path=where, reason=str(why), hint="Choose other slots.") from None


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


def _self(dut: Dut) -> tuple[object, ...]:
    return dut.path, dut.model, dut.serial, dut.capacity_bytes, dut.logical_sector_bytes
