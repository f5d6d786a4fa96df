"""Calibrates the host: what its engine does on a target that costs nothing, before the run and never on the drive.

The null target is ``/dev/null``: real system calls by the run's own fio engine, threads, queue depth, block size and
random data.  Reads go there too, as writes whose buffers nobody fills: no character device answers a read but by
writing the bytes with a CPU, which a drive does by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ToolMissing
from ...model.host_ceiling import Ceiling, Shape, all_shapes
from ...model.steps import Stimulus
from ...units import duration
from .. import fio
from ..fio.engine import stimulus_seed
from ..process import program as process

_SHAPE_SECONDS = 0.25
#: What fio costs around the I/O of a shape (bench/gap.py).
_OVERHEAD_SECONDS = 0.25
#: Of the time that a test takes at least.
_SHARE = 0.01
#: Room for the threads' blocks; nothing is kept of what is written.
_BLOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How a host is calibrated for a run: with the engine and the random data that the run has."""

    io_engine: fio.IoEngine
    refill: bool
    seed: int
    evidence: Path
    fixed_buffers: bool = False

    def ceilings(
        self, stimuli: Sequence[Stimulus], test_seconds: float, say: Callable[[str], None] = lambda _: None
    ) -> tuple[Ceiling, ...]:
        """Return a ceiling for each shape of ``stimuli``; none for a test so short that it would be felt.

        A shape whose run is not believed is left out.  ``say`` is told what is begun.
        """
        shapes = all_shapes(stimuli)
        seconds = calibration_seconds(shapes)
        if seconds > _SHARE * test_seconds:
            return ()
        say(f"calibrating the host, without the drive: about {duration(seconds)}")
        found = (self._ceiling(number, shape) for number, shape in enumerate(shapes, start=1))
        return tuple(each for each in found if each is not None)

    def _ceiling(self, number: int, shape: Shape) -> Ceiling | None:
        asked = null_stimulus(shape)
        seed = stimulus_seed(self.seed, -number)
        job = self.evidence / f"00000-ceiling-{number:03d}-{shape.side}.fio"
        text = fio.null_job_file(
            asked,
            self.io_engine,
            seed,
            fill=shape.side == "write",
            refill=self.refill,
            fixed_buffers=self.fixed_buffers,
        )
        with fio.JobFiles(job, text, replace=True) as files:
            try:
                limit = fio.timeout_seconds(asked)
                finished = process.run(fio.command(job), evidence=job, timeout_seconds=limit, inherited=files.inherited)
                answer = files.answer().decode("utf-8", "replace")
                read, write = fio.accept(asked, finished.exit_code, finished.timed_out, answer)
            except (OSError, fio.AnswerRejected, ToolMissing):
                return None
        used = fio.engine_cpu_percent(answer)
        return Ceiling(shape=shape, iops=read.iops + write.iops, engine_cpu_percent=used) if used else None


def calibration_seconds(shapes: Sequence[Shape]) -> float:
    """Return how long the calibration of ``shapes`` takes, about."""
    return len(shapes) * (_SHAPE_SECONDS + _OVERHEAD_SECONDS)


def null_stimulus(shape: Shape) -> Stimulus:
    """Return the stimulus that is run on the null target for a shape."""
    sizes = 4096 if shape.block_size_bytes is None else shape.block_size_bytes
    largest = sizes if isinstance(sizes, int) else max(share.size_bytes for share in sizes)
    return Stimulus(
        access=shape.access,
        read_percent=0,
        block_size_bytes=sizes,
        thread_count=shape.thread_count,
        queue_depth=shape.queue_depth,
        range_offset_bytes=0,
        range_bytes=_BLOCKS * largest * shape.thread_count * shape.queue_depth,
        seconds=_SHAPE_SECONDS,
    )
