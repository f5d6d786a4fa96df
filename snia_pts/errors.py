"""Everything that can go wrong, as types.

The docstring of a class is the sentence the operator reads, ``hint`` the remedy, ``exit_code`` what the
shell sees.  One tree, one code each (``tests/test_errors.py`` proves the codes unique)::

    SniaPtsError            1
     |- UsageError          2   an option or value nobody can mean
     |- SpecError           3   a specification file or a --set with mistakes
     |- ToolMissing         4   a program the run needs is not there
     |- RunFolderError      5   the run folder cannot be made or written
     |- TargetMissing       6   no such target
     |- TargetBusy          7   somebody uses the target: mounted, swap, held, open
     |- TargetNotOurs       8   the target may hold somebody's data
     |- NotConfirmed        9   the operator did not confirm the destruction
     |- TargetUnfit        10   the target cannot be tested
     |- PurgeFailed        11   a purge failed, or was not proven
     |- DeviceFailed       12   the device under test failed
     |- HostFailed         13   the host or a tool failed, as far as can be told
     |- RecordError        14   a stored run cannot be read
     |- ReportError        15   a report could not be made as it should look
     |- NotResumable       16   a stored run cannot go on
     |- NotRunning         17   no run goes on there
     |- NotComparable      18   stored runs that answer different questions
     |- LimitsMissed       19   the numbers of a test are not within its limits
     |- NotExportable      20   a stored run cannot be written as another tool's file
     |- KernelFilesMissing 21   /proc or /sys is not mounted
    Interrupted           130   the operator, SIGTERM or SIGHUP stopped the run
"""

from __future__ import annotations

import shlex


class SniaPtsError(Exception):
    """{detail}"""

    exit_code = 1
    hint = ""

    def __init__(self, *, hint: str | None = None, **facts: object) -> None:
        """Fill the class's sentence and remedy with ``facts``; ``hint``, as it is, replaces the remedy."""
        self.facts = facts
        super().__init__((type(self).__doc__ or type(self).__name__).format(**facts))
        pasted = {name: shlex.quote(str(fact)) if hasattr(fact, "__fspath__") else fact for name, fact in facts.items()}
        self.hint = type(self).hint.format(**pasted) if hint is None else hint


class UsageError(SniaPtsError, ValueError):
    """{detail}"""

    exit_code = 2
    hint = "See snia-pts --help."


class SpecError(SniaPtsError, ValueError):
    """{what} {path} has {count}:\n{mistakes}"""

    exit_code = 3
    hint = "Correct the file, or the option; specs/ shows every key and its form."


class ToolMissing(SniaPtsError, FileNotFoundError):
    """{program} is needed and was not found."""

    exit_code = 4
    hint = "Install it (Debian, Ubuntu: apt install {package}) or put it on the PATH."


class RunFolderError(SniaPtsError, OSError):
    """The run folder {path} cannot be used: {reason}."""

    exit_code = 5
    hint = "Name another place with --run-dir."


class TargetMissing(SniaPtsError, FileNotFoundError):
    """{path} does not exist."""

    exit_code = 6
    hint = "Check the name with snia-pts devices."


class TargetBusy(SniaPtsError, OSError):
    """{path} is in use: {reason}. Nothing was written to it."""

    exit_code = 7
    hint = "Free it first, or choose another drive: a test destroys everything on its target."


class TargetNotOurs(SniaPtsError, OSError):
    """{path} may hold somebody's data: {reason}. Nothing was written to it."""

    exit_code = 8
    hint = "Choose another target."


class NotConfirmed(SniaPtsError):
    """{path} was not confirmed: {reason}. Nothing was written to it."""

    exit_code = 9
    hint = "Type {confirmation} at the prompt, or give --serial {confirmation}."


class TargetUnfit(SniaPtsError, ValueError):
    """{path} cannot be tested: {reason}. Nothing was written to it."""

    exit_code = 10
    hint = "Choose another target."


class PurgeFailed(SniaPtsError):
    """The purge of {path} by {method} {reason}."""

    exit_code = 11
    hint = "Choose another method with --purge (docs/purge.rst); --allow-unpurged goes on all the same."


class DeviceFailed(SniaPtsError):
    """The device failed in step {step} ({what}): {reason}."""

    exit_code = 12
    hint = "What was measured before is kept in the run folder; look at the evidence of this step and at dmesg."


class HostFailed(SniaPtsError):
    """The host failed in step {step} ({what}): {reason}."""

    exit_code = 13
    hint = "What was measured before is kept in the run folder; look at the evidence of this step."


class RecordError(SniaPtsError, ValueError):
    """The stored run {path} cannot be read: {reason}."""

    exit_code = 14
    hint = "Name the folder of a run (it holds journal.jsonl)."


class ReportError(SniaPtsError):
    """The report could not be made: {reason}."""

    exit_code = 15
    hint = "The result itself is safe; make the report again with snia-pts report RUN."


class NotResumable(SniaPtsError):
    """The run {path} cannot be resumed: {reason}."""

    exit_code = 16
    hint = "What was measured is safe; snia-pts report {path} reports it. Begin a new run."


class NotRunning(SniaPtsError):
    """{path} does not run: {reason}."""

    exit_code = 17
    hint = "snia-pts status {path} tells where it stands."


class NotComparable(SniaPtsError, ValueError):
    """The runs cannot be compared: {reason}."""

    exit_code = 18
    hint = "Compare runs of one test, version and class; snia-pts assess RUN tells each run's."


class LimitsMissed(SniaPtsError):
    """{missed} of {total} limits not met: {told}."""

    exit_code = 19
    hint = "The test itself is done; its report tells each limit."


class NotExportable(SniaPtsError):
    """The stored run {path} cannot be exported: {reason}."""

    exit_code = 20
    hint = "TKperf's file holds IOPS, throughput, latency and write saturation (docs/tkperf.rst)."


class KernelFilesMissing(SniaPtsError, FileNotFoundError):
    """Cannot examine the drives of this host: {kind} is not mounted at {path}."""

    exit_code = 21
    hint = "Mount it (mount -t {kind} {kind} {path}), or run outside the container or chroot."


class Interrupted(SniaPtsError):
    """{cause} in step {step} ({what})."""

    exit_code = 130
    hint = "What was measured before is kept in the run folder."


def stop_cause(stop: KeyboardInterrupt | None = None) -> str:
    """Return the ``cause`` of Interrupted: the signal that ``stop`` names, else the operator's Ctrl-C or stop."""
    return str(stop or "") or "Stopped by the operator"
