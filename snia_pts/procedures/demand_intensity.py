"""Demand intensity (DIRTH, PTS 2.0.2 chapter 14) and composite workload (CBW, chapter 13; called ECW in PTS 1.1).

One access pattern at every Thread Count and Queue Depth, then its response times at three operating points::

    Purge
    PC: the pattern at R/W 0/100, T32Q32, continuously, in samples of 1 minute;
        evaluate samples 1, 31, 61, ...: stop when the last 5 evaluated samples are steady, or after 25 of them
    for round in 1..25:
        pre-write: the pattern at R/W 0/100, T32Q32, 5 minutes
        for (TC, QD) in {32, 16, 8, 6, 4, 2, 1} x {32, 16, 8, 6, 4, 2, 1}, by descending Total OIO:
            the pattern at its R/W mix, 1 minute
        stop when the IOPS at T32Q32 are steady over the last 5 rounds
    for operating point in Max IOPS, Mid IOPS, Min IOPS:
        pre-write: the pattern at R/W 0/100 at that TC and QD, 60 minutes
        the pattern at its R/W mix at that TC and QD, 10 minutes: response time histogram

The Max point is the lowest Total OIO with IOPS within 2 % of the highest IOPS.  The Mid point is the lowest Total OIO
with IOPS as close to the middle between Max and Min as the closest point, again within 2 %.  Both need an ART below the
limit.  The Min point is simply the lowest Total OIO (``analysis/operating_points.py``).
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.operating_points import demand_means, operating_points
from ..model.dut import Dut
from ..model.steps import ContinuousStimulus, Demand, Purge, Stimulus
from ..spec import DemandLoop, DemandSpec
from .protocol import Procedure, run_continuous
from .ranges import pattern_stimulus
from .rounds import rounds_until_steady
from .sampled_steady_state import run_until_steady


def demand_intensity(spec: DemandSpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of the demand intensity test, or the composite workload test, of ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run the pattern.
    """
    loop, rule, point_spec = spec.demand, spec.settling, spec.operating_points
    conditioning_demand = Demand(thread_count=spec.conditioning.thread_count, queue_depth=spec.conditioning.queue_depth)
    pattern = pattern_stimulus(
        spec.pattern,
        dut,
        spec.setup.active_range_percent,
        read_percent=spec.pattern.read_percent,
        thread_count=conditioning_demand.thread_count,
        queue_depth=conditioning_demand.queue_depth,
        seconds=loop.point_seconds,
    )
    conditioning_stimulus = replace(pattern, read_percent=spec.conditioning.read_percent)

    def pre_write(part: str, demand: Demand, seconds: float) -> ContinuousStimulus:
        stimulus = with_demand(replace(conditioning_stimulus, seconds=seconds), demand)
        return ContinuousStimulus(part=part, phase="pre-write", stimulus=stimulus, sample_seconds=rule.sample_seconds)

    yield Purge()
    yield from run_until_steady(
        conditioning_stimulus, rule, phase="PC", max_samples=rule.samples(spec.conditioning.maximum)
    )
    points = tuple(with_demand(pattern, demand) for demand in demand_order(loop))
    rounds, _ = yield from rounds_until_steady(
        lambda _: points,
        loop.maximum,
        spec.steady_state,
        pre_round=lambda number: pre_write(f"Round {number}", conditioning_demand, loop.pre_write_seconds),
    )
    for point in operating_points(demand_means(rounds), point_spec):
        yield from run_continuous(pre_write(point.name, point.demand, point_spec.pre_write_seconds))
        histogram_stimulus = with_demand(replace(pattern, seconds=point_spec.histogram_seconds), point.demand)
        yield from run_continuous(ContinuousStimulus(part=point.name, phase="histogram", stimulus=histogram_stimulus))


def with_demand(stimulus: Stimulus, demand: Demand) -> Stimulus:
    """Return ``stimulus`` with another Thread Count and Queue Depth."""
    return replace(stimulus, thread_count=demand.thread_count, queue_depth=demand.queue_depth)


def demand_order(loop: DemandLoop) -> tuple[Demand, ...]:
    """Return every combination of Thread Count and Queue Depth, in the order that the specification requires.

    ``total-oio`` sorts by descending Total OIO; for equal Total OIO, the higher Thread Count comes first.
    ``tc-major`` and ``qd-major`` loop over the two lists in the given order, with TC or QD as the outer loop.
    """
    pairs = [(threads, depth) for threads in loop.thread_counts for depth in loop.queue_depths]
    if loop.order == "qd-major":
        pairs = [(threads, depth) for depth in loop.queue_depths for threads in loop.thread_counts]
    demands = [Demand(thread_count=threads, queue_depth=depth) for threads, depth in pairs]
    if loop.order == "total-oio":
        demands.sort(key=lambda demand: (-demand.total_oio, -demand.thread_count))
    return tuple(demands)
