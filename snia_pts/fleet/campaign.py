"""A campaign: a TOML file that names drives and tests, the requests that it makes, and what they cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

from annotated_types import Ge, Le, MaxLen, MinLen

from ..analysis.side_by_side import SideBySide
from ..errors import ReportError, SniaPtsError, SpecError
from ..model.run_options import RunOptions
from ..procedures.estimator import Estimate, Plan
from ..runner.report_formats import require_formats
from ..runner.setup import plan_test, require_measurable, specification_for
from ..spec.limits import StandardTest
from ..spec.toml_file import Mistakes, read_toml, spec_error, validate
from ..text import one_line, suggestion
from .configuration import AgentDrive
from .drive_facts import DriveFacts
from .request import Line, Name, OnLost, RequestOptions, RunRequest
from .run_options import run_options
from .schedule import elapsed_seconds

_WHAT = "The campaign"
_REMEDY = "Correct the file; docs/fleet.rst lists its keys."
_MAX_RUNS, _MAX_REPEATS, _MAX_PRIORITY = 10_000, 1000, 100
_OPTIONS = "options"
#: A folder and a serial number for options whose target is not looked for.
_NOWHERE = Path("/nonexistent")


# -- the file ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignDrive:
    """A drive by its serial number, or ``count`` drives of a model."""

    __pydantic_config__ = {"extra": "forbid"}
    serial: Line | None = None
    model: Line | None = None
    count: Annotated[int, Ge(1), Le(_MAX_RUNS)] | None = None

    def __post_init__(self) -> None:
        if (self.serial is None) == (self.model is None):
            raise ValueError("a serial, or a model with a count")
        if (self.model is None) != (self.count is None):
            raise Mistakes("count: expected the number of drives of a model, and none for a serial")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """The test that each drive must pass before the other tests of the campaign."""

    __pydantic_config__ = {"extra": "forbid"}
    test: Literal[StandardTest, "all"]
    options: RequestOptions = field(default_factory=RequestOptions)
    on_lost: OnLost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTest(HealthCheck):
    """A test of every drive, ``repeats`` times; ``options`` and ``on_lost`` replace those of the campaign."""

    repeats: Annotated[int, Ge(1), Le(_MAX_REPEATS)] = 1
    labels: Annotated[Mapping[Name, Line], MaxLen(50)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The content of a campaign file; ``options``, ``labels`` and ``on_lost`` are those of all tests."""

    __pydantic_config__ = {"extra": "forbid"}
    format: Literal[1]
    name: Name
    drive: Annotated[tuple[CampaignDrive, ...], MinLen(1)]
    test: Annotated[tuple[CampaignTest, ...], MinLen(1)]
    health_check: HealthCheck | None = None
    options: RequestOptions = field(default_factory=RequestOptions)
    priority: Annotated[int, Ge(-_MAX_PRIORITY), Le(_MAX_PRIORITY)] = 0
    on_lost: OnLost = "resume"
    labels: Annotated[Mapping[Name, Line], MaxLen(50)] = field(default_factory=dict)


def _merged(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file whose tests have the options of the campaign that they do not set themselves."""
    common = table.get(_OPTIONS)
    if not isinstance(common, dict):
        return dict(table)

    def with_common(test: Any) -> Any:
        own = test.get(_OPTIONS, {}) if isinstance(test, dict) else None
        return {**test, _OPTIONS: {**common, **own}} if isinstance(own, dict) else test

    tests = table.get("test")
    merged = {**table, "test": list(map(with_common, tests))} if isinstance(tests, list) else dict(table)
    if "health_check" in table:
        merged["health_check"] = with_common(table["health_check"])
    return merged


# -- the requests -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDrive:
    """A drive of a lab.

    ``obstacle`` is why no request for it is accepted, or empty.  ``queued`` are the requests that it has not finished.
    """

    serial: str
    model: str
    host: str
    facts: DriveFacts | None
    obstacle: str = ""
    queued: tuple[RunRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A request of a campaign, and the plans of its tests; the other runs of its drive wait for a health check."""

    request: RunRequest
    drive: LabDrive
    plans: tuple[Plan, ...]
    is_health_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The least and the greatest time, and the least and the greatest amount that is written.

    ``open_ended``: the time can be longer.
    """

    least_seconds: float
    greatest_seconds: float
    least_bytes: int
    greatest_bytes: int
    open_ended: bool

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> Cost:
        """Return the sums of plans."""

        def both(value: str, estimates: Sequence[Estimate]) -> Any:
            return sum(getattr(estimate, value) for estimate in estimates)

        shortest, longest = [plan.shortest for plan in plans], [plan.longest for plan in plans]
        amounts = sorted((both("written_bytes", shortest), both("written_bytes", longest)))
        return cls(
            least_seconds=both("seconds", shortest),
            greatest_seconds=both("seconds", longest),
            least_bytes=amounts[0],
            greatest_bytes=amounts[1],
            open_ended=any(estimate.open_ended for estimate in longest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveCost:
    """What a campaign costs a drive; ``before`` are the runs in its queue, which come first."""

    drive: LabDrive
    runs: int
    cost: Cost
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCost:
    """The time until a host has finished a campaign, and what was in its queue before, with so many runs at a time."""

    host: str
    drives: int
    runs: int
    side_by_side: SideBySide
    least_seconds: float
    greatest_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """The requests of a campaign in their order, and their cost; nothing was submitted."""

    campaign: Campaign
    runs: tuple[PlannedRun, ...]
    drives: tuple[DriveCost, ...]
    hosts: tuple[HostCost, ...]


def plan_campaign(path: Path, drives: Sequence[LabDrive], side_by_side: Mapping[str, SideBySide]) -> CampaignPlan:
    """Read a campaign file; return its requests for these drives, and their cost.

    ``side_by_side`` is how many runs each host tests at a time; 1 for an unknown one.  Raises SpecError, which lists
    all mistakes of the file with their keys.
    """
    campaign, mistakes = validate(Campaign, _merged(read_toml(path, _WHAT, remedy=_REMEDY)))
    if campaign is None:
        raise spec_error(str(path), mistakes, _WHAT, remedy=_REMEDY)
    chosen = list(_chosen(campaign.drive, drives, mistakes))
    count = sum(test.repeats for test in campaign.test) + (campaign.health_check is not None)
    if count * len(chosen) > _MAX_RUNS:
        mistakes.append(f"test: {count * len(chosen)} runs: expected at most {_MAX_RUNS}")
    runs = [] if mistakes else list(_runs(campaign, chosen))
    planned = list(_planned(runs, mistakes))
    if mistakes:
        raise spec_error(str(path), list(dict.fromkeys(mistakes)), _WHAT, remedy=_REMEDY)
    return CampaignPlan(
        campaign=campaign,
        runs=tuple(planned),
        drives=tuple(_drive_costs(planned, chosen)),
        hosts=tuple(_host_costs(planned, drives, side_by_side)),
    )


def _chosen(wanted: Sequence[CampaignDrive], drives: Sequence[LabDrive], mistakes: list[str]) -> Iterator[LabDrive]:
    """Yield the drives that a campaign names: those of a model from the hosts with the fewest ones, idle ones first."""
    known = {drive.serial: drive for drive in drives}
    taken = {item.serial for item in wanted if item.serial is not None}
    per_host = Counter(known[serial].host for serial in taken if serial in known)
    serials: set[str] = set()
    for number, item in enumerate(wanted, start=1):
        if item.serial is not None:
            drive = known.get(item.serial)
            reason = _unusable(item.serial, drive, known)
            if item.serial in serials:
                reason = "expected each serial number once"
            serials.add(item.serial)
            if reason or drive is None:
                mistakes.append(f"drive {number}.serial: {item.serial!r}: {reason}")
            else:
                yield drive
            continue
        of_model = [drive for drive in drives if drive.model == item.model]
        if not of_model:
            hint = suggestion(item.model or "", {drive.model for drive in drives})
            mistakes.append(
                f"drive {number}.model: {item.model!r}: no agent has a drive of this model; {hint}".rstrip("; ")
            )
            continue
        usable = [drive for drive in of_model if drive.serial not in taken and not _unusable("", drive, known)]
        if len(usable) < (item.count or 0):
            mistakes.append(
                f"drive {number}.count: {item.count}: expected at most {len(usable)}, the drives that are usable"
            )
            continue
        for _ in range(item.count or 0):
            best = min(
                usable, key=lambda drive: (len(drive.queued) > 0, per_host[drive.host], len(drive.queued), drive.serial)
            )
            usable.remove(best)
            taken.add(best.serial)
            per_host[best.host] += 1
            yield best


def _unusable(serial: str, drive: LabDrive | None, known: Mapping[str, LabDrive]) -> str:
    """Return why a drive cannot be in a campaign, or an empty text."""
    if drive is None:
        return f"no agent has this drive; {suggestion(serial, known)}".rstrip("; ")
    if drive.obstacle:
        return drive.obstacle
    return "" if drive.facts else "its agent has not reported its capacity; upgrade and restart the agent"


def _runs(campaign: Campaign, drives: Sequence[LabDrive]) -> Iterator[tuple[str, PlannedRun]]:
    """Yield the runs of each drive in their order, without their plans, each with the key of its test in the file."""
    for drive in drives:
        if check := campaign.health_check:
            yield (
                "health_check",
                PlannedRun(
                    request=_request(campaign, drive, check, campaign.labels),
                    drive=drive,
                    plans=(),
                    is_health_check=True,
                ),
            )
        for number, test in enumerate(campaign.test, start=1):
            for _ in range(test.repeats):
                request = _request(campaign, drive, test, {**campaign.labels, **test.labels})
                yield f"test {number}", PlannedRun(request=request, drive=drive, plans=())


def _request(campaign: Campaign, drive: LabDrive, test: HealthCheck, labels: Mapping[str, str]) -> RunRequest:
    return RunRequest(
        run_id=uuid4(),
        serial=drive.serial,
        model=drive.model,
        test=test.test,
        on_lost=test.on_lost or campaign.on_lost,
        options=test.options,
        labels=labels,
    )


# -- the cost ---------------------------------------------------------------------------------------------------------


def _planned(runs: Sequence[tuple[str, PlannedRun]], mistakes: list[str]) -> Iterator[PlannedRun]:
    """Yield the runs with their plans; add a mistake for each test that would be refused."""
    for key, run in runs:
        try:
            plans = plans_of(run.request.test, run.request.options, run.drive.model, run.drive.facts)
        except SpecError as error:
            mistakes += [f"{key}.{_OPTIONS}: {line.strip()}" for line in error.mistakes.splitlines()]
        except SniaPtsError as error:
            mistakes.append(f"{key}.{_OPTIONS}: {one_line(f'{error} {error.full_hint}')}")
        else:
            yield PlannedRun(request=run.request, drive=run.drive, plans=plans, is_health_check=run.is_health_check)


@cache
def plans_of(test: Any, options: RequestOptions, model: str, facts: DriveFacts | None) -> tuple[Plan, ...]:
    """Return the plan of each test of a request on a drive with these facts, none without facts.

    Raises the error with which the run would be refused.
    """
    if facts is None:
        return ()
    dut = facts.dut(model, model)
    request = RunRequest(run_id=uuid4(), serial=model, model=model, test=test, options=options)
    tests = run_options(request, AgentDrive(serial=model), _NOWHERE)
    with suppress(ReportError):  # the host writes the report, not this one
        require_formats(options.formats)
    specifications = [specification_for(its) for its in tests]
    first: RunOptions = tests[0]
    require_measurable(first, [(specification, dut) for specification in specifications], lambda _text: None)
    return tuple(
        plan_test(specification.spec, dut, facts.speed, its)
        for its, specification in zip(tests, specifications, strict=True)
    )


def _cost_of(request: RunRequest, drive: LabDrive) -> Cost:
    """Return the cost of a request; nothing for one of another version, which cannot be planned."""
    try:
        return Cost.of(plans_of(request.test, request.options, drive.model, drive.facts))
    except SniaPtsError:
        return Cost.of(())


def _drive_costs(runs: Sequence[PlannedRun], drives: Sequence[LabDrive]) -> Iterator[DriveCost]:
    for drive in drives:
        own = [run for run in runs if run.drive.serial == drive.serial]
        plans = [plan for run in own for plan in run.plans]
        yield DriveCost(drive=drive, runs=len(own), cost=Cost.of(plans), before=len(drive.queued))


def _host_costs(
    runs: Sequence[PlannedRun], drives: Sequence[LabDrive], side_by_side: Mapping[str, SideBySide]
) -> Iterator[HostCost]:
    by_host: dict[str, list[PlannedRun]] = defaultdict(list)
    for run in runs:
        by_host[run.drive.host].append(run)
    for host, own in sorted(by_host.items()):
        costs = {
            drive.serial: [_cost_of(request, drive) for request in drive.queued]
            for drive in drives
            if drive.host == host
        }
        for run in own:
            costs[run.drive.serial].append(Cost.of(run.plans))
        places = side_by_side.get(host, SideBySide(1))
        least, greatest = (
            elapsed_seconds([[getattr(cost, name) for cost in sequence] for sequence in costs.values()], places.count)
            for name in ("least_seconds", "greatest_seconds")
        )
        yield HostCost(
            host=host,
            drives=len({run.drive.serial for run in own}),
            runs=len(own),
            side_by_side=places,
            least_seconds=least,
            greatest_seconds=greatest,
        )
