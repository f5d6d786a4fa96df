"""Derives the specification, the target and the estimate of a run from its options."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from .. import registries
from ..errors import RunFolderError, TargetUnfit, UsageError
from ..lab.device.identity import resolved
from ..lab.fio.probe import exact_io_engines, io_engines
from ..model.dut import AssumedSpeed, Dut
from ..model.run_options import SIMULATED, RunOptions
from ..model.test_platform import HostSetting
from ..procedures.estimator import Assumptions, Plan, PurgeKind, plan
from ..record.folder import require_empty
from ..results.limit_checks import limit_mistakes, measurable_figures, notify_if_unlimited
from ..results.result import RunWarning
from ..results.warnings import option_warnings, unmeasured_points, unwritten_reads
from ..spec import Deviation, OperatorSetting, Spec
from ..spec.limits import Limit, limits_error
from ..spec.reader import Specification, parse_override, read_specification, standard_tests, versions
from ..units import capacity, duration
from .device import DeviceSetup
from .plugins import plugin_deviations, plugins_of
from .target import TargetKind, TargetSetup

#: Time without I/O around a round and between two of its points; bench/gap.py measures it.
_OVERHEAD_SECONDS, _BETWEEN_SECONDS = 0.3, 0.03
#: Limits of --assume.
_MIN_MB_PER_SECOND, _MAX_MB_PER_SECOND = 1e-3, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TestEstimate:
    """The estimated cost of a test, with its limits, and the deviations, settings and warnings known before it."""

    dut: Dut
    spec: Spec
    plan: Plan
    deviations: tuple[Deviation, ...]
    limits: tuple[Limit, ...] = ()
    settings: tuple[OperatorSetting, ...] = ()
    warnings: tuple[RunWarning, ...] = ()

    def __repr__(self) -> str:
        times = f"{duration(self.plan.shortest.seconds)} to {duration(self.plan.longest.seconds)}"
        amount = f"at most {capacity(self.plan.longest.written_bytes)} written"
        return f"TestEstimate({self.spec.title} on {self.dut.summary}: {times}, {amount})"

    @property
    def test_limits(self) -> tuple[Limit, ...]:
        """The limits on this test."""
        return tuple(limit for limit in self.limits if limit.test == self.spec.test)


def specification_for(options: RunOptions) -> Specification:
    """Return the specification of a test with its overrides, after loading the plugins that the options name.

    Raises UsageError or SpecError.
    """
    plugins = plugins_of(options)
    specification = _specification(options)
    deviations = (*specification.deviations, *plugin_deviations(options.purge, plugins))
    return replace(specification, deviations=deviations)


def _specification(options: RunOptions) -> Specification:
    if options.test in registries.READERS:
        return cast("Specification", registries.load(registries.READERS, options.test)(options))
    supported = versions(options.test)
    if not supported:
        raise UsageError(
            detail=f"There is no test {options.test!r}.",
            hint=f"Tests: {', '.join((*standard_tests(), *registries.READERS))}.",
        )
    if options.pts not in supported:
        detail = f"--pts {options.pts}: unknown version of the standard."
        raise UsageError(detail=detail, hint=f"Versions: {', '.join(supported)}.")
    path = Path(options.specification) if options.specification else None
    changes = [parse_override(text) for text in options.overrides]
    return read_specification(options.test, options.pts, options.test_class, path=path, overrides=changes)


def target_for(options: RunOptions, spec: Spec, tell: Callable[[str], None]) -> TargetSetup:
    """Return the setup of the target; if that is a directory and the test can create its file, the run does so."""
    if spec.file_name and _is_directory(options.path):
        return target_setup(_with_file_in_directory(options, spec), tell, file_in_directory=True)
    return target_setup(options, tell)


def target_kind(target: str) -> TargetKind | None:
    """Return the kind of a target that ``registries.TARGETS`` has by its prefix; None for any other target."""
    prefix = "".join(target.partition(":")[:2])
    return cast("TargetKind", registries.load(registries.TARGETS, prefix)) if prefix in registries.TARGETS else None


def target_setup(options: RunOptions, tell: Callable[[str], None], *, file_in_directory: bool = False) -> TargetSetup:
    """Return the setup of the target; raises UsageError or SpecError."""
    if kind := target_kind(options.target):
        return kind(options, tell)
    if options.target.startswith(SIMULATED):
        from .simulated import SimulatedSetup  # imports numpy and scipy, which a drive does not need

        return SimulatedSetup(options)
    _require_target_outside(options)
    return DeviceSetup(options, tell, file_in_directory=file_in_directory)


def _require_target_outside(options: RunOptions) -> None:
    """Raise RunFolderError for a target in the run folder, because its files and the target could replace each other.

    Raises TargetUnfit or TargetMissing for a target whose path leads nowhere.
    """
    folder = options.run_folder
    if folder is None:
        return
    try:
        real_folder = os.path.realpath(folder)
    except OSError as error:
        raise RunFolderError(path=folder, reason=f"{error.filename}: {error.strerror}") from None
    if resolved(options.path).is_relative_to(real_folder):
        raise RunFolderError(path=folder, reason=f"the target {options.path} is in it")


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _with_file_in_directory(options: RunOptions, spec: Spec) -> RunOptions:
    """Return options whose target is a file in the directory; raises UsageError if its size is not limited."""
    directory = options.path
    size_bytes = spec.required_bytes if options.size_bytes is None else options.size_bytes
    if size_bytes is None:
        raise UsageError(
            detail=f"{spec.name} uses its whole target, and {directory} is a directory.",
            hint="Give the size of the file to create there with --size.",
        )
    path = directory / spec.file_name
    if path.is_symlink():
        reason = "it is a symlink, and the run must create this file"
        raise TargetUnfit(path=path, reason=reason, hint="Remove the symlink, or choose another directory.")
    return replace(options, target=str(path), size_bytes=size_bytes)


def plan_test(spec: Spec, dut: Dut, speed: AssumedSpeed, options: RunOptions) -> Plan:
    """Return the plan of a test on a device of ``speed``, or of the speed that the options assume.

    Raises UsageError for an invalid speed, TargetUnfit for a test that cannot run on the device.
    """
    assumed = options.assumed_mb_per_second
    try:
        return plan(spec, dut, _assumptions(options, speed if assumed is None else _constant_speed(assumed)))
    except TargetUnfit as unfit:
        reason = f"{spec.caption}: {unfit.reason}"
        raise TargetUnfit(path=dut.path, reason=reason, hint=unfit.hint) from None


def _constant_speed(mb_per_second: float) -> AssumedSpeed:
    if not _MIN_MB_PER_SECOND <= mb_per_second <= _MAX_MB_PER_SECOND:
        raise UsageError(detail=f"--assume {mb_per_second:g}: not a speed in MB/s.", hint="For example --assume 500.")
    return AssumedSpeed.constant(mb_per_second, "--assume")


def _assumptions(options: RunOptions, speed: AssumedSpeed) -> Assumptions:
    purges: Mapping[str, PurgeKind] = {"none": "none", "overwrite": "overwrite"}
    return Assumptions(
        speed=speed,
        overhead_seconds=_OVERHEAD_SECONDS,
        between_seconds=_BETWEEN_SECONDS,
        purge=purges.get(options.purge, "device"),
    )


def estimate_test(specification: Specification, target: TargetSetup, options: RunOptions) -> TestEstimate:
    """Return the estimate of a test on the target, with every deviation known before it; writes nothing."""
    spec = specification.spec
    dut = target.dut(spec)
    estimated = plan_test(spec, dut, target.speed(spec), options)
    if dut.kind != "simulated":
        exact_io_engines(io_engines(options.engine), (*estimated.preconditioning, *estimated.stimuli))
    return TestEstimate(
        dut=dut,
        spec=spec,
        plan=estimated,
        deviations=(*specification.deviations, *target.deviations(spec), *target.purge_deviations(spec)),
        settings=specification.settings,
        warnings=(
            *option_warnings(estimated.stimuli),
            *host_warnings(target.buffered_io()),
            *unwritten_reads(estimated.unwritten_reads),
            *unmeasured_points(spec.unmeasured_points),
        ),
        limits=all_limits(spec, options),
    )


def host_warnings(settings: Sequence[HostSetting]) -> Iterator[RunWarning]:
    """Yield a warning for each host setting that affects results."""
    for setting in settings:
        if setting.judgement == "affects results":
            yield RunWarning(what=f"host: {setting.name}", detail=setting.assessment)


def all_limits(spec: Spec, options: RunOptions) -> tuple[Limit, ...]:
    """Return the limits of the specification, then those of the operator."""
    return (*spec.own_limits, *options.limits)


def preflight(options: RunOptions, spec: Spec, target: TargetSetup) -> None:
    """Raise the error with which a run would be refused before its confirmation, as far as reading can determine it."""
    if options.run_folder is not None:
        require_empty(options.run_folder)
    target.preflight(spec)


def require_measurable(
    options: RunOptions, tests: Sequence[tuple[Specification, Dut]], tell: Callable[[str], None]
) -> None:
    """Raise SpecError for limits on figures that these tests never measure.

    For several tests, a limit on another test is an error, too; for a single test it is ignored.
    """
    if len(tests) == 1:
        notify_if_unlimited(options.limits, options.limits_source, tests[0][0].spec.test, tell)
    for specification, dut in tests:
        own_limits = specification.spec.own_limits
        if own_limits and not specification.deviations:  # overrides change the names of points
            _require_measurable(own_limits, specification.source, [(specification, dut)], options)
    _require_measurable(options.limits, options.limits_source, tests, options)


def _require_measurable(
    limits: Sequence[Limit], source: str, tests: Sequence[tuple[Specification, Dut]], options: RunOptions
) -> None:
    # The slowest drive measures every figure: a faster one may write the whole amount before the first window.
    limited, assumed = (
        {limit.test for limit in limits},
        _assumptions(options, AssumedSpeed.constant(_MIN_MB_PER_SECOND)),
    )
    units_by_test: dict[str, Mapping[str, str]] = {
        specification.spec.test: measurable_figures(specification.spec, dut, assumed)
        if specification.spec.test in limited
        else {}
        for specification, dut in tests
    }
    if mistakes := tuple(limit_mistakes(limits, units_by_test)):
        raise limits_error(Path(source), mistakes)
