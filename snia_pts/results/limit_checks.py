"""Holds a result against limits.  What was not measured, or not at steady state, meets none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import LimitsMissed
from ..model.dut import Dut
from ..model.test_platform import TestPlatform
from ..procedures.estimator import Assumptions, simulate
from ..spec import Spec
from ..spec.limits import Limit
from .builder import ResultBuilder
from .key_figures import KeyFigure, key_figures, units
from .result import RunFacts, TestResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A limit, the value that was measured (None where there is none), whether it is met, and if not, why."""

    limit: Limit
    value: float | None
    met: bool
    reason: str

    @property
    def told(self) -> dict[str, str | float | bool | None]:
        """All of it by the names that it has wherever the suite writes data."""
        limit = self.limit
        return {
            "metric": limit.metric,
            "at": limit.at,
            "unit": limit.unit,
            "minimum": limit.minimum,
            "maximum": limit.maximum,
            "tolerance_percent": limit.tolerance_percent,
            "value": self.value,
            "met": self.met,
            "reason": self.reason,
        }


def judgements(result: TestResult) -> tuple[Judgement, ...]:
    """Return what became of each limit on the result's test, in the order of the file."""
    asked = [limit for limit in result.facts.limits if limit.test == result.facts.spec.test]
    figures = {each.name: each for each in key_figures(result)} if asked else {}
    return tuple(_judged(limit, figures.get(limit.name), result) for limit in asked)


def untested(limits: Sequence[Limit], tests: Collection[str]) -> tuple[Judgement, ...]:
    """Return the limits on what is none of the ``tests`` that were run, which are not met."""
    missing = (limit for limit in limits if limit.test not in tests)
    return tuple(Judgement(limit=each, value=None, met=False, reason=f"{each.test} was not run") for each in missing)


def _judged(limit: Limit, figure: KeyFigure | None, result: TestResult) -> Judgement:
    if figure is not None and result.ending != "finished":
        return Judgement(limit=limit, value=figure.value, met=False, reason="the run did not finish")
    if figure is None:
        unsteady = "" if result.steady else "; steady state was not achieved"
        return Judgement(limit=limit, value=None, met=False, reason=f"it was not measured{unsteady}")
    if figure.unit != limit.unit:
        return Judgement(limit=limit, value=None, met=False, reason=f"it is measured in {figure.unit}")
    if not figure.steady:
        return Judgement(limit=limit, value=figure.value, met=False, reason="steady state was not achieved")
    met = limit.met_by(figure.value)
    return Judgement(limit=limit, value=figure.value, met=met, reason="" if met else _missed(figure.value, limit))


def _missed(value: float, limit: Limit) -> str:
    below = limit.minimum is not None and value < limit.minimum
    return "less than the minimum" if below else "more than the maximum"


def require_met(found: Sequence[Judgement]) -> None:
    """Raise LimitsMissed unless every limit is met."""
    missed = [judgement for judgement in found if not judgement.met]
    if missed:
        details = "; ".join(f"{judgement.limit.name}: {judgement.reason}" for judgement in missed)
        raise LimitsMissed(missed=len(missed), total=len(found), details=details)


def expected(spec: Spec, dut: Dut, assumptions: Assumptions) -> Mapping[str, str]:
    """Return the names that a test may have a number by, whatever the drive does, and their units."""
    unknown = TestPlatform(
        hostname="",
        motherboard="",
        cpu="",
        cpus=0,
        memory_bytes=0,
        operating_system="",
        kernel="",
        python="",
        suite_version="",
        engine="",
        engine_version="",
        io_engine="",
    )
    facts = RunFacts(
        run_id="",
        started="",
        command_line=(),
        seed=None,
        test_class="enterprise",
        spec=spec,
        dut=dut,
        platform=unknown,
        deviations=(),
    )
    names: dict[str, str] = {}
    for steady in (True, False):
        folding = ResultBuilder(facts)
        simulate(spec, dut, assumptions, folding.tee, steady=steady)
        names |= units(folding.result(ending="finished", ending_detail="", finished=""))
    return names


def _nearest(limit: Limit, known: Collection[str]) -> str | None:
    """Return the name that is most like a limit's, with its metric if there is one: a profile has thousands."""
    alike = [name for name in known if name.startswith(f"{limit.metric} ")]
    return next(iter(get_close_matches(limit.name, alike or known, n=1)), None)


def unmeasurable(limits: Sequence[Limit], names: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Give what is wrong with limits, each with its place, where tests have ``names`` of numbers with their units.

    A limit on another test is left to that one, but where there are several.
    """
    for place, limit in enumerate(limits, start=1):
        known = names.get(limit.test)
        if known is None:
            if len(names) > 1:
                yield f"limit {place}.test: {limit.test!r}: expected a test that is run, {', '.join(names)}"
            continue
        meant = limit.name if limit.name in known else _nearest(limit, known)
        if limit.name not in known:
            like = f", as {meant!r}" if meant else ""
            yield f"limit {place}: {limit.name!r}: expected a number that {limit.test} measures{like}"
        if meant and limit.unit != known[meant]:
            yield f"limit {place}.unit: {limit.unit!r}: expected {known[meant]!r} for {meant!r}"
