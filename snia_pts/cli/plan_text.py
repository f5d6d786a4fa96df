"""What a plan says, as lines of text and as JSON.  Nothing here prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from ..dut import Dut
from ..plan import Estimate, Plan, PlannedStep
from ..spec import Deviation, ProfileSpec, Spec
from ..units import capacity, counted, duration, number
from .words import called, deviation_lines, dut_words, table

_NUMBERED = re.compile(r"\bRound \d+\b")
_ZONE = re.compile(r", zone \d+\b")
#: As many rows are read; where there are more, those of a workload stand together, whatever its axes.
_MOST_ROWS = 40


class Planned(NamedTuple):
    """A test with what it would cost, and the deviations known beforehand."""

    spec: Spec
    plan: Plan
    deviations: tuple[Deviation, ...]


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


def plan_lines(planned: Planned, dut: Dut) -> Iterator[str]:
    """The steps of a test with what they cost, how often they come at least and at most, and the sums."""
    spec, plan, deviations = planned
    yield f"{called(spec)}, {spec.revision}, on {dut.path}: {dut_words(dut)}"
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
        yield f"  {word}: {rounds}{_cost(estimate.seconds, estimate.written_bytes, dut)}"
    yield from _host(spec)
    yield from _assumptions(plan)
    yield from deviation_lines(deviations, spec.authority)


def _row(kind: _Kind, shortest: _Sum, longest: _Sum, purged: bool) -> tuple[str, ...]:
    written = max(shortest.written_bytes, longest.written_bytes)
    out = kind.kind == "purge" and not purged
    least, most = ("left out", "left out") if out else (_times(shortest), _times(longest))
    return (kind.label, str(kind.stimuli or ""), least, most, capacity(written) if written else "")


def _times(costs: _Sum) -> str:
    if not costs.times:
        return "-"
    return f"{costs.times} x, {duration(costs.seconds) if costs.seconds else 'not counted'}"


def _cost(seconds: float, written_bytes: int, dut: Dut) -> str:
    fills = number(written_bytes / dut.capacity_bytes)
    return f"{duration(seconds)}, writes at most {capacity(written_bytes)} ({fills} fills)"


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
    missing += ["what prepares the host"] if "prepare" in kinds else []
    return f" besides {' and '.join(missing)}" if missing else ""


def _assumptions(plan: Plan) -> Iterator[str]:
    missing = besides(plan)
    yield (
        f"  supposing at most {plan.assumptions.mb_per_second:g} MB/s (--assume) and "
        f"{plan.assumptions.overhead_seconds:g} s around each round or stretch, "
        f"{plan.assumptions.between_seconds:g} s between two points{';' if missing else ''}{missing}"
    )


def suite_lines(tests: Sequence[Planned], dut: Dut) -> Iterator[str]:
    """What several tests cost, each and together."""
    yield f"{counted(len(tests), 'test')}, {tests[0].spec.revision}, on {dut.path}: {dut_words(dut)}"
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
    yield from deviation_lines(tuple(_named(tests)), "the standard")


def _named(tests: Sequence[Planned]) -> Iterator[Deviation]:
    """Every deviation once: of all tests as it is, of some with their names."""
    found: dict[Deviation, list[str]] = {}
    for planned in tests:
        for deviation in planned.deviations:
            found.setdefault(deviation, []).append(planned.spec.test)
    for deviation, names in found.items():
        every = len(names) == len(tests)
        yield deviation if every else replace(deviation, what=f"{', '.join(names)}: {deviation.what}")


def _sums(estimates: Sequence[Estimate], dut: Dut) -> tuple[str, str, str]:
    written = sum(estimate.written_bytes for estimate in estimates)
    seconds = sum(estimate.seconds for estimate in estimates)
    return duration(seconds), capacity(written), number(written / dut.capacity_bytes)


def plan_json(planned: Planned, dut: Dut) -> dict[str, Any]:
    """The plan of a test for programs."""
    spec, plan, deviations = planned
    supposed = plan.assumptions
    return {
        "format": 1, "test": spec.test, "revision": spec.revision, "dut": asdict(dut),
        "assumptions": {
            "mb_per_second": supposed.mb_per_second, "overhead_seconds": supposed.overhead_seconds,
            "between_seconds": supposed.between_seconds, "purging": supposed.purging,
        },
        "host_settings": _host_settings(spec), "shortest": _course(plan, plan.shortest, dut),
        "longest": _course(plan, plan.longest, dut), "deviations": [asdict(deviation) for deviation in deviations],
    }  # fmt: skip


def suite_json(tests: Sequence[Planned], dut: Dut) -> dict[str, Any]:
    """The plans of several tests for programs, and their sums."""
    return {
        "format": 1, "tests": [plan_json(planned, dut) for planned in tests],
        "shortest": _json_sums([planned.plan.shortest for planned in tests], dut),
        "longest": _json_sums([planned.plan.longest for planned in tests], dut),
    }  # fmt: skip


def _course(plan: Plan, estimate: Estimate, dut: Dut) -> dict[str, Any]:
    purged = plan.assumptions.purging != "none"
    grouped = _grouped(estimate, _labels(plan)).items()
    steps = [{**kind._asdict(), **costs._asdict()} for kind, costs in grouped if purged or kind.kind != "purge"]
    return {"rounds": estimate.rounds, **_json_sums([estimate], dut), "steps": steps}


def _json_sums(estimates: Sequence[Estimate], dut: Dut) -> dict[str, Any]:
    written = sum(estimate.written_bytes for estimate in estimates)
    return {
        "seconds": sum(estimate.seconds for estimate in estimates), "written_bytes": written,
        "drive_fills": written / dut.capacity_bytes,
    }  # fmt: skip
