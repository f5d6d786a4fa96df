"""Formats a plan as lines of text and as JSON.  Nothing here prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...model.dut import AssumedSpeed, Dut, megabytes
from ...procedures.estimator import Estimate, Plan, PlannedStep
from ...report.sections.summary import limit_text
from ...results.result import RunWarning
from ...runner.setup import TestEstimate
from ...spec import Deviation, OperatorSetting, Spec
from ...units import capacity, counted, duration, number
from .formatting import deviation_lines, setting_lines, table

D = TypeVar("D", Deviation, OperatorSetting, RunWarning)

_NUMBERED = re.compile(r"\bRound \d+\b")
_ZONE = re.compile(r", zone \d+\b")
#: A plan of more rows has one row for all points of a workload, whatever its axes.
_MAX_ROWS = 40
#: The number of limits that are listed.
_MAX_LIMITS = 5


class _Kind(NamedTuple):
    """The properties that group the steps of a plan: it has thousands of steps, and few kinds."""

    kind: str
    label: str
    stimuli: int


class _Sum(NamedTuple):
    """The number of steps of a kind, and their total cost."""

    step_count: int = 0
    seconds: float = 0.0
    written_bytes: int = 0
    open_ended: int = 0


def _grouped(estimate: Estimate, label: Callable[[PlannedStep], str]) -> Mapping[_Kind, _Sum]:
    """Return the cost of each kind of step, in the order of first appearance."""
    sums: dict[_Kind, _Sum] = {}
    for step in estimate.steps:
        kind = _Kind(kind=step.kind, label=label(step), stimuli=step.stimuli)
        before = sums.get(kind, _Sum())
        sums[kind] = _Sum(
            step_count=before.step_count + 1,
            seconds=before.seconds + step.seconds,
            written_bytes=before.written_bytes + step.written_bytes,
            open_ended=before.open_ended + step.open_ended,
        )
    return sums


def _label(step: PlannedStep) -> str:
    """Return the label of a step without the number of its round or zone."""
    return _ZONE.sub("", _NUMBERED.sub("Round", step.label))


def _short_label(step: PlannedStep) -> str:
    """Return the label of a named point's step without the values of its axes, which follow its workload."""
    workload, separator, _ = step.part.partition(",")
    label = _NUMBERED.sub("Round", step.label.removeprefix(f"{step.part}: ").removesuffix(f" {step.part}"))
    return f"{workload}, ...: {label}" if separator else _label(step)


def _choose_labels(plan: Plan) -> Callable[[PlannedStep], str]:
    """Return the label function that keeps a plan to about a page."""
    labels = {_label(step) for estimate in (plan.shortest, plan.longest) for step in estimate.steps}
    return _label if len(labels) <= _MAX_ROWS else _short_label


def _path_text(dut: Dut, argument: Path | None) -> str:
    """Return the path of a target, with the operator's ``argument`` if that is a symlink to it."""
    if argument is None or dut.kind == "simulated" or dut.array is not None or argument.absolute() == Path(dut.path):
        return dut.path
    return f"{dut.path} (given as {argument})"


def plan_lines(planned: TestEstimate, dut: Dut, argument: Path | None = None) -> Iterator[str]:
    """Yield a table of the kinds of steps of a test with minimum and maximum count and cost, and the totals.

    ``argument`` is the target as the operator typed it.
    """
    spec, plan = planned.spec, planned.plan
    yield f"{spec.caption}, {spec.revision}, on {_path_text(dut, argument)}: {dut.summary}"
    yield ""
    label, purges = _choose_labels(plan), plan.assumptions.purge != "none"
    shortest, longest = _grouped(plan.shortest, label), _grouped(plan.longest, label)
    yield from table(
        ("step", "stimuli", "shortest", "longest", "writes"),
        (_row(kind, shortest.get(kind, _Sum()), longest.get(kind, _Sum()), purges) for kind in {**longest, **shortest}),
    )
    yield "  (5 x: five such steps; stimuli of one step; times and maximum writes of all)"
    yield ""
    for name, estimate in (("shortest", plan.shortest), ("longest", plan.longest)):
        rounds = f"{counted(estimate.rounds, 'round')}, " if estimate.rounds else ""
        suffix = or_more_suffix(estimate) if estimate is plan.longest else ""
        yield f"  {name}: {rounds}{_cost(f'{duration(estimate.seconds)}{suffix}', estimate.written_bytes, dut)}"
    yield from _open_ended(plan)
    yield from _host(spec)
    yield from _assumptions(plan)
    yield from _limits(planned)
    yield from _warnings(planned.warnings)
    yield from deviation_lines(planned.deviations, spec.authority)
    yield from setting_lines(planned.settings)


def _row(kind: _Kind, shortest: _Sum, longest: _Sum, purges: bool) -> tuple[str, ...]:
    written = max(shortest.written_bytes, longest.written_bytes)
    omitted = kind.kind == "purge" and not purges and not written
    suffix = " or more" if longest.open_ended else ""
    minimum, maximum = ("omitted", "omitted") if omitted else (_times(shortest), _times(longest) + suffix)
    return (kind.label, str(kind.stimuli or ""), minimum, maximum, capacity(written) if written else "")


def _times(costs: _Sum) -> str:
    if not costs.step_count:
        return "-"
    return f"{costs.step_count} x, {duration(costs.seconds) if costs.seconds else 'not counted'}"


def _cost(time: str, written_bytes: int, dut: Dut) -> str:
    fills = number(written_bytes / dut.capacity_bytes)
    return f"{time}, writes at most {capacity(written_bytes)} ({fills} fills)"


def or_more_suffix(estimate: Estimate) -> str:
    """Return the suffix of a time that is not an upper bound."""
    return " or more" if estimate.open_ended else ""


def _open_ended(plan: Plan) -> Iterator[str]:
    """Yield a line about steps that end after an amount of data."""
    if count := plan.longest.open_ended:
        verb = "ends" if count == 1 else "end"
        yield f"  {counted(count, 'step')} {verb} after an amount of data, not after a time"


def _host(spec: Spec) -> Iterator[str]:
    """Yield a line about the host settings that the test changes."""
    settings = [f"{name} {', '.join(values)}" for name, values in spec.varied_settings.items()]
    if settings:
        yield f"  changes host settings and restores them: {'; '.join(settings)}"


def exclusions(plan: Plan) -> str:
    """Return what the times of a plan do not include, as a suffix; empty if they include everything."""
    missing = _excluded(plan)
    return f" besides {missing}" if missing else ""


def _excluded(plan: Plan) -> str:
    """Return what the times of a plan do not include; empty if they include everything."""
    kinds = {step.kind for step in plan.longest.steps}
    missing = ["the purge"] if "purge" in kinds and plan.assumptions.purge == "device" else []
    missing += ["the syncs of the array"] if "purge" in kinds and plan.syncs else []
    missing += ["preparing the host"] if "prepare" in kinds else []
    return " and ".join(missing)


def _assumptions(plan: Plan) -> Iterator[str]:
    excluded, speed = _excluded(plan), plan.assumptions.speed
    if speed.minimum_write == speed.read == speed.write:
        yield f"  assuming exactly {megabytes(speed.write)} MB/s ({speed.source})"
    else:
        yield f"  assuming at most {_maximum(speed)}: {speed.source} (--assume MB/S for a slower drive)"
        yield f"  assuming streams of at least {megabytes(speed.minimum_write)} MB/s; a slower drive takes longer"
    yield (
        f"  the times include {plan.assumptions.overhead_seconds:g} s for each round or continuous stimulus and "
        f"{plan.assumptions.between_seconds:g} s between points{f', but not {excluded}' if excluded else ''}"
    )


def _maximum(speed: AssumedSpeed) -> str:
    if speed.read == speed.write:
        return f"{megabytes(speed.write)} MB/s each way"
    return f"{megabytes(speed.read)} MB/s of reads and {megabytes(speed.write)} MB/s of writes"


def _limits(planned: TestEstimate) -> Iterator[str]:
    """Yield the number of limits, and those on this test."""
    if not planned.limits:
        return
    limits = planned.test_limits
    yield f"  {counted(len(planned.limits), 'limit')}, {len(limits) or 'none'} on this test"
    yield from (f"    {limit.name}: {limit_text(limit)}" for limit in limits[:_MAX_LIMITS])
    if len(limits) > _MAX_LIMITS:
        yield f"    and {len(limits) - _MAX_LIMITS} more"


def _warnings(warnings: Iterable[RunWarning]) -> Iterator[str]:
    return (f"  warning: {warning.what}: {warning.detail}" for warning in warnings)


def _suite_limits(tests: Sequence[TestEstimate]) -> Iterator[str]:
    """Yield the number of limits, in total and on each test."""
    if total := sum(len(planned.test_limits) for planned in tests):
        counts = ", ".join(f"{len(planned.test_limits) or 'none'} on {planned.spec.name}" for planned in tests)
        yield f"  {counted(total, 'limit')}: {counts}"


def suite_lines(tests: Sequence[TestEstimate], dut: Dut, argument: Path | None = None) -> Iterator[str]:
    """Yield the cost of several tests, each and in total; ``argument`` is the target as the operator typed it."""
    path = _path_text(dut, argument)
    revisions = ", ".join(dict.fromkeys(planned.spec.revision for planned in tests))
    yield f"{counted(len(tests), 'test')}, {revisions}, on {path}: {dut.summary}"
    yield ""
    rows = [(planned.spec.title, planned.plan.shortest, planned.plan.longest) for planned in tests]
    yield from table(
        ("test", "shortest", "writes at most", "fills", "longest", "writes at most", "fills"),
        [
            *((title, *_sums([shortest], dut), *_sums([longest], dut)) for title, shortest, longest in rows),
            ("total", *_sums([row[1] for row in rows], dut), *_sums([row[2] for row in rows], dut)),
        ],
    )
    yield ""
    yield from _assumptions(tests[0].plan)
    yield from _suite_limits(tests)
    yield from _warnings(tuple(_merge(tests, lambda planned: planned.warnings)))
    yield from deviation_lines(tuple(_merge(tests, lambda planned: planned.deviations)), tests[0].spec.authority)
    yield from setting_lines(tuple(_merge(tests, lambda planned: planned.settings)))


def _merge(tests: Sequence[TestEstimate], items: Callable[[TestEstimate], tuple[D, ...]]) -> Iterator[D]:
    """Yield each deviation, or setting, once; one that not all tests have is prefixed with the names of its tests."""
    names_of: dict[D, list[str]] = {}
    for planned in tests:
        for item in items(planned):
            names_of.setdefault(item, []).append(planned.spec.name)
    for item, names in names_of.items():
        yield item if len(names) == len(tests) else replace(item, what=f"{', '.join(names)}: {item.what}")


def _sums(estimates: Sequence[Estimate], dut: Dut) -> tuple[str, str, str]:
    written = sum(estimate.written_bytes for estimate in estimates)
    seconds = sum(estimate.seconds for estimate in estimates)
    return duration(seconds), capacity(written), number(written / dut.capacity_bytes)


def plan_json(planned: TestEstimate, dut: Dut) -> dict[str, Any]:
    """Return the plan of a test in the JSON form of docs/formats.rst."""
    spec, plan = planned.spec, planned.plan
    assumptions = plan.assumptions
    return {
        "format": 1,
        "test": spec.test,
        "revision": spec.revision,
        "dut": asdict(dut),
        "assumptions": {
            "mb_per_second": asdict(assumptions.speed),
            "overhead_seconds": assumptions.overhead_seconds,
            "between_seconds": assumptions.between_seconds,
            "purge": assumptions.purge,
        },
        "host_settings": {name: list(values) for name, values in spec.varied_settings.items()},
        "shortest": _steps_json(plan, plan.shortest, dut),
        "longest": _steps_json(plan, plan.longest, dut),
        "limits": [asdict(limit) for limit in planned.test_limits],
        "deviations": [asdict(deviation) for deviation in planned.deviations],
        "warnings": [asdict(warning) for warning in planned.warnings],
        "settings": [asdict(setting) for setting in planned.settings],
    }


def suite_json(tests: Sequence[TestEstimate], dut: Dut) -> dict[str, Any]:
    """Return the plans of several tests, and their totals, in the JSON form of docs/formats.rst."""
    return {
        "format": 1,
        "tests": [plan_json(planned, dut) for planned in tests],
        "shortest": _json_sums([planned.plan.shortest for planned in tests], dut),
        "longest": _json_sums([planned.plan.longest for planned in tests], dut),
    }


def _steps_json(plan: Plan, estimate: Estimate, dut: Dut) -> dict[str, Any]:
    purges = plan.assumptions.purge != "none"
    grouped = _grouped(estimate, _choose_labels(plan)).items()
    steps = [
        {**kind._asdict(), **costs._asdict()}
        for kind, costs in grouped
        if purges or kind.kind != "purge" or costs.written_bytes
    ]
    return {"rounds": estimate.rounds, **_json_sums([estimate], dut), "steps": steps}


def _json_sums(estimates: Sequence[Estimate], dut: Dut) -> dict[str, Any]:
    written = sum(estimate.written_bytes for estimate in estimates)
    return {
        "seconds": sum(estimate.seconds for estimate in estimates),
        "written_bytes": written,
        "drive_fills": written / dut.capacity_bytes,
        "open_ended": sum(estimate.open_ended for estimate in estimates),
    }
