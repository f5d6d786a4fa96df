"""Before a test begins: what the arguments ask for, checked; and the operator's word."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ..about import About, read_about
from ..dut import Dut, SupposedSpeed
from ..errors import NotConfirmed, ReportError, TargetUnfit, UsageError
from ..limits import Limit, read_limits, unmet
from ..report import DATA_OUTPUTS, OUTPUTS, USUAL
from ..spec import Spec
from ..specfile import Specification, parse_override, read_specification, versions
from ..units import whole_number
from .words import called, destruction_lines

if TYPE_CHECKING:
    from ..lab.safety import Target
    from ..plan import Assumptions, Plan, Purging

#: What fio costs around the I/O of a round, and between two of its points, for plans (bench/gap.py measures it).
_OVERHEAD_SECONDS, _BETWEEN_SECONDS = 0.3, 0.03
#: MB/s that a drive may be supposed to move.
_SLOWEST, _FASTEST = 1e-3, 1e9


def specification(test: str, arguments: argparse.Namespace, overrides: Sequence[str]) -> Specification:
    """Return what is to be run of a test, with ``KEY=VALUE`` overrides; raises UsageError or SpecError."""
    if arguments.pts not in versions(test):
        raise UsageError(
            detail=f"--pts {arguments.pts}: no such version of the standard.",
            hint=f"Known: {', '.join(versions(test))}.",
        )
    path: Path | None = getattr(arguments, "spec", None)
    changes = [parse_override(text) for text in overrides]
    return read_specification(test, arguments.pts, arguments.test_class, path=path, overrides=changes)


def refuse_ignored(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that would be ignored."""
    if arguments.json and not arguments.plan:
        raise UsageError(detail="--json goes with --plan.", hint="After a run, snia-pts assess RUN --json.")


def limits(arguments: argparse.Namespace) -> tuple[Limit, ...]:
    """Return what --limits asks of the numbers; raises SpecError."""
    return read_limits(arguments.limits) if arguments.limits else ()


def about(arguments: argparse.Namespace) -> About:
    """Return what --about says of the test, and --operator, which is heard before the file; raises SpecError."""
    told = read_about(arguments.about) if arguments.about else About()
    return replace(told, operator=arguments.operator) if arguments.operator else told


def formats(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the formats of --to, each once, none for ``none``.

    Raises UsageError for one that is no format, ReportError for one that could not be made.
    """
    if arguments.to is None:
        return USUAL
    known = (*OUTPUTS, *DATA_OUTPUTS)
    asked = tuple(dict.fromkeys(arguments.to.split(","))) if arguments.to != "none" else ()
    if wrong := [name for name in asked if name not in known]:
        detail = f"--to {arguments.to}: no format {wrong[0]!r}."
        raise UsageError(detail=detail, hint=f"Formats: {', '.join(known)}; none.")
    if "interactive" in asked:
        from ..report.interactive import require_plotly

        try:
            require_plotly()
        except ReportError as error:
            error.hint = f"Nothing was made. {error.hint} Or leave interactive out of --to."
            raise
    return asked


def seed(text: str | None) -> int:
    """Return --seed, or a new one."""
    if text is None:
        return secrets.randbits(63)
    number = whole_number(text)
    if number is None:
        raise UsageError(detail=f"--seed {text}: not a whole number below 2^63.", hint="For example --seed 4711.")
    return number


def purging(arguments: argparse.Namespace) -> Purging:
    """Return what a purge is, for plans, as --purge asks for it."""
    return "none" if arguments.purge == "none" else "overwrite" if arguments.purge == "overwrite" else "own"


def _assumptions(arguments: argparse.Namespace, speed: SupposedSpeed) -> Assumptions:
    """Return what a plan supposes of a device of a speed."""
    from ..plan import Assumptions

    return Assumptions(
        speed=speed, overhead_seconds=_OVERHEAD_SECONDS, between_seconds=_BETWEEN_SECONDS, purging=purging(arguments)
    )


def _assumed(text: str) -> SupposedSpeed:
    """Return the speed of --assume; raises UsageError for one that is none."""
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not _SLOWEST <= speed <= _FASTEST:
        raise UsageError(detail=f"--assume {text}: not a speed in MB/s.", hint="For example --assume 500.")
    return SupposedSpeed.constant(speed, "--assume")


def require_measurable(
    limits: Sequence[Limit], path: Path, tests: Sequence[tuple[Spec, Dut]], arguments: argparse.Namespace
) -> None:
    """Raise SpecError for limits of the file ``path`` on what tests will not measure, whatever comes of them.

    Of several tests, also for those on tests that are none of them; one test leaves these to the others.
    """
    from ..acceptance import expected, unmeasurable

    if len(tests) == 1:
        tell_if_unlimited(limits, path, tests[0][0].test)
    # The slowest drive has every number: it has not written all there is to write before the first window.
    limited, supposed = {limit.test for limit in limits}, _assumptions(arguments, SupposedSpeed.constant(_SLOWEST))
    names: dict[str, Mapping[str, str]] = {
        spec.test: expected(spec, dut, supposed) if spec.test in limited else {} for spec, dut in tests
    }
    if mistakes := tuple(unmeasurable(limits, names)):
        raise unmet(path, mistakes)


def tell_if_unlimited(limits: Sequence[Limit], path: Path, test: str) -> None:
    """Tell that a file of limits asks nothing of a test, so that nobody takes it for met."""
    if limits and all(limit.test != test for limit in limits):
        others = ", ".join(dict.fromkeys(limit.test for limit in limits))
        print(f"snia-pts: {path} has no limit on {test}, only on {others}: nothing is judged by it.", file=sys.stderr)


def plan_of(spec: Spec, dut: Dut, speed: SupposedSpeed, arguments: argparse.Namespace) -> Plan:
    """Return what a test would cost on a device of a speed, unless --assume tells another.

    Raises UsageError for a speed that is none, TargetUnfit for what cannot run.
    """
    from ..plan import plan

    supposed = _assumptions(arguments, speed if arguments.assume is None else _assumed(arguments.assume))
    try:
        return plan(spec, dut, supposed)
    except TargetUnfit as unfit:
        reason = f"{called(spec)}: {unfit.facts['reason']}"
        raise TargetUnfit(path=dut.path, reason=reason, hint=unfit.hint) from None


def confirmed(target: Target, arguments: argparse.Namespace, evidence: Path) -> None:
    """Let the operator confirm the destruction of a drive; a file was confirmed by being ours or by --overwrite."""
    from ..lab.safety import confirm, contents

    dut = target.dut
    if dut.kind == "file":
        return
    if arguments.serial is not None:
        confirm(dut, arguments.serial)
        return
    for line in destruction_lines(dut, contents(target, evidence)):
        print(line, file=sys.stderr)
    if not sys.stdin.isatty():
        raise NotConfirmed(path=dut.path, reason="there is no terminal to ask at", confirmation=dut.identity)
    word = "serial number" if dut.serial else "name"
    print(f"Type its {word}, {dut.identity}, to go on: ", end="", file=sys.stderr, flush=True)
    confirm(dut, sys.stdin.readline().strip())


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop a run as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}  # nohup keeps what it promises
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
