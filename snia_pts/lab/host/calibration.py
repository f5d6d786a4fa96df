"""Calibrate the host before the run: measure its I/O engine on a null target that takes no time, never on the drive.

The null target is ``/dev/null``, with real system calls by the run's fio engine, threads, queue depth, block size and
random data.  Reads are measured as writes with unfilled buffers: for a read from a character device, a CPU writes the
bytes, which a drive transfers by DMA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import SniaPtsError, ToolMissing
from ...model.host_ceiling import EVIDENCE_PREFIX, Ceiling, Shape, all_shapes
from ...model.steps import Stimulus
from ...units import duration
from .. import fio
from ..fio.probe import IO_ENGINES, fio_version
from ..fio.seeds import stimulus_seed

_SHAPE_SECONDS = 0.25
#: fio's overhead before and after the I/O of a shape (bench/gap.py).
_OVERHEAD_SECONDS = 0.25
#: The maximum share of a test's minimum duration.
_MAX_SHARE = 0.01
#: The range per thread and queue slot, in blocks; the null target stores nothing.
_RANGE_BLOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The calibration of a host for a run, with the run's ``version`` of fio, I/O engine and random data."""

    version: str
    io_engine: fio.IoEngine
    refill: bool
    seed: int
    evidence: Path
    fixed_buffers: bool = False

    def ceilings(
        self, stimuli: Sequence[Stimulus], test_seconds: float, report: Callable[[str], None] = lambda _: None
    ) -> tuple[Ceiling, ...]:
        """Return a ceiling for each shape of ``stimuli``; () if calibration would take too large a share of the test.

        A shape whose fio result is rejected is omitted.  ``report`` receives a message at the start.
        """
        shapes = all_shapes(stimuli)
        seconds = calibration_seconds(shapes)
        if seconds > _MAX_SHARE * test_seconds:
            return ()
        report(f"calibrating the host, without the drive: about {duration(seconds)}")
        ceilings = (self._ceiling(number, shape) for number, shape in enumerate(shapes, start=1))
        return tuple(ceiling for ceiling in ceilings if ceiling is not None)

    def _ceiling(self, number: int, shape: Shape) -> Ceiling | None:
        stimulus = null_stimulus(shape)
        seed = stimulus_seed(self.seed, -number)
        job = self.evidence / f"{EVIDENCE_PREFIX}{number:03d}-{shape.side}.fio"
        text = fio.null_job_file(
            stimulus,
            self.io_engine,
            seed,
            fill=shape.side == "write",
            refill=self.refill,
            fixed_buffers=self.fixed_buffers,
        )
        try:
            finished, answer = fio.run_job(job, text, fio.timeout_seconds(stimulus))
            read, write = fio.accept_finished(stimulus, finished, answer)
            fio.require_origin(text, answer, self.version)
            cpu_percent = fio.engine_cpu_percent(answer)
        except (OSError, fio.AnswerRejected, ToolMissing):
            return None
        if not cpu_percent:
            return None
        return Ceiling(shape=shape, iops=read.iops + write.iops, engine_cpu_percent=cpu_percent)


def engine_cost_us(evidence: Path) -> float | None:
    """Return the engine's CPU time for a random read of 4 KiB on the null target, in microseconds.

    None if fio is missing, too old, or its results are rejected.  Takes half a second.
    """
    stimulus = Stimulus(
        access="RND",
        read_percent=100,
        block_size_bytes=4096,
        thread_count=1,
        queue_depth=32,
        range_offset_bytes=0,
        range_bytes=4096,
        seconds=_SHAPE_SECONDS,
    )
    try:
        version = fio_version(evidence)
    except SniaPtsError:
        return None
    for io_engine in IO_ENGINES:
        calibration = Calibration(version=version, io_engine=io_engine, refill=False, seed=1, evidence=evidence)
        for ceiling in calibration.ceilings((stimulus,), math.inf):
            return ceiling.cost_us
    return None


def calibration_seconds(shapes: Sequence[Shape]) -> float:
    """Return approximately how long the calibration of ``shapes`` takes."""
    return len(shapes) * (_SHAPE_SECONDS + _OVERHEAD_SECONDS)


def null_stimulus(shape: Shape) -> Stimulus:
    """Return the stimulus of a shape for the null target."""
    block_size = 4096 if shape.block_size_bytes is None else shape.block_size_bytes
    max_bytes = block_size if isinstance(block_size, int) else max(share.size_bytes for share in block_size)
    return Stimulus(
        access=shape.access,
        read_percent=0,
        block_size_bytes=block_size,
        thread_count=shape.thread_count,
        queue_depth=shape.queue_depth,
        range_offset_bytes=0,
        range_bytes=_RANGE_BLOCKS * max_bytes * shape.thread_count * shape.queue_depth,
        seconds=_SHAPE_SECONDS,
    )
