"""Precondition the members of an array with sequential writes over each, all members concurrently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import DeviceFailed, HostFailed
from ...files import make_folder
from ...lab import fio
from ...lab.device.target_claim import Target
from ...lab.fio.engine import FioEngine, side_by_side
from ...lab.fio.probe import choose_io_engine, exact_io_engines, fio_version
from ...lab.fio.seeds import stimulus_seed
from ...lab.process.program import Tick
from ...model.steps import Stimulus
from ...units import KIB

_BLOCK_BYTES = 128 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditioning:
    """Overwrites each member ``passes`` times, with the first usable one of ``io_engines``."""

    passes: int
    thread_count: int
    queue_depth: int
    io_engines: Sequence[fio.IoEngine]
    refill: bool = False

    def write(self, members: Sequence[Target], seed: int, evidence: Path, tick: Tick | None) -> None:
        """Overwrite all members concurrently; each has an evidence folder named after the base name ``evidence``.

        Raises DeviceFailed or HostFailed if fio's result is rejected.
        """
        engines, stimuli = [], []
        for number, target in enumerate(members, start=1):
            folder = evidence.with_name(f"{evidence.name}-member{number}-wipc")
            make_folder(folder)
            path, sector = target.dut.path, target.dut.logical_sector_bytes
            version = fio_version(folder)
            io_engines = exact_io_engines(self.io_engines, [self._stimulus(target)])
            io_engine = choose_io_engine(path, sector, folder, io_engines, version, target.descriptor)
            engine = FioEngine(
                path,
                folder,
                seed=stimulus_seed(seed, number),
                io_engine=io_engine,
                version=version,
                refill=self.refill,
                tick=tick,
                descriptor=target.descriptor,
            )
            engines.append(engine)
            stimuli.append(self._stimulus(target))
        paths = ", ".join(target.dut.path for target in members)
        try:
            side_by_side(engines, stimuli)
        except fio.AnswerRejected as error:
            error_class = DeviceFailed if error.blame == "device" else HostFailed
            raise error_class(step="preconditioning of the members", what=paths, reason=error.reason) from error

    def _stimulus(self, target: Target) -> Stimulus:
        return Stimulus(
            access="SEQ",
            read_percent=0,
            block_size_bytes=_BLOCK_BYTES,
            thread_count=self.thread_count,
            queue_depth=self.queue_depth,
            range_offset_bytes=0,
            range_bytes=target.dut.capacity_bytes // _BLOCK_BYTES * _BLOCK_BYTES,
            passes=self.passes,
        )
