"""The figures of warnings once more, by the second implementation, from runs that were disturbed on purpose.

The simulated drive is disturbed: I/Os stall, points take longer, mixes deviate, the host's clock is set, counters of
the kernel differ, and more. Every number in the text of a warning must be the recomputed one within half of its last
digit, and a warning must be there exactly where the second implementation of its rule requires it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snia_pts.cli.main import main
from snia_pts.lab.simulated import laboratory
from snia_pts.lab.simulated.laboratory import SimulatedLaboratory
from snia_pts.lab.simulated.responses import _UPPER
from snia_pts.model.attempt import RejectedAttempt
from snia_pts.model.measurement import Measurement, Sample
from snia_pts.model.telemetry import BlockStatistics, ProcessIo, TelemetrySample
from tests.recomputation.printed import printed_tables
from tests.recomputation.tables import check_cells

pytestmark = pytest.mark.usefixtures("without_figures")

#: Each test with its settings, and the warnings that it must have.
_RUNS: dict[str, tuple[Sequence[str], set[str]]] = {
    "iops": (
        ("rounds.point_seconds=5", "rounds.maximum=5"),
        {
            "clock",
            "pause",
            "fio's clock",
            "fio restarted",
            "fio's message",
            "point duration",
            "threads apart",
            "long I/Os",
            "remeasured",
            "uncounted I/Os",
            "R/W mix",
            "other I/O on the drive",
            "other processes",
            "other I/O while idle",
            "stolen CPU time",
            "CPU throttling",
            "PCIe errors",
        },
    ),
    "throughput": (("rounds.point_seconds=0.1", "rounds.maximum=5"), {"too short for a rate"}),
    "wsat": (("saturation.seconds=21600",), {"samples", "long samples"}),
    "hir": (("wait_states.cycles=20",), {"idle time"}),
}


class _Disturbance:
    """The changes of a simulated drive's measurements; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.dice, self.idle_dice, self.message_dice, self.process_dice = (random.Random(seed) for _ in range(4))

    def measurement(self, original: Callable[..., Measurement]) -> Callable[..., Measurement]:
        """Return a replacement of the laboratory's method that makes a measurement of the drive's outcome."""

        def disturbed(lab: Any, stimulus: Any, result: Any, started_ns: int) -> Measurement:
            if stimulus.seconds and self.chance():
                late = self.dice.uniform(0.06, 1.5) * stimulus.seconds
                lab._advance(late)
                result.seconds += late
            if stimulus.seconds == 0.1 and self.dice.random() < 0.5:
                result.seconds *= self.dice.uniform(0.5, 0.9)
            if self.chance():  # the host is suspended before the point
                pause = self.dice.uniform(2, 300)
                lab._advance(pause)
                started_ns += round(1e9 * pause)
            if self.chance():  # fio's clock is slow
                lab._advance(self.dice.uniform(1, 20))
            if self.chance() and 0 < stimulus.read_percent < 100:
                result.write.merge(replace(result.write, counts=result.write.counts.copy()))
            if self.chance():
                self.stall(result.write if result.write.ios else result.read)
            done = original(lab, stimulus, result, started_ns)
            return replace(done, **self.observed(lab, done))

        return disturbed

    def chance(self) -> bool:
        return self.dice.random() < 0.05

    def stall(self, tally: Any) -> None:
        nanoseconds = self.dice.uniform(2.5e9, 16e9)
        tally.counts[int(np.searchsorted(_UPPER, nanoseconds))] += 1
        tally.ios += 1
        tally.sum_ns += nanoseconds

    def observed(self, lab: Any, done: Measurement) -> dict[str, Any]:
        """Return the observations of clocks, counters and engine for an answer."""
        changes: dict[str, Any] = {"telemetry": self.telemetry(done)}
        timing: dict[str, Any] = {"thread_spread_ms": self.dice.uniform(0, 400) if self.chance() else 0.5}
        if self.chance():
            timing["clock_set_seconds"] = self.dice.uniform(-4000, 4000)
        if self.chance():
            timing["engine_restarted"] = True
        if self.idle_dice.random() < 0.05:
            idle_bytes = self.idle_dice.randint(9 * 10**6, 10**10)
            timing |= {"idle_ios": self.idle_dice.randint(2, 9000), "idle_bytes": idle_bytes}
        if self.chance():
            name, digest = lab._write_evidence("rejected", {"jobs": []})
            seconds = self.dice.uniform(0.1, 200)
            attempt = RejectedAttempt(reason="no answer", seconds=seconds, evidence=name, evidence_sha256=digest)
            changes["rejected"] = (attempt,)
        if self.chance():
            changes["uncounted_ios"] = self.dice.randint(1, 200)
        if self.message_dice.random() < 0.05:
            kind, number = self.message_dice.choice("abcdefg"), self.message_dice.randint(1, 99)
            changes["engine_messages"] = (f"fio: message {kind} about descriptor {number}",)
        return changes | {"timing": replace(done.timing, **timing)}

    def telemetry(self, done: Measurement) -> TelemetrySample:
        moved = [done.read.transferred_bytes, done.write.transferred_bytes]
        excess = round(moved[1] * self.dice.uniform(0, 3)) if self.chance() else 0
        return TelemetrySample(
            seconds=done.runtime_ms / 1000,
            cpu_percent=20.0,
            busiest_cpu_percent=50.0,
            block=_block(moved[0], moved[1] + excess),
            celsius=40.0,
            throttlings=self.dice.randint(1, 9) if self.chance() else 0,
            link_errors=self.dice.randint(1, 9) if self.chance() else 0,
            stolen_percent=self.dice.uniform(0, 99) if self.chance() else 0.0,
            processes=tuple(self.processes()),
        )

    def processes(self) -> Iterator[ProcessIo]:
        for name in ("rsync", "[kworker/0:1]", "borg"):
            if self.process_dice.random() < 0.7:
                sizes = [self.process_dice.randint(0, 3 * 10**9) for _ in range(2)]
                yield ProcessIo(pid=str(len(name)), name=name, read_bytes=sizes[0], written_bytes=sizes[1])

    def sample(self, original: Callable[..., Sample]) -> Callable[..., Sample]:
        """Return a replacement of the function that makes samples: some last long, for some the kernel counts more."""

        def disturbed(*facts: Any) -> Sample:
            made = original(*facts)
            counted = made.write_bytes * self.dice.choice((0.7, 1.3)) if self.chance() else made.write_bytes
            # A long sample is no round. The evaluated samples are unchanged, because without one there is no window.
            judged = made.number % 30 in (0, 1)
            seconds = made.seconds * self.dice.uniform(1.6, 3) if self.chance() and not judged else made.seconds
            reading = TelemetrySample(
                seconds=made.seconds,
                cpu_percent=20.0,
                busiest_cpu_percent=50.0,
                block=_block(made.read_bytes, round(counted)),
                celsius=40.0,
                throttlings=0,
                link_errors=0,
            )
            slow = self.dice.uniform(1.5, 2) if self.chance() and not judged else 1.0
            return replace(
                made, telemetry=reading, seconds=seconds, average_response_us=slow * made.average_response_us
            )

        return disturbed

    def idle(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a replacement of an idle time: some are longer, some shorter."""

        def disturbed(lab: Any, step: Any) -> Any:
            done = original(lab, step)
            if self.chance():
                lab._advance(self.dice.uniform(-0.5, 2.5) * step.seconds)
            return done

        return disturbed


def _block(read_bytes: int, write_bytes: int) -> BlockStatistics:
    return BlockStatistics(
        read_ios=read_bytes // 4096,
        write_ios=write_bytes // 4096,
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        queue=1.0,
        busy_percent=99.0,
    )


@pytest.mark.parametrize("test", _RUNS)
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_figures_of_warnings_are_those_of_the_record(
    test: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of warning is there, with the recomputed figures."""
    settings, required = _RUNS[test]
    disturbance = _Disturbance(seed)
    monkeypatch.setattr(SimulatedLaboratory, "_measurement", disturbance.measurement(SimulatedLaboratory._measurement))
    monkeypatch.setattr(SimulatedLaboratory, "_idle", disturbance.idle(SimulatedLaboratory._idle))
    monkeypatch.setattr(laboratory, "_sample", disturbance.sample(laboratory._sample))
    changed = [part for setting in settings for part in ("--set", setting)]
    run = tmp_path / "run"
    options = ("--run-dir", str(run), "--seed", str(seed), "--to", "csv,rst", "--progress", "none")
    assert main([test, "sim:enterprise-nvme", *options, *changed]) == 0
    (warnings,) = (table for table in printed_tables(run) if table.name == "Warnings")
    assert required <= {what for what, _ in warnings.body}
    check_cells(run)
