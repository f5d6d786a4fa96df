"""What a plan says, as lines of text and as JSON.  Nothing here prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...model.dut import Dut, SupposedSpeed, megabytes
from ...procedures.estimator import Estimate, Plan, PlannedStep
from ...runner.setup import TestEstimate
from ...spec import Deviation, OperatorSetting, ProfileSpec, Spec
from ...units import capacity, counted, duration, number
from .formatting import deviation_lines, setting_lines, table

D = TypeVar("D", Deviation, OperatorSetting)

_NUMBERED = re.compile(r"\bRound \d+\b")
_ZONE = re.compile(r", zone \d+\b")
#: As many rows are read; where there are more, those of a workload stand together, whatever its axes.
_MOST_ROWS = 40
#: So many limits are told one by one.
_MOST_LIMITS = 5


class _Kind(NamedTuple):
    """What steps of a plan have in common: a plan has thousands, and few of these."""

    kind: str
    label: str
    stimuli: int


class _Sum(NamedTuple):
    """How often a kind of step comes, and what it costs in all."""

    times: int = 0
    seconds: float = 0.0
    written_bytes: int = 0
    open_ended: int = 0


def _grouped(estimate: Estimate, label: Callable[[PlannedStep], str]) -> Mapping[_Kind, _Sum]:
    """What each kind of step costs, in the order they first come."""
    sums: dict[_Kind, _Sum] = {}
    for step in estimate.steps:
        kind = _Kind(kind=step.kind, label=label(step), stimuli=step.stimuli)
        before = sums.get(kind, _Sum())
        sums[kind] = _Sum(
            times=before.times + 1,
            seconds=before.seconds + step.seconds,
            written_bytes=before.written_bytes + step.written_bytes,
            open_ended=before.open_ended + step.open_ended,
        )
    return sums


def _plain(step: PlannedStep) -> str:
    """A step without its number: that of a round, or of a zone."""
    return _ZONE.sub("", _NUMBERED.sub("Round", step.label))


def _short(step: PlannedStep) -> str:
    """A step of a profile without the values of its axes, which follow the name of its workload."""
    workload, several, _ = step.part.partition(",")
    what = _NUMBERED.sub("Round", step.label.removeprefix(f"{step.part}: ").removesuffix(f" {step.part}"))
    return f"{workload}, ...: {what}" if several else _plain(step)


def _labels(plan: Plan) -> Callable[[PlannedStep], str]:
    """What steps are called so that a plan is not much longer than a page."""
    plain = {_plain(step) for estimate in (plan.shortest, plan.longest) for step in estimate.steps}
    return _plain if len(plain) <= _MOST_ROWS else _short


def _path_words(dut: Dut, given: Path | None) -> str:
    """Return the path of a target, and the path that was ``given`` where that leads to it by a symlink."""
    if given is None or dut.kind == "simulated" or dut.array is not None or given.absolute() == Path(dut.path):
        return dut.path
    return f"{dut.path} (given as {given})"


def plan_lines(planned: TestEstimate, dut: Dut, given: Path | None = None) -> Iterator[str]:
    """The steps of a test with what they cost, how often they come at least and at most, and the sums.

    ``given`` is the target as the operator typed it.
    """
    spec, plan = planned.spec, planned.plan
    yield f"{spec.caption}, {spec.revision}, on {_path_words(dut, given)}: {dut.summary}"
    yield ""
    label, purged = _labels(plan), plan.assumptions.purging != "none"
    shortest, longest = _grouped(plan.shortest, label), _grouped(plan.longest, label)
    yield from table(
        ("step", "stimuli", "shortest", "longest", "writes at most"),
        (_row(kind, shortest.get(kind, _Sum()), longest.get(kind, _Sum()), purged) for kind in {**longest, **shortest}),
    )
    yield ""
    for word, estimate in (("shortest", plan.shortest), ("longest", plan.longest)):
        rounds = f"{counted(estimate.rounds, 'round')}, " if estimate.rounds else ""
        longer = or_more(estimate) if estimate is plan.longest else ""
        yield f"  {word}: {rounds}{_cost(f'{duration(estimate.seconds)}{longer}', estimate.written_bytes, dut)}"
    yield from _open_ended(plan)
    yield from _host(spec)
    yield from _assumptions(plan)
    yield from _limits(planned)
    yield from deviation_lines(planned.deviations, spec.authority)
    yield from setting_lines(planned.settings)


def _row(kind: _Kind, shortest: _Sum, longest: _Sum, purged: bool) -> tuple[str, ...]:
    written = max(shortest.written_bytes, longest.written_bytes)
    out = kind.kind == "purge" and not purged and not written
    more = " or more" if longest.open_ended else ""
    least, most = ("left out", "left out") if out else (_times(shortest), _times(longest) + more)
    return (kind.label, str(kind.stimuli or ""), least, most, capacity(written) if written else "")


def _times(costs: _Sum) -> str:
    if not costs.times:
        return "-"
    return f"{costs.times} x, {duration(costs.seconds) if costs.seconds else 'not counted'}"


def _cost(time: str, written_bytes: int, dut: Dut) -> str:
    fills = number(written_bytes / dut.capacity_bytes)
    return f"{time}, writes at most {capacity(written_bytes)} ({fills} fills)"


def or_more(estimate: Estimate) -> str:
    """What follows a time that is no bound."""
    return " or more" if estimate.open_ended else ""


def _open_ended(plan: Plan) -> Iterator[str]:
    """What has no end in time."""
    if count := plan.longest.open_ended:
        ends, takes = ("ends", "takes") if count == 1 else ("end", "take")
        yield f"  {counted(count, 'step')} {ends} with an amount, not with a time, and {takes} as long as the I/Os do"


def _host(spec: Spec) -> Iterator[str]:
    """What of the host a profile sets."""
    settings = [f"{name} {', '.join(values)}" for name, values in _host_settings(spec).items()]
    if settings:
        yield f"  sets the host, and puts it back: {'; '.join(settings)}"


def _host_settings(spec: Spec) -> dict[str, list[str]]:
    """The values that each setting of the host is given."""
    found: dict[str, dict[str, None]] = {}
    for name, value in (pair for pairs in spec.settings() for pair in pairs) if isinstance(spec, ProfileSpec) else ():
        found.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in found.items()}


def besides(plan: Plan) -> str:
    """What a plan does not count, as it follows a time; nothing where it counts all."""
    kinds = {step.kind for step in plan.longest.steps}
    missing = ["the purge"] if "purge" in kinds and plan.assumptions.purging == "own" else []
    missing += ["the syncs of the array"] if "purge" in kinds and plan.syncs else []
    missing += ["what prepares the host"] if "prepare" in kinds else []
    return f" besides {' and '.join(missing)}" if missing else ""


def _assumptions(plan: Plan) -> Iterator[str]:
    missing, speed = besides(plan), plan.assumptions.speed
    if speed.least == speed.read == speed.write:
        yield f"  supposing {megabytes(speed.write)} MB/s, no more and no less ({speed.source})"
    else:
        yield f"  supposing that it moves no more than {_most(speed)}: {speed.source} (--assume, if it does less)"
        yield f"  supposing that it streams {megabytes(speed.least)} MB/s or more: a slower one takes longer (--assume)"
    yield (
        f"  {plan.assumptions.overhead_seconds:g} s around each round or stretch, "
        f"{plan.assumptions.between_seconds:g} s between two points{';' if missing else ''}{missing}"
    )


def _most(speed: SupposedSpeed) -> str:
    if speed.read == speed.write:
        return f"{megabytes(speed.write)} MB/s each way"
    return f"{megabytes(speed.read)} MB/s of reads and {megabytes(speed.write)} MB/s of writes"


def _limits(planned: TestEstimate) -> Iterator[str]:
    """How many limits were taken, and those of this test."""
    if not planned.limits:
        return
    from ...report.sections.summary import limit_text

    own = planned.own_limits
    yield f"  {counted(len(planned.limits), 'limit')} taken, {len(own) or 'none'} on this test"
    yield from (f"    {limit.name}: {limit_text(limit)}" for limit in own[:_MOST_LIMITS])
    if len(own) > _MOST_LIMITS:
        yield f"    and {len(own) - _MOST_LIMITS} more"


def _suite_limits(tests: Sequence[TestEstimate]) -> Iterator[str]:
    """How many limits were taken, and how many are on each test."""
    if total := len(tests[0].limits):
        told = ", ".join(f"{len(each.own_limits) or 'none'} on {each.spec.test}" for each in tests)
        yield f"  {counted(total, 'limit')} taken: {told}"


def suite_lines(tests: Sequence[TestEstimate], dut: Dut, given: Path | None = None) -> Iterator[str]:
    """What several tests cost, each and together; ``given`` is the target as the operator typed it."""
    where = _path_words(dut, given)
    yield f"{counted(len(tests), 'test')}, {tests[0].spec.revision}, on {where}: {dut.summary}"
    yield ""
    rows = [(each.spec.title, each.plan.shortest, each.plan.longest) for each in tests]
    yield from table(
        ("test", "shortest", "writes at most", "fills", "longest", "writes at most", "fills"),
        [
            *((title, *_sums([least], dut), *_sums([most], dut)) for title, least, most in rows),
            ("together", *_sums([row[1] for row in rows], dut), *_sums([row[2] for row in rows], dut)),
        ],
    )
    yield ""
    yield from _assumptions(tests[0].plan)
    yield from _suite_limits(tests)
    yield from deviation_lines(tuple(_named(tests, lambda planned: planned.deviations)), "the standard")
    yield from setting_lines(tuple(_named(tests, lambda planned: planned.settings)))


def _named(tests: Sequence[TestEstimate], of: Callable[[TestEstimate], tuple[D, ...]]) -> Iterator[D]:
    """Every deviation, or setting, once: of all tests as it is, of some with their names."""
    found: dict[D, list[str]] = {}
    for planned in tests:
        for each in of(planned):
            found.setdefault(each, []).append(planned.spec.test)
    for each, names in found.items():
        every = len(names) == len(tests)
        yield each if every else replace(each, what=f"{', '.join(names)}: {each.what}")


def _sums(estimates: Sequence[Estimate], dut: Dut) -> tuple[str, str, str]:
    written = sum(estimate.written_bytes for estimate in estimates)
    seconds = sum(estimate.seconds for estimate in estimates)
    return duration(seconds), capacity(written), number(written / dut.capacity_bytes)


def plan_json(planned: TestEstimate, dut: Dut) -> dict[str, Any]:
    """The plan of a test for programs."""
    spec, plan = planned.spec, planned.plan
    supposed = plan.assumptions
    return {
        "format": 1,
        "test": spec.test,
        "revision": spec.revision,
        "dut": asdict(dut),
        "assumptions": {
            "mb_per_second": asdict(supposed.speed),
            "overhead_seconds": supposed.overhead_seconds,
            "between_seconds": supposed.between_seconds,
            "purging": supposed.purging,
        },
        "host_settings": _host_settings(spec),
        "shortest": _course(plan, plan.shortest, dut),
        "longest": _course(plan, plan.longest, dut),
        "limits": [asdict(limit) for limit in planned.own_limits],
        "deviations": [asdict(deviation) for deviation in planned.deviations],
        "settings": [asdict(setting) for setting in planned.settings],
    }


def suite_json(tests: Sequence[TestEstimate], dut: Dut) -> dict[str, Any]:
    """The plans of several tests for programs, and their sums."""
    return {
        "format": 1,
        "tests": [plan_json(planned, dut) for planned in tests],
        "shortest": _json_sums([planned.plan.shortest for planned in tests], dut),
        "longest": _json_sums([planned.plan.longest for planned in tests], dut),
    }


def _course(plan: Plan, estimate: Estimate, dut: Dut) -> dict[str, Any]:
    purged = plan.assumptions.purging != "none"
    grouped = _grouped(estimate, _labels(plan)).items()
    steps = [
        {**kind._asdict(), **costs._asdict()}
        for kind, costs in grouped
        if purged or kind.kind != "purge" or costs.written_bytes
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
