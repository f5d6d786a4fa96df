"""The laboratory in virtual time: performs steps on a simulated drive, and leaves the evidence that fio would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import DeviceFailed, HostFailed, PurgeFailed
from ...files import create_file
from ...model.dut import Dut
from ...model.histogram import Histogram
from ...model.measurement import (
    NINES,
    NO_TRANSFERS,
    IdleOutcome,
    Measurement,
    Outcome,
    PurgeOutcome,
    Sample,
    Timing,
    Transfers,
)
from ...model.steps import ContinuousStimulus, Idle, Purge, Round, Step, Stimulus
from ..fio.engine import stimulus_seed
from .drive import SimulatedDrive, SimulatedFault, Slice
from .preset import Preset
from .responses import Tally

_PURGE_SECONDS = 20.0
_PROVED_BLOCKS = 64
_KEPT = "What was measured before is kept in the run folder."


class SimulatedLaboratory:
    """A simulated drive with a clock of its own, which begins at ``began`` and only tests move on."""

    name = "simulation"
    version = __version__
    io_engine = "virtual time"

    def __init__(self, preset: Preset, *, seed: int, evidence: Path, began: datetime) -> None:
        self._drive = SimulatedDrive(preset, seed)
        self._preset = preset
        self._seed = seed
        self._evidence = evidence
        self._began = began.replace(microsecond=began.microsecond // 1000 * 1000)  # as a run's facts tell it
        self._clock_ns = 0
        self._ended_ns: int | None = None
        self._count = 0
        self._recalling = False

    def now(self) -> datetime:
        """Return the time of the simulation."""
        return self._began + timedelta(microseconds=self._clock_ns / 1000)

    def perform(self, step: Step) -> Iterator[Outcome]:
        """Perform a step, giving each outcome as it comes; raises PurgeFailed or DeviceFailed where a fault is set."""
        match step:
            case Purge():
                yield self._purge(step)
            case Idle():
                yield self._idle(step)
            case Round():
                for stimulus in step.stimuli:
                    yield self._whole(step, stimulus)
            case ContinuousStimulus():
                yield from self._stretch(step)

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Do once more what was done before the run was interrupted: a simulated drive forgets with its process.

        Raises HostFailed where the drive does not answer as it did.
        """
        self._recalling = True
        try:
            for recorded, again in zip(outcomes, self.perform(step), strict=False):
                if again != _first_time(recorded):
                    raise HostFailed(
                        step=step.label,
                        what=self._preset.drive.model,
                        reason="the simulated drive does not answer as it did when the run began",
                        hint="Its preset was changed, or the suite. Begin a new run.",
                    )
                yield recorded
        finally:
            self._recalling = False

    def _purge(self, step: Purge) -> PurgeOutcome:
        if not self._drive.purge():
            reason = f"is a lie: {_PROVED_BLOCKS} of {_PROVED_BLOCKS} blocks are still there, as faults.* wants it"
            raise PurgeFailed(
                path=self._preset.drive.model, method="simulated format", reason=reason, hint="Nothing was measured."
            )
        started = self._stamp()
        self._advance(_PURGE_SECONDS)
        self._ended_ns = None
        name = self._keep("purge", {"step": step.label, "survivors": 0, "samples": _PROVED_BLOCKS})[0]
        return PurgeOutcome(
            method="simulated format",
            samples=_PROVED_BLOCKS,
            survivors=0,
            started=started,
            seconds=_PURGE_SECONDS,
            evidence=name,
        )

    def _idle(self, step: Idle) -> IdleOutcome:
        started = self._stamp()
        self._drive.idle(step.seconds)
        self._advance(step.seconds)
        return IdleOutcome(started=started, seconds=step.seconds)

    def _whole(self, step: Step, stimulus: Stimulus) -> Measurement:
        began_ns = self._clock_ns
        self._drive.begin(stimulus)
        if stimulus.ramp_seconds:
            self._run(step, stimulus, stimulus.ramp_seconds, float("inf"))
        seconds = stimulus.seconds if stimulus.seconds is not None else float("inf")
        most = stimulus.amount_bytes or stimulus.limit_bytes
        done = self._run(step, stimulus, seconds, float("inf") if most is None else most)
        return self._measurement(stimulus, done, began_ns)

    def _stretch(self, step: ContinuousStimulus) -> Iterator[Outcome]:
        if not step.samples:
            yield self._whole(step, step.stimulus)
            return
        began_ns, stimulus = self._clock_ns, step.stimulus
        self._drive.begin(stimulus)
        total = Slice(0.0, Tally(), Tally())
        left = float("inf") if stimulus.limit_bytes is None else float(stimulus.limit_bytes)
        for number in range(1, step.samples + 1):
            seconds = min(step.sample_seconds or 0.0, (stimulus.seconds or 0.0) - total.seconds)
            done = self._run(step, stimulus, seconds, left)
            total.seconds += done.seconds
            total.read.join(done.read)
            total.write.join(done.write)
            left -= done.read.transferred_bytes + done.write.transferred_bytes
            yield _sample(number, total.seconds, done)
            if left <= 0:
                break
        yield self._measurement(stimulus, total, began_ns)

    def _run(self, step: Step, stimulus: Stimulus, seconds: float, most_bytes: float) -> Slice:
        try:
            done = self._drive.run(stimulus, seconds, most_bytes)
        except SimulatedFault as fault:
            reason = "no answer, and the simulated drive will give none" if fault.hangs else f"error 5, {fault}"
            raise DeviceFailed(
                step=step.label, what=stimulus.label, reason=f"{reason}, as faults.* wants it", hint=_KEPT
            ) from fault
        self._advance(done.seconds)
        return done

    def _measurement(self, stimulus: Stimulus, done: Slice, began_ns: int) -> Measurement:
        if stimulus.amount_bytes is not None:  # the last block may be a part of one
            side = done.write if stimulus.read_percent == 0 else done.read
            side.transferred_bytes = stimulus.amount_bytes
        runtime_ms = round(1000 * done.seconds)
        sides = {"read": _transfers(done.read, runtime_ms), "write": _transfers(done.write, runtime_ms)}
        evidence, digest = self._keep(f"{stimulus.access.lower()}", _as_fio(stimulus, sides, done))
        idle_ns = None if self._ended_ns is None else began_ns - self._ended_ns
        self._ended_ns = self._clock_ns
        return Measurement(
            stimulus=stimulus,
            seed=stimulus_seed(self._seed, self._count),
            read=sides["read"],
            write=sides["write"],
            timing=Timing(
                started=(self._began + timedelta(microseconds=began_ns / 1000)).isoformat(timespec="milliseconds"),
                started_monotonic_ns=began_ns,
                ended_monotonic_ns=self._clock_ns,
                own_gap_us=None if idle_ns is None else 0.0,
                idle_gap_ms=None if idle_ns is None else idle_ns / 1e6,
            ),
            evidence=evidence,
            evidence_sha256=digest,
            stream_bytes=stimulus.even_streams(sides["read"].transferred_bytes + sides["write"].transferred_bytes),
        )

    def _keep(self, what: str, content: dict[str, Any]) -> tuple[str, str]:
        """Keep what the drive did; return the evidence's name and checksum."""
        self._count += 1
        name = f"{self._count:05d}-{what}"
        raw = json.dumps({"simulated": self._preset.drive.model, **content}).encode()
        if not self._recalling:
            create_file(self._evidence / f"{name}.json", raw, replace=True)
        return name, hashlib.sha256(raw).hexdigest()

    def _advance(self, seconds: float) -> None:
        self._clock_ns += round(1e9 * seconds)

    def _stamp(self) -> str:
        return self.now().isoformat(timespec="milliseconds")


def _first_time(outcome: Outcome) -> Outcome:
    """Return an outcome as it would be in a run that was never interrupted."""
    if isinstance(outcome, Measurement):
        return replace(outcome, timing=replace(outcome.timing, interruptions=0))
    return replace(outcome, interruptions=0) if isinstance(outcome, Sample) else outcome


def simulated_dut(name: str, preset: Preset) -> Dut:
    """Return what a simulated drive says of itself."""
    drive = preset.drive
    return Dut(
        path=f"sim:{name}",
        kind="simulated",
        model=drive.model,
        serial=f"SIM-{Path(name).stem.upper()}"[:40],
        firmware=drive.firmware,
        bus=drive.bus,
        capacity_bytes=drive.capacity_bytes,
        logical_sector_bytes=drive.logical_sector_bytes,
        physical_sector_bytes=4096,
        rotational=drive.rotational,
        write_cache=drive.write_cache,
        discard=True,
        write_cache_source="simulated",
    )


def _sample(number: int, ended_seconds: float, done: Slice) -> Sample:
    both = Tally()
    both.join(done.read)
    both.join(done.write)
    three, four, five = (both.percentile_us(percent) for percent in NINES)
    return Sample(
        number=number,
        ended_seconds=ended_seconds,
        seconds=done.seconds,
        read_ios=done.read.ios,
        write_ios=done.write.ios,
        read_bytes=done.read.transferred_bytes,
        write_bytes=done.write.transferred_bytes,
        average_response_us=both.mean_ns / 1000,
        maximum_response_us=both.extremes_ns[1] / 1000,
        three_nines_us=three,
        four_nines_us=four,
        five_nines_us=five,
    )


def _transfers(tally: Tally, runtime_ms: int) -> Transfers:
    if not tally.ios:
        return NO_TRANSFERS
    least, greatest = tally.extremes_ns
    return Transfers(
        ios=tally.ios,
        transferred_bytes=tally.transferred_bytes,
        runtime_ms=runtime_ms,
        response_min_ns=least,
        response_mean_ns=tally.mean_ns,
        response_max_ns=greatest,
        histogram=Histogram(counted=",".join(f"{edge} {count}" for edge, count in tally.bins.items())),
    )


def _as_fio(stimulus: Stimulus, sides: dict[str, Transfers], done: Slice) -> dict[str, Any]:
    """Return what fio's answer to the stimulus would hold."""
    tallies = {"read": done.read, "write": done.write}
    job = {
        side: {
            "total_ios": each.ios,
            "io_bytes": each.transferred_bytes,
            "runtime": each.runtime_ms,
            "lat_ns": {
                "min": each.response_min_ns,
                "max": each.response_max_ns,
                "mean": each.response_mean_ns,
                "bins": tallies[side].bins,
            },
        }
        for side, each in sides.items()
    }
    return {"stimulus": stimulus.label, "jobs": [{"jobname": stimulus.label, "error": 0, **job}]}
