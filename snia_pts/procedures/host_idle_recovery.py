"""Host idle recovery test (PTS 2.0.2 chapter 11).

Random writes, from steady state on, interrupted by idle times of increasing length::

    Purge
    PC: RND 4 KiB 0/100 continuously, in samples of 1 minute,
        until samples 1, 31, 61, 91, 121, ... are steady over the last 5 of them, at most 25
    for idle in 5, 10, 15, 25, 50 s:
        360 times:
            Access A: RND 4 KiB 0/100, 5 s
            Access B: no host I/O at all for the idle time
        Access C: RND 4 KiB 0/100 continuously, 30 minutes, in samples of 5 s (return to baseline)
"""

from __future__ import annotations

from dataclasses import replace

from ..model.dut import Dut
from ..model.steps import ContinuousStimulus, Idle, Purge
from ..spec import HostIdleSpec
from .protocol import Procedure, run_continuous
from .ranges import pattern_stimulus
from .sampled_steady_state import run_until_steady


def host_idle_recovery(spec: HostIdleSpec, dut: Dut) -> Procedure[None]:
    """Yield the steps of the host idle recovery test of ``dut``.

    Raises TargetUnfit before the first step if ``dut`` cannot run the stimulus.
    """
    setup, waits = spec.setup, spec.wait_states
    writes = pattern_stimulus(
        spec.pattern,
        dut,
        setup.active_range_percent,
        read_percent=spec.pattern.read_percent,
        thread_count=setup.thread_count,
        queue_depth=setup.queue_depth,
        seconds=waits.access_a_seconds,
    )
    yield Purge()
    rule = spec.settling
    yield from run_until_steady(writes, rule, phase="PC", max_samples=rule.samples(spec.conditioning.maximum))
    for idle_seconds in waits.idle_seconds:
        state = wait_state(spec, idle_seconds)
        for _ in range(waits.cycles):
            yield from run_continuous(ContinuousStimulus(part=state, phase="access A", stimulus=writes))
            yield Idle(part=state, seconds=idle_seconds)
        baseline = replace(writes, seconds=waits.access_c_seconds)
        sample_seconds = waits.access_c_sample_seconds
        yield from run_continuous(
            ContinuousStimulus(part=state, phase="access C", stimulus=baseline, sample_seconds=sample_seconds)
        )


def wait_state(spec: HostIdleSpec, idle_seconds: float) -> str:
    """Return a wait state's name, ``Wait State 10``: idle time divided by write time, as in the standard."""
    return f"Wait State {idle_seconds / spec.wait_states.access_a_seconds:g}"
