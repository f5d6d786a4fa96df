"""From options to what a run needs: its specification, its target, its estimate."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ReportError, TargetUnfit, UsageError
from ..model.array import Layout
from ..model.dut import Dut, SupposedSpeed
from ..model.run_options import ARRAY, PROFILE, SIMULATED, RunOptions
from ..procedures.estimator import Assumptions, Plan, PurgeKind, plan
from ..record.folder import require_empty
from ..report import DATA_OUTPUTS, OUTPUTS, USUAL
from ..results.limit_checks import expected, unmeasurable
from ..spec import Deviation, OperatorSetting, ProfileSpec, Spec
from ..spec.limits import Limit, unmet
from ..spec.profile_reader import Changes, profile_path, read_profile
from ..spec.reader import Specification, parse_override, read_specification, versions
from .target import TargetSetup

#: What fio costs around the I/O of a round, and between two of its points (bench/gap.py measures it).
_OVERHEAD_SECONDS, _BETWEEN_SECONDS = 0.3, 0.03
#: MB/s that a drive may be assumed to move.
_SLOWEST, _FASTEST = 1e-3, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TestEstimate:
    """What a test would cost, with the deviations and settings that are known before it, and the limits given."""

    dut: Dut
    spec: Spec
    plan: Plan
    deviations: tuple[Deviation, ...]
    limits: tuple[Limit, ...] = ()
    settings: tuple[OperatorSetting, ...] = ()

    @property
    def own_limits(self) -> tuple[Limit, ...]:
        """The limits on this test."""
        return tuple(limit for limit in self.limits if limit.test == self.spec.test)


def specification_of(options: RunOptions) -> Specification:
    """Return the specification of a test or profile with its overrides; raises UsageError or SpecError."""
    if options.test == PROFILE:
        return read_profile(options.specification or "", Changes.parse(options.overrides))
    known = versions(options.test)
    if options.pts not in known:
        detail = f"--pts {options.pts}: no such version of the standard."
        raise UsageError(detail=detail, hint=f"Known: {', '.join(known)}.")
    path = Path(options.specification) if options.specification else None
    changes = [parse_override(text) for text in options.overrides]
    return read_specification(options.test, options.pts, options.test_class, path=path, overrides=changes)


def target_of(options: RunOptions, spec: Spec, tell: Callable[[str], None]) -> TargetSetup:
    """Return the setup of the target; a profile makes a file in a target that is a directory."""
    if isinstance(spec, ProfileSpec) and _is_directory(options.path):
        return target_setup(_with_file(options, spec), tell, file_in_directory=True)
    return target_setup(options, tell)


def target_setup(
    options: RunOptions, tell: Callable[[str], None], *, layout: Layout | None = None, file_in_directory: bool = False
) -> TargetSetup:
    """Return the setup of what TARGET names, or of an array of ``layout``; raises UsageError or SpecError."""
    if layout is not None or options.target.startswith(ARRAY):
        from .array import ArraySetup

        return ArraySetup(options, tell, layout)
    if options.target.startswith(SIMULATED):
        from .simulated import SimulatedSetup

        return SimulatedSetup(options)
    from .device import DeviceSetup

    return DeviceSetup(options, tell, file_in_directory=file_in_directory)


def file_name(spec: Spec) -> str:
    """Return the name of the file that a profile's run makes in a directory; empty for a test of the standard."""
    return f"snia-pts-{spec.name}.data" if isinstance(spec, ProfileSpec) else ""


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _with_file(options: RunOptions, spec: ProfileSpec) -> RunOptions:
    """Return options whose target is a file in the directory; raises UsageError where nothing bounds its size."""
    size_bytes, directory = options.size_bytes, options.path
    if size_bytes is None:
        sizes = [workload.range_bytes for workload, _ in spec.cases()]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            raise UsageError(
                detail=f"{spec.name} goes over its whole target, and {directory} is a directory.",
                hint="Give --size, how large a file it may make there.",
            )
        size_bytes = max(known)
    path = directory / file_name(spec)
    if path.is_symlink():
        reason = "it is a symlink, and in a directory a run makes a file of its own"
        raise TargetUnfit(path=path, reason=reason, hint="Remove the symlink, or choose another directory.")
    return replace(options, target=str(path), size_bytes=size_bytes)


def new_seed() -> int:
    """Return a random seed."""
    return secrets.randbits(63)


def require_formats(formats: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the formats of a report, the usual ones for None.

    Raises UsageError for an unknown format, ReportError for one that cannot be made here.
    """
    if formats is None:
        return USUAL
    known = (*OUTPUTS, *DATA_OUTPUTS)
    if wrong := [name for name in formats if name not in known]:
        detail = f"--to {','.join(formats)}: no format {wrong[0]!r}."
        raise UsageError(detail=detail, hint=f"Formats: {', '.join(known)}; none.")
    if "interactive" in formats:
        from ..report.formats.interactive import require_plotly

        try:
            require_plotly()
        except ReportError as error:
            hint = f"Nothing was made. {error.hint} Or leave interactive out of --to."
            raise replace(error, hint=hint) from None
    return tuple(dict.fromkeys(formats))


def plan_of(spec: Spec, dut: Dut, speed: SupposedSpeed, options: RunOptions) -> Plan:
    """Return what a test would cost on a device of a speed, unless the options assume another speed.

    Raises UsageError for an impossible speed, TargetUnfit for a test that cannot run on the device.
    """
    assumed = options.assumed_mb_per_second
    try:
        return plan(spec, dut, _assumptions(options, speed if assumed is None else _constant_speed(assumed)))
    except TargetUnfit as unfit:
        reason = f"{spec.caption}: {unfit.reason}"
        raise TargetUnfit(path=dut.path, reason=reason, hint=unfit.hint) from None


def _constant_speed(mb_per_second: float) -> SupposedSpeed:
    if not _SLOWEST <= mb_per_second <= _FASTEST:
        raise UsageError(detail=f"--assume {mb_per_second:g}: not a speed in MB/s.", hint="For example --assume 500.")
    return SupposedSpeed.constant(mb_per_second, "--assume")


def _assumptions(options: RunOptions, speed: SupposedSpeed) -> Assumptions:
    purges: Mapping[str, PurgeKind] = {"none": "none", "overwrite": "overwrite"}
    return Assumptions(
        speed=speed,
        overhead_seconds=_OVERHEAD_SECONDS,
        between_seconds=_BETWEEN_SECONDS,
        purging=purges.get(options.purge, "own"),
    )


def estimate_of(specification: Specification, target: TargetSetup, options: RunOptions) -> TestEstimate:
    """Return what a test would cost on the target, and every deviation known beforehand; touches nothing."""
    spec = specification.spec
    dut = target.dut(spec)
    return TestEstimate(
        dut=dut,
        spec=spec,
        plan=plan_of(spec, dut, target.speed(spec), options),
        deviations=(*specification.deviations, *target.deviations(spec), *target.purge_deviations(spec)),
        settings=specification.settings,
        limits=all_limits(spec, options),
    )


def all_limits(spec: Spec, options: RunOptions) -> tuple[Limit, ...]:
    """Return the limits of the operator, after those of a profile."""
    return (*(spec.limit if isinstance(spec, ProfileSpec) else ()), *options.limits)


def preflight(options: RunOptions, spec: Spec, target: TargetSetup) -> None:
    """Raise what a run would be refused for before its operator is asked, as far as reading alone tells."""
    if options.run_folder is not None:
        require_empty(options.run_folder)
    target.preflight(spec)


def require_measurable(
    options: RunOptions, tests: Sequence[tuple[Specification, Dut]], tell: Callable[[str], None]
) -> None:
    """Raise SpecError for limits on what these tests cannot measure, whatever the result.

    For several tests, limits on other tests are mistakes too; one test leaves those to the others.
    """
    if len(tests) == 1:
        specification, _ = tests[0]
        spec = specification.spec
        tell_if_unlimited(options.limits, options.limits_source, spec.test, tell)
        if isinstance(spec, ProfileSpec) and not specification.deviations:  # overrides change the names of points
            _require_measurable(spec.limit, str(profile_path(options.specification or "")), tests, options)
    _require_measurable(options.limits, options.limits_source, tests, options)


def _require_measurable(
    limits: Sequence[Limit], source: str, tests: Sequence[tuple[Specification, Dut]], options: RunOptions
) -> None:
    # The slowest drive has every number: it has not written all there is to write before the first window.
    limited, assumed = {limit.test for limit in limits}, _assumptions(options, SupposedSpeed.constant(_SLOWEST))
    names: dict[str, Mapping[str, str]] = {
        each.spec.test: expected(each.spec, dut, assumed) if each.spec.test in limited else {} for each, dut in tests
    }
    if mistakes := tuple(unmeasurable(limits, names)):
        raise unmet(Path(source), mistakes)


def tell_if_unlimited(limits: Sequence[Limit], source: str, test: str, tell: Callable[[str], None]) -> None:
    """Tell that limits were given and none is on this test."""
    if limits and all(limit.test != test for limit in limits):
        others = ", ".join(dict.fromkeys(limit.test for limit in limits))
        tell(f"{source} has no limit on {test}, only on {others}: nothing is judged by it.")
