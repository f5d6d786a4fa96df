"""Check a result against limits.  A value that was not measured, or not at steady state, meets no limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import LimitsMissed
from ..model.dut import Dut
from ..model.test_platform import UNKNOWN_PLATFORM
from ..procedures.estimator import Assumptions, simulate
from ..spec import Spec
from ..spec.limits import Limit
from ..units import distinct_digits, number
from .builder import ResultBuilder
from .key_figures import KeyFigure, key_figures, units
from .result import RunFacts, TestResult

#: The reasons for which a value is out of bounds; result.xml has them.
_BELOW, _ABOVE = "less than the minimum", "more than the maximum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A limit, the measured value (None without one), whether it is met, and the reason if it is not."""

    limit: Limit
    value: float | None
    met: bool
    reason: str

    @property
    def margin_percent(self) -> float | None:
        """How far the measured value is within its limit, in percent of the nearest bound with its tolerance.

        Negative outside; None without a value, and for a bound of zero.
        """
        bounds = ((1, self.limit.lower_bound), (-1, self.limit.upper_bound))
        finite = [(sign, bound) for sign, bound in bounds if math.isfinite(bound)]
        if self.value is None or not all(bound for _, bound in finite):
            return None
        return min(sign * 100 * (self.value - bound) / abs(bound) for sign, bound in finite) or 0.0  # not -0.0

    @property
    def shown_reason(self) -> str:
        """The reason for readers: it names the bound, with its tolerance, that the value violates."""
        if self.value is None or self.reason not in (_BELOW, _ABOVE):
            return self.reason
        word, bound = ("below", self.limit.lower_bound) if self.reason == _BELOW else ("above", self.limit.upper_bound)
        return f"{word} {number(bound, digits=limit_digits(self.limit, self.value))} {self.limit.unit}"

    @property
    def attributes(self) -> dict[str, str | float | bool | None]:
        """All values, with the names that they have in all output formats."""
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


def limit_digits(limit: Limit, value: float | None) -> int:
    """Return the digits with which the bounds of a limit differ from each other and from the measured ``value``."""
    numbers = (limit.minimum, limit.lower_bound, limit.maximum, limit.upper_bound, value)
    return distinct_digits(bound for bound in numbers if bound is not None)


def judgements(result: TestResult) -> tuple[Judgement, ...]:
    """Return the judgement of each limit for the result's test, in the order of the file."""
    limits = [limit for limit in result.facts.limits if limit.test == result.facts.spec.test]
    figures = {figure.name: figure for figure in key_figures(result)} if limits else {}
    return tuple(_judge(limit, figures.get(limit.name), result) for limit in limits)


def untested_judgements(limits: Sequence[Limit], tests: Collection[str]) -> tuple[Judgement, ...]:
    """Return failed judgements for the limits on tests that are not among ``tests``, the tests that were run."""
    missing = (limit for limit in limits if limit.test not in tests)
    return tuple(Judgement(limit=limit, value=None, met=False, reason=f"{limit.test} was not run") for limit in missing)


def _judge(limit: Limit, figure: KeyFigure | None, result: TestResult) -> Judgement:
    if figure is not None and result.ending != "finished":
        return Judgement(limit=limit, value=figure.value, met=False, reason="the run did not finish")
    if figure is None:
        unsteady = "" if result.steady_so_far else "; steady state was not achieved"
        return Judgement(limit=limit, value=None, met=False, reason=f"it was not measured{unsteady}")
    if figure.unit != limit.unit:
        return Judgement(limit=limit, value=None, met=False, reason=f"it is measured in {figure.unit}")
    if figure.unsteady:
        return Judgement(limit=limit, value=figure.value, met=False, reason="steady state was not achieved")
    met = limit.is_met_by(figure.value)
    return Judgement(limit=limit, value=figure.value, met=met, reason="" if met else _violation(figure.value, limit))


def _violation(value: float, limit: Limit) -> str:
    below = limit.minimum is not None and value < limit.minimum
    return _BELOW if below else _ABOVE


def require_met(checks: Sequence[Judgement], hint: str = LimitsMissed.hint) -> None:
    """Raise LimitsMissed, with ``hint``, unless every limit is met."""
    missed = [judgement for judgement in checks if not judgement.met]
    if missed:
        details = "; ".join(f"{judgement.limit.name}: {judgement.shown_reason}" for judgement in missed)
        raise LimitsMissed(missed=len(missed), total=len(checks), details=details, hint=hint)


def measurable_figures(spec: Spec, dut: Dut, assumptions: Assumptions) -> Mapping[str, str]:
    """Return the units of all key figures that a test may have, by name, whether or not it reaches steady state."""
    facts = RunFacts(
        run_id="",
        started="",
        command_line=(),
        seed=None,
        test_class="enterprise",
        spec=spec,
        dut=dut,
        platform=UNKNOWN_PLATFORM,
        deviations=(),
    )
    names: dict[str, str] = {}
    for steady in (True, False):
        builder = ResultBuilder(facts)
        simulate(spec, dut, assumptions, builder.tee, steady=steady)
        names |= units(builder.result(ending="finished", ending_detail="", finished=""))
    return names


def _untimed(at: str, units_by_name: Mapping[str, str]) -> bool:
    """Return whether a point has numbers, but none of them is a time."""
    point_units = [unit for name, unit in units_by_name.items() if name.endswith(f" at {at}")]
    return bool(point_units) and "ms" not in point_units


def _nearest(limit: Limit, names: Collection[str]) -> str | None:
    """Return the most similar name, among those with the same metric if there are any."""
    candidates = [name for name in names if name.startswith(f"{limit.metric} ")]
    return next(iter(get_close_matches(limit.name, candidates or names, n=1)), None)


def limit_mistakes(limits: Sequence[Limit], units_by_test: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the mistakes of limits, each with its position.

    ``units_by_test`` are the units of the numbers of each test by name.  If it has only one test, limits on other tests
    are ignored.
    """
    for position, limit in enumerate(limits, start=1):
        units_by_name = units_by_test.get(limit.test)
        if units_by_name is None:
            if len(units_by_test) > 1:
                yield f"limit {position}.test: {limit.test!r}: expected a test that is run, {', '.join(units_by_test)}"
            continue
        if limit.name not in units_by_name and limit.unit == "ms" and _untimed(limit.at, units_by_name):
            yield f"limit {position}: {limit.name!r}: this point has no response times (gtod_reduce)"
        elif limit.name not in units_by_name:
            nearest = _nearest(limit, units_by_name)
            unit = units_by_name[nearest] if nearest else limit.unit
            example = f", such as {nearest!r}" + (f" in {unit}" if unit != limit.unit else "") if nearest else ""
            yield f"limit {position}: {limit.name!r}: expected a number of the test {limit.test}{example}"
        elif limit.unit != (unit := units_by_name[limit.name]):
            yield f"limit {position}.unit: {limit.unit!r}: expected {unit!r} for {limit.name!r}"


def notify_if_unlimited(limits: Sequence[Limit], source: str, test: str, tell: Callable[[str], None]) -> None:
    """Notify the operator if limits were given, but none for this test."""
    if limits and all(limit.test != test for limit in limits):
        others = ", ".join(dict.fromkeys(limit.test for limit in limits))
        tell(f"{source} has no limits for {test}, only for {others}; they are not checked.")
