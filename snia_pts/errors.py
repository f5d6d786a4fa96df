"""The errors that the operator reads.

``message`` is the template of an error's sentence, ``hint`` says what to do, ``exit_code`` is what the shell sees.
A caller that knows more adds it with ``add_note``; ``full_hint`` includes it.  The hint is the first note, so that
Python shows all of them below a traceback.  A class has its own exit code, or
that of its parent::

    SniaPtsError            1
     |- UsageError          2   an invalid option or value
     |- SpecError           3   a specification file or a --set with mistakes
     |- ToolMissing         4   a program that the run needs is not installed
     |   |- ToolTooOld      4   such a program is too old
     |- RunFolderError      5   the run folder cannot be created or written
     |- TargetMissing       6   no such target
     |- TargetBusy          7   the target is in use: mounted, swap, claimed, open
     |- TargetNotOurs       8   the target may hold data of other people
     |- NotConfirmed        9   the operator did not confirm the destruction
     |- TargetUnfit        10   the target cannot be tested
     |- PurgeFailed        11   a purge failed, or was not proven
     |- DeviceFailed       12   the device under test failed
     |- HostFailed         13   the host or a tool failed, or the device and nothing shows it
     |- RecordError        14   a stored run cannot be read
     |   |- ImportRejected 14   a file of another tool cannot be imported
     |   |- FolderKept     14   the folder of a packed run cannot be removed
     |   |- UnknownRun     14   the pages were asked for a run, or a file of one, that there is not
     |   |- UploadRefused  14   what another host sent is not the folder of a run
     |- ReportError        15   a report could not be made, or not as intended
     |- NotResumable       16   a stored run cannot be resumed
     |- NotRunning         17   no run is in progress there
     |- NotComparable      18   stored runs that answer different questions
     |- LimitsMissed       19   a number of a test does not meet its limit
     |- NotExportable      20   a stored run cannot be written as another tool's file
     |- KernelFilesMissing 21   /proc or /sys is not mounted
     |- LibraryMissing     22   an optional Python library is not installed
     |- StoreError         23   a store of results cannot be used
     |- RegressionFound    24   a key figure is worse than in comparable runs
     |- RegressionUnknown  25   a key figure has no basis for a judgement
     |- BatchIncomplete    26   no test began on some drives of a batch
     |- RequestRefused     27   a host of a lab may not perform a request
     |- LabError           28   the database of a lab cannot be used
     |- AgentRunning       29   another agent of the host is running
    Interrupted           130   the operator, SIGTERM or SIGHUP stopped the run
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from .plugins import EXTRAS

#: The hint of Interrupted if no test had started: there is nothing to resume.
NOTHING_TESTED = "Nothing was tested."


class CopyableError(Exception):
    """An exception that can be copied and pickled, whatever arguments its class takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own method would call the class with ``args`` alone.
        return type(self).__new__, (type(self), *self.args), vars(self)


@dataclass(kw_only=True, eq=False)
class SniaPtsError(CopyableError):
    """An error for the operator; exit code 1 is that of an error without a code of its own.

    The fields fill the templates ``message`` and, unless one is given, ``hint``.
    """

    exit_code: ClassVar[int] = 1
    message: ClassVar[str]
    hint: str = ""

    def __post_init__(self) -> None:
        if self.hint == type(self).hint:
            shell_words = {
                name: shlex.quote(str(value)) if isinstance(value, os.PathLike) else value
                for name, value in vars(self).items()
            }
            self.hint = self.hint.format(**shell_words)
        if self.hint:
            self.add_note(self.hint)

    def __str__(self) -> str:
        return self.message.format(**vars(self))

    @property
    def full_hint(self) -> str:
        """The hint and the notes that callers added, on one line."""
        return " ".join(getattr(self, "__notes__", ()))


@dataclass(kw_only=True, eq=False)
class UsageError(SniaPtsError, ValueError):
    """An invalid option or value."""

    exit_code = 2
    message = "{detail}"
    hint: str = "See snia-pts --help."
    detail: str


@dataclass(kw_only=True, eq=False)
class SpecError(SniaPtsError, ValueError):
    """A specification, a profile or another file of yours, or a --set, with mistakes.

    All mistakes that can be found at once are listed.
    """

    exit_code = 3
    message = "{what} {path} has {count}:\n{mistakes}"
    hint: str = "Correct the file or the option; the files in specs/ show every key and its form."
    what: str
    path: Path | str
    count: str
    mistakes: str


@dataclass(kw_only=True, eq=False)
class ToolMissing(SniaPtsError):
    """A program that the run needs is not installed; ``package`` provides it."""

    exit_code = 4
    message = "{program} is needed and was not found."
    hint: str = "Install it (Debian, Ubuntu: apt install {package}) or put it on the PATH."
    program: str
    package: str = ""


@dataclass(kw_only=True, eq=False)
class ToolTooOld(ToolMissing):
    """A program that the run needs is older than the suite supports, or does not state its version."""

    message = "{program} {required} or newer is needed (found: {found})."
    hint: str = "Install a newer {package} and put it on the PATH."
    found: str
    required: str


@dataclass(kw_only=True, eq=False)
class RunFolderError(SniaPtsError):
    """The run folder cannot be created or written."""

    exit_code = 5
    message = "The run folder {path} cannot be used: {reason}."
    hint: str = "Name another place with --run-dir."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class TargetMissing(SniaPtsError):
    """There is no such target."""

    exit_code = 6
    message = "{path} does not exist."
    hint: str = "Check the name with snia-pts devices."
    path: Path | str


@dataclass(kw_only=True, eq=False)
class TargetBusy(SniaPtsError):
    """The target is in use, or another run owns a setting and has another value for it."""

    exit_code = 7
    message = "{path} is in use: {reason}. Nothing was written to it."
    hint: str = "Free it first, or choose another drive: a test destroys everything on its target."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class TargetNotOurs(SniaPtsError):
    """The target may hold data of other people: a file that snia-pts did not create, a file system, partitions."""

    exit_code = 8
    message = "{path} may hold data of other people: {reason}. Nothing was written to it."
    hint: str = "Choose another target."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class NotConfirmed(SniaPtsError):
    """The operator did not confirm the destruction, or the restart of a test on a file.

    ``confirmation`` is the expected text.
    """

    exit_code = 9
    message = "{path} was not confirmed: {reason}. Nothing was written to it."
    hint: str = "Type {confirmation} at the prompt, or give --serial {confirmation}."
    path: Path | str
    reason: str
    confirmation: str = ""


@dataclass(kw_only=True, eq=False)
class TargetUnfit(SniaPtsError, ValueError):
    """The target cannot be tested."""

    exit_code = 10
    message = "{path} cannot be tested: {reason}. Nothing was written to it."
    hint: str = "Choose another target."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class PurgeFailed(SniaPtsError):
    """A purge failed, or was not proven."""

    exit_code = 11
    message = "The purge of {path} by {method} {reason}."
    hint: str = "Choose another method with --purge (docs/purge.rst); --allow-unpurged continues anyway."
    path: Path | str
    method: str
    reason: str


@dataclass(kw_only=True, eq=False)
class DeviceFailed(SniaPtsError):
    """The device under test failed."""

    exit_code = 12
    message = "The device failed in step {step} ({what}): {reason}."
    hint: str = "The run folder keeps all earlier measurements; check the evidence of this step and dmesg."
    step: str
    what: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class HostFailed(SniaPtsError):
    """The host or a tool failed; it may have been the device, but nothing shows that."""

    exit_code = 13
    message = "The host failed in step {step} ({what}): {reason}."
    hint: str = "The run folder keeps all earlier measurements; check the evidence of this step."
    step: str
    what: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class RecordError(SniaPtsError, ValueError):
    """A stored run cannot be read, or its result.xml or evidence differs from its journal."""

    exit_code = 14
    message = "The stored run {path} cannot be read: {reason}."
    hint: str = "Name the folder of a run (it contains journal.jsonl)."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class ImportRejected(RecordError):
    """A file of another tool cannot be imported."""

    message = "{path} cannot be imported: {reason}."
    hint: str = "Import another file; docs/import.rst says what a file must contain."


@dataclass(kw_only=True, eq=False)
class FolderKept(RecordError):
    """The folder of a packed run cannot be removed; if it differs from its archive, nothing of it was."""

    message = "{path} cannot be removed: {reason}."
    hint: str = "Keep it, or remove it by hand."


@dataclass(kw_only=True, eq=False)
class UnknownRun(RecordError):
    """The page or the API was asked for a run, or a file of a run, that does not exist."""

    message = "There is no {path}: {reason}."
    hint: str = "The page lists all runs of its folder."


@dataclass(kw_only=True, eq=False)
class UploadRefused(RecordError):
    """The results that the agent of another host sent are not those of a run folder; nothing was written."""

    message = "The results of run {path} are refused: {reason}."
    hint: str = "The folder is still on its host; find out what its agent sent."


@dataclass(kw_only=True, eq=False)
class ReportError(SniaPtsError):
    """A report could not be made, or not as intended; the result is safe."""

    exit_code = 15
    message = "The report could not be made: {reason}."
    hint: str = "The result is safe; create the report again with snia-pts report RUN."
    reason: str


@dataclass(kw_only=True, eq=False)
class NotResumable(SniaPtsError):
    """A stored run cannot be resumed: it is finished, it is running, or the drive is another."""

    exit_code = 16
    message = "The run {path} cannot be resumed: {reason}."
    hint: str = "All measurements are safe; snia-pts report {path} reports them. Start a new run."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class NotRunning(SniaPtsError):
    """No run is in progress in the folder, so that none can be stopped."""

    exit_code = 17
    message = "{path} is not running: {reason}."
    hint: str = "snia-pts status {path} shows its state."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class NotComparable(SniaPtsError, ValueError):
    """The stored runs answer different questions."""

    exit_code = 18
    message = "The runs cannot be compared: {reason}."
    hint: str = "Compare runs of the same test, version and class; snia-pts assess RUN shows those of a run."
    reason: str


@dataclass(kw_only=True, eq=False)
class LimitsMissed(SniaPtsError):
    """A number of a test does not meet its limit, which is in the file of --limits or in the profile.

    The test itself is done, or ``snia-pts assess`` says that it is not.
    """

    exit_code = 19
    message = "{missed} of {total} limits not met: {details}."
    hint: str = "The test is finished; its result lists each limit."
    missed: int
    total: int
    details: str


@dataclass(kw_only=True, eq=False)
class NotExportable(SniaPtsError):
    """A stored run cannot be written as another tool's file: the tool has no such test, or it cannot be written."""

    exit_code = 20
    message = "The stored run {path} cannot be exported: {reason}."
    hint: str = "The run folder has all results; snia-pts report RUN --to csv,json writes them."
    path: Path | str
    reason: str


@dataclass(kw_only=True, eq=False)
class KernelFilesMissing(SniaPtsError):
    """/proc or /sys is not mounted: drives cannot be listed, and nothing can be tested."""

    exit_code = 21
    message = "Cannot examine the drives of this host: {kind} is not mounted at {path}."
    hint: str = "Mount it (mount -t {kind} {kind} {path}), or run outside the container or chroot."
    kind: str
    path: Path


@dataclass(kw_only=True, eq=False)
class LibraryMissing(SniaPtsError):
    """An optional Python library is not installed; ``extra`` is the extra of snia-pts that installs it."""

    exit_code = 22
    message = "The Python library {library} is not installed."
    hint: str = "Install it: pip install 'snia-pts[{extra}]'."
    library: str
    extra: str


def missing_library(error: ModuleNotFoundError) -> Exception:
    """Return a LibraryMissing if a feature's optional library is missing, else the error itself."""
    library = (error.name or "").partition(".")[0]
    return LibraryMissing(library=library, extra=EXTRAS[library]) if library in EXTRAS else error


@dataclass(kw_only=True, eq=False)
class StoreError(SniaPtsError):
    """A store of results cannot be used; the run folders are not affected."""

    exit_code = 23
    message = "The store {url} cannot be used: {reason}."
    hint: str = "The run folders have all results; snia-pts store add RUN adds them to a new store."
    url: str
    reason: str


@dataclass(kw_only=True, eq=False)
class RegressionFound(SniaPtsError):
    """A key figure of a run in a store is worse than in the last comparable runs."""

    exit_code = 24
    message = "{regressions} of {total} key figures regressed."
    hint: str = "snia-pts compare shows the differences of two runs with their confidence intervals."
    regressions: int
    total: int


@dataclass(kw_only=True, eq=False)
class RegressionUnknown(SniaPtsError):
    """No key figure of the runs regressed, but some have no basis for a judgement, or there is no run at all."""

    exit_code = 25
    message = "{unknown} of {total} key figures could not be judged."
    hint: str = "docs/store.rst says what a judgement needs; add more runs, or select other ones with the filters."
    unknown: int
    total: int


@dataclass(kw_only=True, eq=False)
class BatchIncomplete(SniaPtsError):
    """The processes of some drives of a batch ended before a test began; the other drives are being tested."""

    exit_code = 26
    message = "No test began on {drives} of {path}."
    hint: str = "The file NAME.out in that folder says why; snia-pts resume {path} tries again."
    path: Path | str
    drives: str


@dataclass(kw_only=True, eq=False)
class RequestRefused(SniaPtsError):
    """A host of a lab may not perform a request: its configuration does not allow it, or the run is another one."""

    exit_code = 27
    message = "The run {run_id} is refused: {reason}. Nothing was written to the drive."
    hint: str = "Submit another request; docs/fleet.rst says what a host checks."
    run_id: str
    reason: str


@dataclass(kw_only=True, eq=False)
class LabError(SniaPtsError):
    """The database of a lab cannot be used, or refuses; runs that are being tested are not affected."""

    exit_code = 28
    message = "The lab {url} cannot be used: {reason}."
    hint: str = "docs/fleet.rst describes the roles and their rights; runs in progress are not affected."
    url: str
    reason: str


@dataclass(kw_only=True, eq=False)
class AgentRunning(SniaPtsError):
    """Another agent of this host uses the same state folder."""

    exit_code = 29
    message = "Another agent uses {path}."
    hint: str = "One agent serves all drives of a host; stop the other one first."
    path: Path


@dataclass(kw_only=True, eq=False)
class Interrupted(SniaPtsError):
    """The run was stopped before its end: by the operator (Ctrl-C, ``snia-pts stop``), SIGTERM or SIGHUP."""

    exit_code = 130
    message = "{cause} in step {step} ({what})."
    hint: str = "The run folder keeps all earlier measurements."
    cause: str
    step: str
    what: Path | str


def stop_cause(stop: KeyboardInterrupt | None = None) -> str:
    """Return the ``cause`` of Interrupted: the signal that ``stop`` names, else the operator's Ctrl-C or stop."""
    return str(stop or "") or "Stopped by the operator"


def stop_error(stop: KeyboardInterrupt) -> Interrupted:
    """Return the error that ``stop`` replaced, if it is a further Ctrl-C; else that of a stop before a test started."""
    replaced = stop.__context__
    while replaced is not None:
        if isinstance(replaced, Interrupted):
            return replaced
        replaced = replaced.__context__
    return Interrupted(cause=stop_cause(stop), step="preparation", what="no test had begun", hint=NOTHING_TESTED)
