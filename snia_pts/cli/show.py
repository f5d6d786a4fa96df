"""What the command line says, as lines of text.  Nothing here prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..dut import Dut
from ..plan import Estimate, Plan
from ..result import TestResult
from ..spec import Deviation, IopsSpec, Tracked
from ..steadystate import SteadyState
from ..steps import Cell, mix
from ..units import block_size, capacity, duration, number


def plan_lines(spec: IopsSpec, dut: Dut, plan: Plan, deviations: tuple[Deviation, ...]) -> Iterator[str]:
    """The steps of a test with what they cost."""
    yield f"{spec.title} test, {spec.revision}, on {dut.path}: {dut_words(dut)}"
    yield ""
    yield "  step                               stimuli         time   writes at most"
    for step in plan.shortest.steps[:3]:
        time = duration(step.seconds) if step.stimuli else "the drive's"
        yield f"  {step.label:33} {step.stimuli:9} {time:>12} {capacity(step.written_bytes):>16}"
    yield f"  ... rounds until steady state, {spec.steady_state.window_rounds} at least, {spec.rounds.maximum} at most"
    yield ""
    for word, estimate in (("shortest", plan.shortest), ("longest", plan.longest)):
        fills = estimate.written_bytes / dut.capacity_bytes
        yield (
            f"  {word}: {estimate.rounds} rounds, {duration(estimate.seconds)}, "
            f"writes at most {capacity(estimate.written_bytes)} ({number(fills)} drive fills)"
        )
    yield (
        f"  supposing at most {plan.assumptions.mb_per_second:g} MB/s (--assume) and "
        f"{plan.assumptions.overhead_seconds:g} s around each stimulus besides the purge"
    )
    yield from _deviation_lines(deviations)


def plan_json(spec: IopsSpec, dut: Dut, plan: Plan, deviations: tuple[Deviation, ...]) -> dict[str, Any]:
    """The plan for programs."""
    from dataclasses import asdict

    def course(estimate: Estimate) -> dict[str, Any]:
        steps = [asdict(step) for step in estimate.steps]
        return {
            "rounds": estimate.rounds, "seconds": estimate.seconds, "written_bytes": estimate.written_bytes,
            "steps": steps,
        }  # fmt: skip

    return {
        "format": 1, "test": spec.test, "revision": spec.revision, "dut": asdict(dut),
        "assumptions": asdict(plan.assumptions), "shortest": course(plan.shortest), "longest": course(plan.longest),
        "deviations": [asdict(deviation) for deviation in deviations],
    }  # fmt: skip


def result_lines(result: TestResult) -> Iterator[str]:
    """The verdict, the determinations and the matrix of a result."""
    facts = result.facts
    yield f"{facts.spec.title} test, {facts.spec.revision}, on {facts.dut.path}: {dut_words(facts.dut)}"
    rounds = sum(measured.complete for measured in result.rounds)
    yield f"{result.verdict} ({rounds} complete round{'s' * (rounds != 1)})"
    if result.ending_detail:
        yield f"  {result.ending_detail}"
    if result.window:
        first, last = result.window.numbers[0], result.window.numbers[-1]
        yield f"Measurement window: rounds {first} - {last}"
        for tracked, determination in result.window.determinations:
            yield from _determination_lines(tracked, determination)
        yield ""
        yield from matrix_lines(result)
    yield from _deviation_lines(result.deviations)


def result_json(result: TestResult, disagreements: tuple[str, ...]) -> dict[str, Any]:
    """The assessment for programs; a figure that is not evaluable is null."""
    from dataclasses import asdict

    window = result.window
    determinations = [
        {**asdict(tracked), **{name: _finite(value) for name, value in asdict(determination).items()}}
        for tracked, determination in (window.determinations if window else ())
    ]
    return {
        "format": 1, "run": result.facts.run_id, "test": result.facts.spec.test, "verdict": result.verdict,
        "steady": result.steady, "conformant": result.conformant, "ending": result.ending,
        "rounds": [
            {"number": measured.number, "complete": measured.complete, "points": len(measured.measurements)}
            for measured in result.rounds
        ],
        "window": list(window.numbers) if window else None, "determinations": determinations,
        "matrix": [{**asdict(cell), "iops": iops} for cell, iops in result.matrix.items()],
        "deviations": [asdict(deviation) for deviation in result.deviations],
        "warnings": [asdict(warning) for warning in result.warnings],
        "differs_from_journal": list(disagreements),
    }  # fmt: skip


def matrix_lines(result: TestResult) -> Iterator[str]:
    """The matrix as the standard prints it: block sizes down, R/W mixes across, IOPS."""
    matrix, rounds = result.matrix, result.facts.spec.rounds
    reads = sorted(rounds.read_percents)
    yield "IOPS (mean of the window); R/W mix across, block size down"
    yield "           " + "".join(f"{mix(read):>12}" for read in reads)
    for size in sorted(rounds.block_sizes_bytes):
        cells = [matrix.get(Cell(read_percent=read, block_size_bytes=size), math.nan) for read in reads]
        yield f"{block_size(size):>11}" + "".join(f"{number(iops):>12}" for iops in cells)


def dut_words(dut: Dut) -> str:
    """A target in a few words: model, serial, capacity."""
    serial = f", serial {dut.serial}" if dut.serial else ""
    return f"{dut.model or 'unknown model'}{serial}, {capacity(dut.capacity_bytes)}"


def destruction_lines(dut: Dut, found: tuple[str, ...]) -> Iterator[str]:
    """What will be lost, for the operator to see before the word is typed."""
    yield "Everything on this target will be destroyed:"
    yield f"  {dut.path}  {dut_words(dut)}"
    yield f"  on it: {', '.join(found)}" if found else "  on it: no file system or partition table is recognised"


def excursions(determinations: tuple[tuple[Tracked, SteadyState], ...]) -> str:
    """The tracked variables' excursions in a few words."""
    return "; ".join(f"{variable(tracked)} {_percents(state)}" for tracked, state in determinations)


def _percents(state: SteadyState) -> str:
    if not state.evaluable:
        return "not evaluable"
    return f"data {state.data_excursion_percent:.1f} %, slope {state.slope_excursion_percent:.1f} %"


def variable(tracked: Tracked) -> str:
    """A tracked variable in a few words: ``4 KiB 0/100``."""
    return f"{block_size(tracked.block_size_bytes)} {mix(tracked.read_percent)}"


def _determination_lines(tracked: Tracked, state: SteadyState) -> Iterator[str]:
    verdict = "steady" if state.steady else "not steady" if state.evaluable else "not evaluable"
    yield f"  {tracked.metric.upper()} {variable(tracked)}: {verdict}"
    if state.evaluable:
        yield f"    average {number(state.average)}"
        for name, measured, percent, allowed in (
            ("data", state.data_excursion, state.data_excursion_percent, state.allowed_data_excursion),
            ("slope", state.slope_excursion, state.slope_excursion_percent, state.allowed_slope_excursion),
        ):
            yield f"    {name} excursion {number(measured)} ({percent:.2f} %), allowed {number(allowed)}"
        sign = "+" if state.intercept >= 0 else "-"
        yield f"    best fit {state.slope:.6g} x round {sign} {abs(state.intercept):.6g}"


def _deviation_lines(deviations: tuple[Deviation, ...]) -> Iterator[str]:
    yield ""
    if not deviations:
        yield "No deviation from the standard."
        return
    yield f"{len(deviations)} deviation{'s' * (len(deviations) != 1)} from the standard:"
    for deviation in deviations:
        yield f"  {deviation.what}: {deviation.actual}; the standard: {deviation.standard} ({deviation.clause})"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
