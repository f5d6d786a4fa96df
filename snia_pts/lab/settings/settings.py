"""What is changed outside the suite for the time of a run, and put back after it: also when the run was killed.

Before the first change a note says what was found: in the register (``register.py``), and as ``settings.json`` in the
run folder.  Both are locked as long as the run goes on, so a note that nobody has locked is what a killed run left.
Anybody may have written the note in a run folder: root follows it only if the register has the same.  Only settings
that the suite knows are followed, with values that it knows, on the drive that they were read from.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from pydantic import TypeAdapter, ValidationError

from ...errors import HostFailed, RunFolderError
from ...files import replace_file
from ..device.identity import ROOT
from .register import boot, entered, note_name

NOTE = "settings.json"
_LARGEST_BYTES = 1 << 20
_MUTE = "it does not tell what it is"
_UNKNOWN = "/var/lib/snia-pts has no copy of it, so root cannot know that a run on this host wrote it"
_BY_HAND = "Put it back by hand (docs/host.rst tells how), then remove that file."


class Setting(Protocol):
    """Something outside: what ``kind`` of setting, of what ``place``.

    ``name`` is for people.  ``drive`` tells the drive whose setting it is from every other; nothing for the host's.
    ``lasting`` are those that outlive a boot.
    """

    @property
    def kind(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def drive(self) -> str: ...
    @property
    def lasting(self) -> bool: ...

    def takes(self, value: str) -> bool:
        """Tell whether a value is one of those that it may be given."""
        ...

    def elsewhere(self) -> Iterator[Setting]:
        """Give the same setting of other places, where its drive may be by now."""
        ...

    def read(self) -> str | None:
        """Return its value; None where it is not there, or does not tell."""
        ...

    def write(self, value: str) -> None:
        """Set it; raises OSError."""
        ...


#: Returns a setting by kind and place; None for one that the suite does not change.
Find = Callable[[str, str], Setting | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting and the value that it is to have; without one it is only put back, as others may take it along.

    One that is ``alone`` cannot be what another run keeps, or goes through.
    """

    setting: Setting
    value: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedChange:
    """What came of a change: what was ``before``, and why it did not take, if so."""

    change: Change
    before: str
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord:
    """A change as a note tells it."""

    kind: str
    place: str
    drive: str
    before: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFile:
    """The note of a run: where it is, which boot of the host it was in, and what it changed, in this order."""

    format: Literal[1] = 1
    run: str
    boot: str
    changes: tuple[ChangeRecord, ...]


@cache
def _reader() -> TypeAdapter[RestoreFile]:
    return TypeAdapter(RestoreFile)


@contextmanager
def applied(
    changes: Sequence[Change], folder: Path, *, find: Find, tell: Callable[[str], None], root: Path = ROOT
) -> Iterator[tuple[AppliedChange, ...]]:
    """Make ``changes`` for the time of the block, noted in the run folder ``folder``; give what came of each.

    What could not be put back at the end, or is not touched as somebody else changed it, is told.  Raises HostFailed
    where a note stands there already.
    """
    with ExitStack() as held:
        with _uninterrupted(), entered(root) as register:
            begun, others = _due(changes, _others(register, folder))
            if begun:
                note = _note(folder, begun, root)
                with _nothing_left(folder, register):
                    if register is not None:
                        _keep(register / note_name(folder), note, held)
                    _keep(folder / NOTE, note, held)
                held.callback(_end, folder, note.changes, find=find, tell=tell, root=root)
            done = tuple(_made(each) for each in begun)
        yield (*done, *others)


def restore(*folders: Path, find: Find, root: Path = ROOT) -> tuple[str, ...]:
    """Put back what killed runs left on this host, and what the runs in ``folders`` left; return what was done.

    Raises HostFailed where what is left in a folder could not be put back, or where root is asked to follow a note that
    the register does not have.
    """
    told: list[str] = []
    with _uninterrupted(), entered(root) as register:
        registered = sorted(register.glob("*.json")) if register else []
        known = {path.read_bytes() for path in registered} if os.geteuid() == 0 else None
        for path in registered:
            told += _restored(path, None, register, find, root)
        for folder in folders:
            if not os.path.lexists(folder / NOTE):
                continue
            lines = _restored(folder / NOTE, folder, register, find, root, known)
            if os.path.lexists(folder / NOTE):
                reason = "; ".join(lines) or "the run goes on"
                raise HostFailed(step="settings", what=folder / NOTE, reason=reason, hint=_BY_HAND)
            told += lines
    return tuple(told)


def _due(
    changes: Iterable[Change], others: Sequence[ChangeRecord]
) -> tuple[list[AppliedChange], tuple[AppliedChange, ...]]:
    """Sort changes into those that are to be made or kept, with what is to be put back, and those that cannot be.

    What another run changed already, and keeps, is as it was before that.
    """
    kept = {(each.kind, each.place): each for each in others}
    due, cannot = [], []
    for change in changes:
        now, other = change.setting.read(), kept.get((change.setting.kind, change.setting.place))
        if now is None:
            cannot.append(AppliedChange(change=change, before="", trouble="it cannot be read"))
        elif not change.setting.takes(now):
            cannot.append(AppliedChange(change=change, before=now, trouble=f"it is {now}, which could not be put back"))
        elif other is not None and (change.alone or change.value not in ("", other.value)):
            does = f"keeps it at {other.value}" if other.value else "goes through its values"
            cannot.append(AppliedChange(change=change, before=now, trouble=f"another run {does}"))
        elif other is not None:
            due.append(AppliedChange(change=change, before=other.before))
        elif now != change.value:
            due.append(AppliedChange(change=change, before=now))
    return due, tuple(cannot)


def _made(held: AppliedChange) -> AppliedChange:
    """Make a change and look whether it took; it may have come with one before it."""
    setting, value = held.change.setting, held.change.value
    trouble = ""
    if value and setting.read() != value:
        try:
            setting.write(value)
        except OSError as error:
            trouble = error.strerror or str(error)
        now = setting.read()
        trouble = "" if now == value else trouble or f"it is {now or 'not told'} after it was set"
    return AppliedChange(change=held.change, before=held.before, trouble=trouble)


def _end(folder: Path, changes: Sequence[ChangeRecord], *, find: Find, tell: Callable[[str], None], root: Path) -> None:
    """Put everything back at the end of a run."""
    with _uninterrupted(), entered(root) as register:
        _, troubles, left = _put_back(changes, _others(register, folder), find)
        for line in (*troubles, *left):
            tell(line)
        if left:
            tell("snia-pts host --restore tries again")
        else:
            _forget(folder, register)


def _restored(
    path: Path,
    folder: Path | None,
    register: Path | None,
    find: Find,
    root: Path,
    known: Collection[bytes] | None = None,
) -> list[str]:
    """Put back what the note at ``path`` says, unless its run goes on; return what was done.

    ``folder`` is where it lies, None for one of the register, which nobody else writes.  If the contents of ``known``
    notes are given, only these are followed.
    """
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        note = _read(descriptor, find, known)
        run = folder or Path(note.run)
        changes = [each for each in note.changes if _still(each, note, find, root)]
        back, troubles, left = _put_back(changes, _others(register, run), find)
        if not left:
            _forget(run, register, only=None if folder else os.pread(descriptor, _LARGEST_BYTES, 0))
            path.unlink(missing_ok=True)
        done = [f"put back what the run {run} left: {', '.join(back)}"] if back else []
        return done + troubles + left
    except BlockingIOError:
        return []
    except (OSError, ValueError) as error:
        return [f"{path} is not followed: {error.strerror if isinstance(error, OSError) else error}"]
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _still(noted: ChangeRecord, note: RestoreFile, find: Find, root: Path) -> bool:
    """Whether a setting may still be as the run left it: a boot puts most of them back."""
    setting = find(noted.kind, noted.place)
    return note.boot == boot(root) or bool(setting and setting.lasting)


def _put_back(
    changes: Sequence[ChangeRecord], others: Sequence[ChangeRecord], find: Find
) -> tuple[list[str], list[str], list[str]]:
    """Put changes back, the last one first; return what is back, what was left alone and why, and what would not go.

    What another run keeps is left to it.
    """
    kept = {(each.kind, each.place) for each in others}
    waiting = [each for each in reversed(changes) if (each.kind, each.place) not in kept]
    back: Counter[str] = Counter()
    alone: list[tuple[str, str]] = []
    left = _tried(waiting, find, back, alone)
    mute = [each for each in left if each[1].endswith(_MUTE)]
    left = mute + _tried([noted for noted, why in left if not why.endswith(_MUTE)], find, back, alone)  # after others
    done = [f"{what} ({count} times)" if count > 1 else what for what, count in back.items()]
    return done, [why for _, why in alone], [why for _, why in left]


def _tried(
    waiting: Iterable[ChangeRecord], find: Find, back: Counter[str], alone: list[tuple[str, str]]
) -> list[tuple[ChangeRecord, str]]:
    """Try to put changes back, adding to what is ``back`` and, by place, ``alone``; return what would not go, and why.

    Somebody who changed a setting meanwhile also answers for what that took along.
    """
    left = []
    for noted in waiting:
        setting = _found(noted, find)
        there = setting is not None and setting.drive == noted.drive
        now = setting.read() if setting and there else None
        if setting and not there and setting.lasting:
            left.append((noted, f"{noted.kind} {noted.before} of the drive {noted.drive!a} waits: it is not there"))
        elif setting is None or (now is None and not (there and noted.drive)):
            alone.append((noted.place, f"{noted.kind} of {noted.place or 'the host'} is not put back: it is gone"))
        elif now is None:
            left.append((noted, f"{setting.name} could not be put back to {noted.before}: {_MUTE}"))
        elif now == noted.before or (noted.value == "" and noted.place in dict(alone)):
            continue
        elif noted.value not in ("", now):
            reason = f"it is {now}, neither {noted.value}, as the run set it, nor {noted.before}, as it was before"
            alone.append((noted.place, f"{setting.name} is left alone: {reason}"))
        elif trouble := _made(AppliedChange(change=Change(setting=setting, value=noted.before), before=now)).trouble:
            left.append((noted, f"{setting.name} could not be put back to {noted.before}: {trouble}"))
        else:
            back[f"{setting.name} {noted.before}"] += 1
    return left


def _found(noted: ChangeRecord, find: Find) -> Setting | None:
    """Return the setting that was changed, where its drive is by now; as it was noted where that is not there."""
    setting = find(noted.kind, noted.place)
    others = setting.elsewhere() if setting is not None and setting.drive != noted.drive else ()
    return next((each for each in others if each.drive == noted.drive), setting)


def _note(folder: Path, begun: Iterable[AppliedChange], root: Path) -> RestoreFile:
    changes = (
        ChangeRecord(
            kind=each.change.setting.kind,
            place=each.change.setting.place,
            drive=each.change.setting.drive,
            before=each.before,
            value=each.change.value,
        )
        for each in begun
    )
    return RestoreFile(run=str(folder), boot=boot(root), changes=tuple(changes))


def _keep(path: Path, note: RestoreFile, held: ExitStack) -> None:
    """Write a note, and lock it for the time of a run; raises HostFailed where there is one already."""
    if os.path.lexists(path):
        reason = "what another run changed stands there, and is not put back yet"
        raise HostFailed(step="settings", what=path, reason=reason, hint=_BY_HAND)
    try:
        replace_file(path, _reader().dump_json(note, indent=1))
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)  # NFS locks only what may be written
        held.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except (OSError, RunFolderError) as error:
        trouble = getattr(error, "strerror", None) or error
        reason = f"what is to be put back cannot be noted ({trouble}); nothing was changed"
        raise HostFailed(
            step="settings", what=path, reason=reason, hint="Make room, or choose another place."
        ) from None


@contextmanager
def _nothing_left(folder: Path, register: Path | None) -> Iterator[None]:
    """Remove a note where the other could not be written; one that stood there before is another's."""
    stood = os.path.lexists(folder / NOTE) or bool(register and os.path.lexists(register / note_name(folder)))
    try:
        yield
    except HostFailed:
        if not stood:
            _forget(folder, register)
        raise


def _read(descriptor: int, find: Find, known: Collection[bytes] | None) -> RestoreFile:
    """Return a note that may be followed; raises ValueError, with the reason, for every other."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
        raise ValueError("it is no note of this suite")
    if status.st_uid not in (0, os.geteuid()):
        raise ValueError("another user wrote it")
    content = os.pread(descriptor, _LARGEST_BYTES, 0)
    if known is not None and content not in known:
        raise ValueError(_UNKNOWN)
    try:
        note = _reader().validate_json(content, strict=True)
    except ValidationError:
        raise ValueError("it is no note of this suite") from None
    for each in note.changes:
        setting = find(each.kind, each.place)
        if setting is None or not setting.takes(each.before) or not (each.value == "" or setting.takes(each.value)):
            raise ValueError(f"it tells of something that this suite does not set ({each.kind[:40]!a})")
    return note


def _others(register: Path | None, folder: Path) -> list[ChangeRecord]:
    """Return what other runs keep that go on at this moment."""
    found: list[ChangeRecord] = []
    for path in sorted(register.glob("*.json")) if register else ():
        if path.name == note_name(folder):
            continue
        with suppress(OSError, ValueError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found += _reader().validate_json(file.read(_LARGEST_BYTES), strict=True).changes
    return found


def _forget(folder: Path, register: Path | None, only: bytes | None = None) -> None:
    """Remove the notes of a run; of its folder's, only one with the same content, if that is given.

    That of the folder goes first: root would not follow it without the other, if this is killed in between.
    """
    with suppress(OSError):
        note = folder / NOTE
        if only is None or (not note.is_symlink() and note.read_bytes() == only):
            note.unlink()
    if register is not None:
        (register / note_name(folder)).unlink(missing_ok=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP while something is changed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
