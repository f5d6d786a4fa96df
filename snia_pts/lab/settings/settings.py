"""Change settings outside the suite for the duration of a run, and restore them afterwards, even if the run was killed.

Before the first change, restore files (``restore_files.py``) record the original values.
The first run that needs a setting owns it until that run ends.  Another run may use the owner's value, and is refused
if it needs another one.
A setting is restored only if the suite knows it, if it accepts the value, and if the drive is the one of the record.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import HostFailed, TargetBusy
from ...files import shell_quoted
from ..device.identity import ROOT
from .restore_files import (
    MANUAL_HINT,
    RESTORE_FILE,
    ChangeRecord,
    Owners,
    RestoreFile,
    content,
    find_owners,
    is_active,
    open_restore_file,
    read_restore_file,
    remove_restore_files,
    restore_files,
    trusted_contents,
    write_restore_files,
)
from .state_dir import boot_id, locked_state_dir

_LOGGER = logging.getLogger(__name__)
_UNREADABLE = "its value cannot be read"


class Setting(Protocol):
    """A setting of the host or of a drive, identified by its ``kind`` and ``place``.

    ``name`` is for messages.  ``drive`` identifies the drive that the setting belongs to; it is empty for a setting of
    the host.  ``survives_boot`` says whether a value persists over a reboot.
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
    def survives_boot(self) -> bool: ...

    def accepts(self, value: str) -> bool:
        """Return whether the suite may set it to this value."""
        ...

    def candidates(self) -> Iterator[Setting]:
        """Yield the setting at every other place where its drive may be now."""
        ...

    def read(self) -> str | None:
        """Return its value; None if it does not exist or cannot be read."""
        ...

    def write(self, value: str) -> None:
        """Set it; raises OSError."""
        ...


#: Returns a setting by kind and place; None if the suite does not change it.
Find = Callable[[str, str], Setting | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting and the value that the run needs.

    Without a value, the run varies the setting, or another change may alter it; at the end it is only restored.
    """

    setting: Setting
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedChange:
    """The outcome of a change: the value ``before``, and the ``error`` if it failed."""

    change: Change
    before: str
    error: str = ""


@contextmanager
def applied(
    changes: Sequence[Change], folder: Path, *, find: Find, report: Callable[[str], None], root: Path = ROOT
) -> Iterator[tuple[AppliedChange, ...]]:
    """Apply ``changes`` while the block runs, recorded in the run folder ``folder``.

    Yield the outcome of each change, except for a setting that already had its value.  At the end, ``report`` receives
    a line for each setting that could not be restored, or that another process has changed, so that it is not restored.
    Raises TargetBusy if another run owns a setting and has another value for it, HostFailed if a restore file exists
    already.
    """
    with ExitStack() as stack:
        with _signals_blocked(), locked_state_dir(root) as state_dir:
            plans, failures = _plan(changes, find_owners(state_dir))
            if plans:
                contents = _restore_file(folder, plans, root)
                write_restore_files(folder, state_dir, contents, stack)
                stack.callback(_restore_at_end, folder, contents.changes, find=find, report=report, root=root)
            outcomes = tuple(_apply(plan) for plan in plans if plan.before != plan.change.value)
        yield (*outcomes, *failures)


def restore(*folders: Path, find: Find, root: Path = ROOT) -> tuple[str, ...]:
    """Restore what killed runs left on this host, and what the runs in ``folders`` left; return messages.

    Raises HostFailed if a folder's settings could not be restored, or if root is to follow a restore file that the
    state directory does not have.
    """
    messages: list[str] = []
    with _signals_blocked(), locked_state_dir(root) as state_dir:
        trusted = trusted_contents(state_dir)
        for path in restore_files(state_dir):
            messages += _restore_from(path, None, state_dir, find, root)
        for folder in folders:
            if not os.path.lexists(folder / RESTORE_FILE):
                continue
            lines = _restore_from(folder / RESTORE_FILE, folder, state_dir, find, root, trusted)
            if os.path.lexists(folder / RESTORE_FILE):
                reason = "; ".join(lines) or "the run is still active"
                raise HostFailed(step="settings", what=folder / RESTORE_FILE, reason=reason, hint=MANUAL_HINT)
            messages += lines
    return tuple(messages)


def change_sentence(name: str, before: str, now: str) -> str:
    """Return the sentence for a setting whose value changed during a run."""
    return f"{name} changed from {before} to {now}; measurements may have been made with either value"


def changes_since_kill(folder: Path, *, find: Find, root: Path = ROOT) -> tuple[str, ...]:
    """Return a sentence for each setting that no longer has the value that a killed run in ``folder`` needed.

    Call it before the restore.  It returns nothing after a reboot, which resets values, or if ``restore`` would not
    follow the restore file.
    """
    lines: list[str] = []
    with ExitStack() as stack, suppress(OSError, ValueError):  # restore reports what is wrong with the file
        state_dir = stack.enter_context(locked_state_dir(root))
        descriptor = stack.enter_context(open_restore_file(folder / RESTORE_FILE))
        if is_active(descriptor):
            return ()
        contents = _read_checked(descriptor, find, trusted_contents(state_dir))
        if contents.boot != boot_id(root):
            return ()
        for record in contents.changes:
            setting = _locate(record, find)
            if setting is None or setting.drive != record.drive or not record.value:
                continue
            now = setting.read() or "unreadable"
            if now != record.value:
                lines.append(change_sentence(setting.name, record.value, now))
    return tuple(dict.fromkeys(lines))


def _plan(changes: Sequence[Change], owners: Owners) -> tuple[list[AppliedChange], tuple[AppliedChange, ...]]:
    """Return the changes of the settings that this run will own, with the values to restore, and the failures.

    Raises TargetBusy if another run owns a setting and has another value for it.
    """
    plans, failures = [], []
    # Settings that change as a side effect come before their cause; check the cause first, so that the error names it.
    for change in reversed(changes):
        setting = change.setting
        if owner := owners.get((setting.kind, setting.place, setting.drive)):
            _require_same_value(change, *owner)
        elif (current := setting.read()) is None:
            failures.append(AppliedChange(change=change, before="", error="it cannot be read"))
        elif not setting.accepts(current):
            error = f"it is {current}, which could not be restored"
            failures.append(AppliedChange(change=change, before=current, error=error))
        else:
            plans.append(AppliedChange(change=change, before=current))
    return plans[::-1], tuple(failures)


def _require_same_value(change: Change, owner: RestoreFile, record: ChangeRecord) -> None:
    """Raise TargetBusy unless a change needs the value that the owner of the setting has given it."""
    if change.value and change.value == record.value:
        return
    ownership = f"keeps it at {record.value}" if record.value else "varies it"
    need = f"needs {change.value}" if change.value else "varies it"
    raise TargetBusy(
        path=change.setting.name,
        reason=f"the run in {owner.run} (process {owner.pid}) {ownership}, and this run {need}",
        hint=f"Wait until that run has ended; snia-pts status {shell_quoted(Path(owner.run))} shows its state.",
    )


def _apply(plan: AppliedChange) -> AppliedChange:
    """Apply a change and read it back; an earlier change may already have had the same effect."""
    setting, value = plan.change.setting, plan.change.value
    failure = ""
    if value and setting.read() != value:
        try:
            setting.write(value)
        except OSError as error:
            failure = error.strerror or str(error)
        now = setting.read()
        failure = "" if now == value else failure or f"it is {now or 'unreadable'} after it was set"
        if failure:
            _LOGGER.warning("%s could not be set to %s: %s", setting.name, value, failure)
        else:
            _LOGGER.info("%s set to %s (it was %s)", setting.name, value, plan.before)
    return AppliedChange(change=plan.change, before=plan.before, error=failure)


def _restore_at_end(
    folder: Path, changes: Sequence[ChangeRecord], *, find: Find, report: Callable[[str], None], root: Path
) -> None:
    """Restore all settings at the end of a run."""
    with _signals_blocked(), locked_state_dir(root) as state_dir:
        _, skipped, pending = _restore_changes(changes, find)
        for line in (*skipped, *pending):
            report(line)
        if pending:
            report("snia-pts host --restore tries again")
        else:
            remove_restore_files(folder, state_dir)


def _restore_from(
    path: Path,
    folder: Path | None,
    state_dir: Path | None,
    find: Find,
    root: Path,
    trusted: Collection[bytes] | None = None,
) -> list[str]:
    """Restore the settings in the restore file at ``path``, unless its run is active; return messages.

    ``folder`` is the run folder that contains the file; None for a file in the state directory.  Unless ``trusted`` is
    None, the file must have one of these contents.
    """
    try:
        with open_restore_file(path) as descriptor:
            if is_active(descriptor):
                return []
            contents = _read_checked(descriptor, find, trusted)
            run = folder or Path(contents.run)
            changes = [record for record in contents.changes if _may_persist(record, contents, find, root)]
            restored, skipped, pending = _restore_changes(changes, find)
            if not pending:
                remove_restore_files(run, state_dir, only=None if folder else content(descriptor))
                path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        return [f"{path} is ignored: {error.strerror if isinstance(error, OSError) else error}"]
    messages = [f"restored what the run {run} left: {', '.join(restored)}"] if restored else []
    return messages + skipped + pending


def _read_checked(descriptor: int, find: Find, trusted: Collection[bytes] | None) -> RestoreFile:
    """Return the contents of a restore file; raises ValueError, with the reason, if it must not be followed."""
    contents = read_restore_file(descriptor, trusted)
    for record in contents.changes:
        setting = find(record.kind, record.place)
        values = (record.before, record.value) if record.value else (record.before,)
        if setting is None or not all(map(setting.accepts, values)):
            raise ValueError(f"it contains a setting that this suite does not change ({record.kind[:40]!a})")
    return contents


def _may_persist(record: ChangeRecord, contents: RestoreFile, find: Find, root: Path) -> bool:
    """Return whether a setting may still have the run's value: a reboot resets most of them."""
    setting = find(record.kind, record.place)
    return contents.boot == boot_id(root) or bool(setting and setting.survives_boot)


def _restore_changes(changes: Sequence[ChangeRecord], find: Find) -> tuple[list[str], list[str], list[str]]:
    """Restore changes, the last one first; return what was restored, and messages for those skipped and those pending.

    A setting that had the run's value before the run is left as it is.
    """
    records = [record for record in reversed(changes) if record.before != record.value]
    restored: Counter[str] = Counter()
    skipped: list[tuple[str, str]] = []
    failures = _try_restore(records, find, restored, skipped)
    unreadable = [failure for failure in failures if failure[1].endswith(_UNREADABLE)]
    # The kernel may accept a value only once another setting is restored.
    retry = [record for record, message in failures if not message.endswith(_UNREADABLE)]
    pending = unreadable + _try_restore(retry, find, restored, skipped)
    names = [f"{name} ({count} times)" if count > 1 else name for name, count in restored.items()]
    return names, [message for _, message in skipped], [message for _, message in pending]


def _try_restore(
    records: Iterable[ChangeRecord], find: Find, restored: Counter[str], skipped: list[tuple[str, str]]
) -> list[tuple[ChangeRecord, str]]:
    """Try to restore changes; add to ``restored`` and, with the place, to ``skipped``; return failures with messages.

    If another process has since changed a setting, the settings that depend on it are skipped too.
    """
    failures = []
    for record in records:
        setting = _locate(record, find)
        is_present = setting is not None and setting.drive == record.drive
        now = setting.read() if setting and is_present else None
        if setting and not is_present and setting.survives_boot:
            message = f"{record.kind} {record.before} of the drive {record.drive!a} is pending: the drive is missing"
            failures.append((record, message))
        elif setting is None or (now is None and not (is_present and record.drive)):
            message = f"{record.kind} of {record.place or 'the host'} is not restored: it no longer exists"
            skipped.append((record.place, message))
        elif now is None:
            failures.append((record, f"{setting.name} could not be restored to {record.before}: {_UNREADABLE}"))
        elif now == record.before or (record.value == "" and record.place in dict(skipped)):
            continue
        elif record.value not in ("", now):
            reason = f"it is {now}, neither the run's value ({record.value}) nor the original one ({record.before})"
            skipped.append((record.place, f"{setting.name} is left as it is: {reason}"))
        elif error := _apply(AppliedChange(change=Change(setting=setting, value=record.before), before=now)).error:
            failures.append((record, f"{setting.name} could not be restored to {record.before}: {error}"))
        else:
            restored[f"{setting.name} {record.before}"] += 1
    return failures


def _locate(record: ChangeRecord, find: Find) -> Setting | None:
    """Return a record's setting at the present place of its drive; if the drive is missing, at the recorded place."""
    setting = find(record.kind, record.place)
    others = setting.candidates() if setting is not None and setting.drive != record.drive else ()
    return next((other for other in others if other.drive == record.drive), setting)


def _restore_file(folder: Path, plans: Iterable[AppliedChange], root: Path) -> RestoreFile:
    changes = (
        ChangeRecord(
            kind=plan.change.setting.kind,
            place=plan.change.setting.place,
            drive=plan.change.setting.drive,
            before=plan.before,
            value=plan.change.value,
        )
        for plan in plans
    )
    return RestoreFile(run=str(folder), pid=os.getpid(), boot=boot_id(root), changes=tuple(changes))


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block Ctrl-C, SIGTERM and SIGHUP while settings are changed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
