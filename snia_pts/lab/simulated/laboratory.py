"""Perform steps on a simulated drive in virtual time, and write evidence in the form of fio's answers."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ... import __version__
from ...errors import DeviceFailed, HostFailed, PurgeFailed
from ...files import create_file
from ...model.health import Health, HealthValue
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
from ...model.telemetry import PowerReadings, TelemetrySample
from ..fio.seeds import stimulus_seed
from .drive import SimulatedDrive, SimulatedFault, Slice
from .preset import Preset
from .responses import Tally

_PURGE_SECONDS = 20.0
_SAMPLE_BLOCKS = 64
#: The unit in which the simulated drive counts, and the name of its log.
_DATA_UNIT, _LOG = 512_000, "simulated log"
_FAULT_HINT = "Earlier measurements are saved in the run folder."


class SimulatedLaboratory:
    """A simulated drive with its own clock, which starts at ``started`` and advances only with the test's steps."""

    name = "simulation"
    version = __version__
    io_engine = "virtual time"

    def __init__(self, preset: Preset, *, seed: int, evidence: Path, started: datetime) -> None:
        self._drive = SimulatedDrive(preset, seed)
        self._preset = preset
        self._seed = seed
        self._evidence = evidence
        # The journal stores the start of a run in whole milliseconds.
        self._started = started.replace(microsecond=started.microsecond // 1000 * 1000)
        self._clock_ns = 0
        self._ended_ns: int | None = None
        self._count = 0
        self._max_celsius = self._drive.celsius
        self._recalling = False

    def now(self) -> datetime:
        """Return the time of the simulation."""
        return self._started + timedelta(microseconds=self._clock_ns / 1000)

    def read_health(self) -> Health | None:
        """Return the drive's log, which counts in NVMe's units of 512 000 bytes; None without sensors."""
        drive = self._drive
        if self._preset.sensors is None:
            return None
        units = tuple(count // _DATA_UNIT * _DATA_UNIT for count in (drive.written_bytes, drive.programmed_bytes))
        figures = (
            HealthValue(name="Temperature", value=float(round(drive.celsius)), unit="°C", source=_LOG),
            HealthValue(name="Data Units Written", value=units[0], unit="bytes", source=_LOG, role="host written"),
            HealthValue(
                name="Physical Media Units Written", value=units[1], unit="bytes", source=_LOG, role="media written"
            ),
        )
        return Health(read_at=self._timestamp(), figures=figures, unread=(), evidence=())

    def perform(self, step: Step) -> Iterator[Outcome]:
        """Perform a step and yield each outcome; raises PurgeFailed or DeviceFailed where the preset has a fault."""
        match step:
            case Purge():
                yield self._purge(step)
            case Idle():
                yield self._idle(step)
            case Round():
                for stimulus in step.stimuli:
                    yield self._measure(step, stimulus)
            case ContinuousStimulus():
                yield from self._measure_continuous(step)

    def recall(self, step: Step, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Repeat a step that was performed before the run was interrupted, as a simulated drive's state is not saved.

        Raises HostFailed if the outcomes differ from the recorded ones.
        """
        self._recalling = True
        try:
            for recorded, repeated in zip(outcomes, self.perform(step), strict=False):
                if repeated != _without_interruptions(recorded):
                    raise HostFailed(
                        step=step.label,
                        what=self._preset.drive.model,
                        reason="the simulated drive does not reproduce the recorded outcomes",
                        hint="Its preset or the suite was changed. Start a new run.",
                    )
                yield recorded
        finally:
            self._recalling = False

    def _purge(self, step: Purge) -> PurgeOutcome:
        if not self._drive.purge():
            reason = (
                f"reported success, but {_SAMPLE_BLOCKS} of {_SAMPLE_BLOCKS} sample blocks survived "
                "(faults.purge_keeps_data)"
            )
            raise PurgeFailed(
                path=self._preset.drive.model, method="simulated format", reason=reason, hint="Nothing was measured."
            )
        started = self._timestamp()
        self._advance(_PURGE_SECONDS)
        self._ended_ns = None
        name = self._write_evidence("purge", {"step": step.label, "survivors": 0, "samples": _SAMPLE_BLOCKS})[0]
        return PurgeOutcome(
            method="simulated format",
            samples=_SAMPLE_BLOCKS,
            survivors=0,
            started=started,
            seconds=_PURGE_SECONDS,
            evidence=name,
        )

    def _idle(self, step: Idle) -> IdleOutcome:
        started = self._timestamp()
        self._drive.idle(step.seconds)
        self._advance(step.seconds)
        return IdleOutcome(started=started, seconds=step.seconds)

    def _measure(self, step: Step, stimulus: Stimulus) -> Measurement:
        started_ns = self._clock_ns
        self._start(stimulus)
        if stimulus.ramp_seconds:
            self._run(step, stimulus, stimulus.ramp_seconds, float("inf"))
        seconds = stimulus.seconds if stimulus.seconds is not None else float("inf")
        max_bytes = stimulus.amount_bytes or stimulus.limit_bytes
        result = self._run(step, stimulus, seconds, float("inf") if max_bytes is None else max_bytes)
        return self._measurement(stimulus, result, started_ns)

    def _measure_continuous(self, step: ContinuousStimulus) -> Iterator[Outcome]:
        if not step.samples:
            yield self._measure(step, step.stimulus)
            return
        started_ns, stimulus = self._clock_ns, step.stimulus
        self._start(stimulus)
        total = Slice(0.0, Tally(), Tally())
        remaining_bytes = float("inf") if stimulus.limit_bytes is None else float(stimulus.limit_bytes)
        for number in range(1, step.samples + 1):
            seconds = min(step.sample_seconds or 0.0, (stimulus.seconds or 0.0) - total.seconds)
            result = self._run(step, stimulus, seconds, remaining_bytes)
            total.seconds += result.seconds
            total.read.merge(result.read)
            total.write.merge(result.write)
            remaining_bytes -= result.read.transferred_bytes + result.write.transferred_bytes
            yield _sample(number, total.seconds, result, self._telemetry(result, self._drive.celsius))
            if remaining_bytes <= 0:
                break
        yield self._measurement(stimulus, total, started_ns)

    def _run(self, step: Step, stimulus: Stimulus, seconds: float, max_bytes: float) -> Slice:
        try:
            result = self._drive.run(stimulus, seconds, max_bytes)
        except SimulatedFault as fault:
            reason = (
                "simulated hang (faults.hang_after_bytes)"
                if fault.hangs
                else f"simulated error 5, {fault} (faults.error_after_bytes)"
            )
            raise DeviceFailed(step=step.label, what=stimulus.label, reason=reason, hint=_FAULT_HINT) from fault
        self._advance(result.seconds)
        self._max_celsius = max(self._max_celsius, self._drive.celsius)
        return result

    def _start(self, stimulus: Stimulus) -> None:
        self._drive.start(stimulus)
        self._max_celsius = self._drive.celsius

    def _measurement(self, stimulus: Stimulus, result: Slice, started_ns: int) -> Measurement:
        if stimulus.amount_bytes is not None:  # The last block may be partial.
            side = result.write if stimulus.read_percent == 0 else result.read
            side.transferred_bytes = stimulus.amount_bytes
        runtime_ms = round(1000 * result.seconds)
        sides = {"read": _transfers(result.read, runtime_ms), "write": _transfers(result.write, runtime_ms)}
        evidence, digest = self._write_evidence(f"{stimulus.access.lower()}", _fio_answer(stimulus, sides, result))
        idle_ns = None if self._ended_ns is None else started_ns - self._ended_ns
        self._ended_ns = self._clock_ns
        return Measurement(
            stimulus=stimulus,
            seed=stimulus_seed(self._seed, self._count),
            read=sides["read"],
            write=sides["write"],
            timing=Timing(
                started=(self._started + timedelta(microseconds=started_ns / 1000)).isoformat(timespec="milliseconds"),
                started_monotonic_ns=started_ns,
                ended_monotonic_ns=self._clock_ns,
                suite_gap_us=None if idle_ns is None else 0.0,
                idle_gap_ms=None if idle_ns is None else idle_ns / 1e6,
            ),
            evidence=evidence,
            evidence_sha256=digest,
            telemetry=self._telemetry(result, self._max_celsius),
            stream_bytes=stimulus.even_streams(sides["read"].transferred_bytes + sides["write"].transferred_bytes),
        )

    def _telemetry(self, result: Slice, celsius: float) -> TelemetrySample | None:
        """Return the temperature in whole degrees, as drives report it, and the power; None if the drive has neither.

        The power is a reading of the model.
        """
        power = self._preset.power
        if math.isnan(celsius) and power is None:
            return None
        read, write = result.read, result.write
        return TelemetrySample(
            seconds=result.seconds,
            cpu_percent=None,
            busiest_cpu_percent=None,
            block=None,
            celsius=None if math.isnan(celsius) else float(round(celsius)),
            throttlings=None,
            link_errors=None,
            power=PowerReadings(
                source="simulated power",
                watts=power.watts(
                    result.seconds, read.ios + write.ios, read.transferred_bytes, write.transferred_bytes
                ),
                readings=1,
            )
            if power
            else None,
        )

    def _write_evidence(self, what: str, content: dict[str, Any]) -> tuple[str, str]:
        """Write the drive's answer as evidence; return its name and checksum."""
        self._count += 1
        name = f"{self._count:05d}-{what}"
        raw = json.dumps({"simulated": self._preset.drive.model, **content}).encode()
        if not self._recalling:
            create_file(self._evidence / f"{name}.json", raw, replace=True)
        return name, hashlib.sha256(raw).hexdigest()

    def _advance(self, seconds: float) -> None:
        self._clock_ns += round(1e9 * seconds)

    def _timestamp(self) -> str:
        return self.now().isoformat(timespec="milliseconds")


def _without_interruptions(outcome: Outcome) -> Outcome:
    """Return an outcome as in a run that was never interrupted."""
    if isinstance(outcome, Measurement):
        return replace(outcome, timing=replace(outcome.timing, interruptions=0))
    return replace(outcome, interruptions=0) if isinstance(outcome, Sample) else outcome


def _sample(number: int, ended_seconds: float, result: Slice, telemetry: TelemetrySample | None) -> Sample:
    both = Tally()
    both.merge(result.read)
    both.merge(result.write)
    three, four, five = (both.percentile_us(percent) for percent in NINES)
    return Sample(
        number=number,
        ended_seconds=ended_seconds,
        seconds=result.seconds,
        read_ios=result.read.ios,
        write_ios=result.write.ios,
        read_bytes=result.read.transferred_bytes,
        write_bytes=result.write.transferred_bytes,
        average_response_us=both.mean_ns / 1000,
        maximum_response_us=both.extremes_ns[1] / 1000,
        three_nines_us=three,
        four_nines_us=four,
        five_nines_us=five,
        telemetry=telemetry,
    )


def _transfers(tally: Tally, runtime_ms: int) -> Transfers:
    if not tally.ios:
        return NO_TRANSFERS
    minimum_ns, maximum_ns = tally.extremes_ns
    return Transfers(
        ios=tally.ios,
        transferred_bytes=tally.transferred_bytes,
        runtime_ms=runtime_ms,
        response_min_ns=minimum_ns,
        response_mean_ns=tally.mean_ns,
        response_max_ns=maximum_ns,
        histogram=Histogram(counted=",".join(f"{edge} {count}" for edge, count in tally.bins.items())),
    )


def _fio_answer(stimulus: Stimulus, sides: dict[str, Transfers], result: Slice) -> dict[str, Any]:
    """Return the answer in the form that fio would give."""
    tallies = {"read": result.read, "write": result.write}
    job = {
        side: {
            "total_ios": transfers.ios,
            "io_bytes": transfers.transferred_bytes,
            "runtime": transfers.runtime_ms,
            "lat_ns": {
                "min": transfers.response_min_ns,
                "max": transfers.response_max_ns,
                "mean": transfers.response_mean_ns,
                "bins": tallies[side].bins,
            },
        }
        for side, transfers in sides.items()
    }
    return {"stimulus": stimulus.label, "jobs": [{"jobname": stimulus.label, "error": 0, **job}]}
