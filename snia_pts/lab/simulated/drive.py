"""Simulate a drive in virtual time: its speed and response times under a stimulus, and its state afterwards.

The flash translation layer supplies write amplification.  The slowest of medium, link, firmware and queue determines
the speed, and Little's law the response times.  ``docs/simulation.rst`` describes what is modelled and what is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import CopyableError
from ...model.steps import BlockShare, Stimulus
from ...units import KIB, MB
from .ftl import Ftl
from .preset import Preset
from .responses import LATEST, Shape, Tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNKS, _PAGES = 131_072, 512
#: A step writes at most this share of the capacity, so that the write amplification is updated often enough.
_STEP_SHARE = 0.004
#: How sharply the slowest part limits the rate: the exponent of a p-norm of rates.
_SHARPNESS = 5.0
#: The maximum share of the over-provisioning that idle time cleans.
_CLEAN_SHARE = 0.5
#: The share of a program operation on the same die that a read waits for; controllers suspend programs.
_PROGRAM_WAIT = 0.12
#: No late I/O takes much longer, in nanoseconds: hosts give up after 30 s, and the bins of response times end at 17 s.
_LATEST_NS = 12e9
#: A disk's gain from sorting its queue: positioning time over 1 + gain * log2(queue depth).
_SORTING = 0.3


class SimulatedFault(CopyableError):
    """The drive fails as configured in its preset; with ``hangs`` it never completes the I/O."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__("no answer" if hangs else "Input/output error")
        self.hangs = hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """The average cost of one I/O: time of a medium's unit, bytes, and response time on an otherwise idle drive."""

    read_unit_us: float
    write_unit_us: float
    bytes: float
    read_us: float
    write_us: float


@dataclass(slots=True)
class Slice:
    """The I/O result in a period of virtual time."""

    seconds: float
    read: Tally
    write: Tally


class SimulatedDrive:
    """A drive in virtual time; deterministic for a preset and seed."""

    def __init__(self, preset: Preset, seed: int) -> None:
        self.preset = preset
        self._random = np.random.default_rng(seed)
        media = preset.media
        self._flash = media.over_provisioning_percent > 0
        self._ftl = Ftl(_CHUNKS, _PAGES, max(1.0, media.over_provisioning_percent) / 100)
        self._chunk_bytes = preset.drive.capacity_bytes / _CHUNKS
        self._moved_bytes = self._written_bytes = 0.0
        self._drift_phase = 0.0
        self._programmed_bytes = 0.0
        self._celsius = preset.sensors.idle_celsius if preset.sensors else math.nan
        self._reset()

    def _reset(self) -> None:
        self._mapped = 0.0
        self._pending_chunks = 0.0
        self._clean_bytes = 0.0
        self._position = 0.0
        self._slc_bytes = self._slc_size

    @property
    def _slc_size(self) -> float:
        return self.preset.media.pseudo_slc_percent / 100 * self.preset.drive.capacity_bytes

    @property
    def write_amplification(self) -> float:
        """The current number of bytes programmed per byte written."""
        return self._ftl.write_amplification if self._flash else 1.0

    @property
    def written_bytes(self) -> float:
        """The bytes that the host has written, since the drive is new."""
        return self._written_bytes

    @property
    def programmed_bytes(self) -> float:
        """The bytes written on the media, by the host and by garbage collection, since the drive is new."""
        return self._programmed_bytes

    @property
    def celsius(self) -> float:
        """The temperature; nan without sensors."""
        return self._celsius

    def purge(self) -> bool:
        """Return to FOB, and return whether the data was erased."""
        if self.preset.faults.purge_keeps_data:
            return False
        self._ftl.purge()
        self._reset()
        return True

    def idle(self, seconds: float) -> None:
        """Let the drive clean blocks and empty its pseudo-SLC."""
        rate = self._program_bytes_per_second()
        if self._flash:
            spare = self.preset.media.over_provisioning_percent / 100 * self.preset.drive.capacity_bytes
            moved = seconds * rate / max(1.0, self.write_amplification)
            self._clean_bytes = min(_CLEAN_SHARE * spare, self._clean_bytes + moved)
        self._slc_bytes = min(self._slc_size, self._slc_bytes + seconds * rate / 2)
        self._warm(0.0, seconds)

    def _warm(self, load: float, seconds: float) -> None:
        """Let the temperature approach that of a ``load`` from 0 to 1."""
        if sensors := self.preset.sensors:
            final = sensors.idle_celsius + load * (sensors.busy_celsius - sensors.idle_celsius)
            self._celsius = final + (self._celsius - final) * math.exp(-seconds / sensors.settling_seconds)

    def run(self, stimulus: Stimulus, seconds: float, max_bytes: float = math.inf) -> Slice:
        """Do I/O for ``seconds``, or until ``max_bytes`` are transferred; raises SimulatedFault."""
        result = Slice(0.0, Tally(), Tally())
        moved = 0.0
        while result.seconds < seconds * (1 - 1e-9) and moved < max_bytes:
            moved += self._step(stimulus, seconds - result.seconds, max_bytes - moved, result)
        return result

    def start(self, stimulus: Stimulus) -> None:
        """Start a stimulus: set the position of a sequential one."""
        if stimulus.access == "SEQ":
            start = stimulus.start_bytes  # several streams are simulated as one: the difference for the FTL is small
            self._position = float(start if isinstance(start, int) else sum(start))

    def _step(self, stimulus: Stimulus, seconds: float, max_bytes: float, result: Slice) -> float:
        """Do one step of I/O and return the transferred bytes."""
        costs, reads = self._costs(stimulus), stimulus.read_percent / 100
        iops, limit = self._rate(stimulus, costs)
        written_per_second = iops * (1 - reads) * costs.bytes
        if written_per_second:
            seconds = min(seconds, self._bytes_until_change() / written_per_second)
        seconds = min(seconds, max_bytes / (iops * costs.bytes))
        ios = max(1, round(iops * seconds))
        read_ios = int(self._random.binomial(ios, reads)) if 0 < reads < 1 else round(ios * reads)
        self._tally(stimulus, costs, result, (read_ios, ios - read_ios), seconds, iops / limit)
        result.seconds += seconds
        self._wear(stimulus, (ios - read_ios) * costs.bytes, ios * costs.bytes, seconds)
        return ios * costs.bytes

    def _bytes_until_change(self) -> float:
        """Return how many bytes can be written before the drive's behaviour changes."""
        max_bytes = _STEP_SHARE * self.preset.drive.capacity_bytes
        buffers = [free_bytes for free_bytes in (self._clean_bytes, self._slc_bytes) if free_bytes > 0]
        return max(min([max_bytes, *buffers]), self._chunk_bytes / 64)

    def _costs(self, stimulus: Stimulus) -> _Costs:
        """Return the cost of an I/O, averaged over the block sizes."""
        shares = stimulus.block_shares or (BlockShare(size_bytes=stimulus.largest_block_bytes, percent=100),)
        parts = [(share.percent / 100, self._cost(stimulus, share.size_bytes)) for share in shares]

        def mean(name: str) -> float:
            return math.fsum(weight * getattr(cost, name) for weight, cost in parts)

        return _Costs(**{name: mean(name) for name in _Costs.__dataclass_fields__})

    def _cost(self, stimulus: Stimulus, size: int) -> _Costs:
        media, controller, streaming = self.preset.media, self.preset.controller, stimulus.access == "SEQ"
        pages = size / KIB / media.page_kib
        mapped = self._mapped if self._flash else 1.0
        sense_us = media.read_us * mapped * (pages if streaming else math.ceil(pages))
        units = size / KIB / media.mapping_kib
        programmed_kib = media.mapping_kib * (units if streaming else math.ceil(units))
        program_us = programmed_kib / media.program_kib * media.program_us / self._gain()
        amplification = self._amplification()
        copy_us = (amplification - 1) * programmed_kib / media.page_kib * media.read_us / 4
        merge_us = media.read_us if not streaming and size < media.mapping_kib * KIB else 0.0
        positioning_us = 0.0 if streaming else media.positioning_us / (1 + _SORTING * math.log2(stimulus.total_oio))
        write_unit_us = program_us * amplification + copy_us + merge_us + positioning_us
        waits_for_medium = not controller.protected and self.preset.drive.write_cache == "disabled"
        return _Costs(
            read_unit_us=sense_us + positioning_us,
            write_unit_us=write_unit_us,
            bytes=size,
            read_us=controller.read_us + media.read_us * mapped + positioning_us + size / controller.read_mb_per_second,
            write_us=controller.write_us
            + merge_us
            + size / controller.write_mb_per_second
            + (media.program_us + positioning_us if waits_for_medium else 0.0),
        )

    def _amplification(self) -> float:
        return 1.0 if self._clean_bytes > 0 or self._slc_bytes > 0 else self.write_amplification

    def _gain(self) -> float:
        return self.preset.media.pseudo_slc_gain if self._slc_bytes > 0 else 1.0

    def _rate(self, stimulus: Stimulus, costs: _Costs) -> tuple[float, float]:
        """Return the I/Os per second, and the maximum that medium, link and firmware allow."""
        reads, writes = stimulus.read_percent / 100, 1 - stimulus.read_percent / 100
        controller = self.preset.controller
        limits = [
            1e6 * self.preset.media.units / max(1e-9, reads * costs.read_unit_us + writes * costs.write_unit_us),
            1 / (reads / controller.read_iops + writes / controller.write_iops),
        ]
        seconds = tuple(
            share * costs.bytes / MB / max_mb_per_second
            for share, max_mb_per_second in (
                (reads, controller.read_mb_per_second),
                (writes, controller.write_mb_per_second),
            )
        )
        limits.append(1 / (sum(seconds) if controller.half_duplex else max(seconds)))
        speed = (1 - self._slowdown()) * (1 + self.preset.noise_percent / 100 * float(self._random.standard_normal()))
        limit = min(limits)
        waiting_us = self._waiting_us(costs, reads, writes)
        latency_limit = 1e6 * stimulus.total_oio / (reads * (costs.read_us + waiting_us) + writes * costs.write_us)
        speed = max(0.05, speed)
        iops = speed * (limit**-_SHARPNESS + latency_limit**-_SHARPNESS) ** (-1 / _SHARPNESS)
        transferred = 1.0 if controller.half_duplex else max(reads, writes)
        return min(iops, controller.link_mb_per_second * MB / costs.bytes / transferred), speed * limit

    def _waiting_us(self, costs: _Costs, reads: float, writes: float) -> float:
        """Return the average time that a read waits for program operations on its unit."""
        busy = writes * costs.write_unit_us / max(1e-9, writes * costs.write_unit_us + reads * costs.read_unit_us)
        return _PROGRAM_WAIT * busy * self.preset.media.program_us if self._flash else 0.0

    def _slowdown(self) -> float:
        """Return the share of the speed that faults take away at this moment."""
        faults, slowdown = self.preset.faults, 0.0
        if faults.drift_percent:
            slowdown += faults.drift_percent / 100 * (0.5 + 0.5 * math.sin(2 * math.pi * self._drift_phase))
        if faults.throttle_percent and self._written_bytes >= faults.throttle_after_bytes:
            slowdown += faults.throttle_percent / 100
        return min(0.95, slowdown)

    def _tally(
        self, stimulus: Stimulus, costs: _Costs, result: Slice, ios: tuple[int, int], seconds: float, load: float
    ) -> None:
        """Add I/Os whose response times sum up to the time of all outstanding I/Os (Little's law).

        I/Os that need more time of a unit wait longer for it.
        """
        read_ios, write_ios = ios
        total_us = 1e6 * seconds * stimulus.total_oio
        reads, writes = stimulus.read_percent / 100, 1 - stimulus.read_percent / 100
        read_us, write_us = costs.read_us + self._waiting_us(costs, reads, writes), costs.write_us
        unit_us = read_ios * costs.read_unit_us + write_ios * costs.write_unit_us
        queue_factor = max(0.0, total_us - read_ios * read_us - write_ios * write_us) / max(1e-9, unit_us)
        read_us, write_us = read_us + queue_factor * costs.read_unit_us, write_us + queue_factor * costs.write_unit_us
        correction = total_us / (read_ios * read_us + write_ios * write_us)
        is_collecting = self._flash and self._amplification() > 1.05
        read_ns, write_ns = 1000 * read_us * correction, 1000 * write_us * correction
        read_shape = Shape(
            sigma=0.06 + 0.3 * load,
            late_share=0.0002 + 0.004 * writes,
            late_factor=_late_factor(4.0, read_ns),
        )
        write_shape = Shape(
            sigma=0.06 + 0.3 * load,
            late_share=0.004 if is_collecting else 0.0003,
            late_factor=_late_factor(9.0 if is_collecting else 4.0, write_ns),
        )
        block = costs.bytes
        result.read.add(read_ios, round(read_ios * block), read_ns, read_shape, self._random.random())
        result.write.add(write_ios, round(write_ios * block), write_ns, write_shape, self._random.random())

    def _wear(self, stimulus: Stimulus, written: float, moved: float, seconds: float) -> None:
        """Update the drive's state after writes."""
        faults = self.preset.faults
        self._drift_phase += (
            seconds / 420 + 0.02 * float(self._random.standard_normal()) if faults.drift_percent else 0.0
        )
        programmed = written * self._amplification()
        fastest = self.preset.controller
        transferring = (written / fastest.write_mb_per_second + (moved - written) / fastest.read_mb_per_second) / MB
        self._warm(min(1.0, max(programmed / self._program_bytes_per_second(), transferring) / seconds), seconds)
        self._programmed_bytes += programmed
        self._moved_bytes += moved
        self._written_bytes += written
        for hangs, after in ((False, faults.error_after_bytes), (True, faults.hang_after_bytes)):
            if after and self._moved_bytes >= after:
                raise SimulatedFault(hangs=hangs)
        self._clean_bytes = max(0.0, self._clean_bytes - written)
        self._slc_bytes = max(0.0, self._slc_bytes - written)
        if self._flash:
            self._pending_chunks += written / self._chunk_bytes
            chunk_count = int(self._pending_chunks)
            self._pending_chunks -= chunk_count
            if chunk_count:
                self._ftl.write(self._chunks_for(stimulus, chunk_count))
                if self._mapped < 1:
                    self._mapped = self._ftl.mapped_share

    def _chunks_for(self, stimulus: Stimulus, count: int) -> NDArray[np.int64]:
        """Return the chunks that the next ``count`` writes of a stimulus access."""
        first = int(stimulus.range_offset_bytes / self._chunk_bytes)
        last = max(first + 1, math.ceil((stimulus.range_offset_bytes + stimulus.range_bytes) / self._chunk_bytes))
        last = min(last, _CHUNKS)
        if stimulus.access == "SEQ":
            start = int(self._position / self._chunk_bytes)
            self._position = (self._position + count * self._chunk_bytes) % stimulus.range_bytes
            sequence: NDArray[np.int64] = first + (start + np.arange(count)) % (last - first)
            return sequence
        if not stimulus.skew:
            return self._random.integers(first, last, count)
        shares = np.array([zone.access_percent for zone in stimulus.skew]) / 100
        ends = np.concatenate(([0.0], np.cumsum([zone.range_percent for zone in stimulus.skew]) / 100))
        zone = self._random.choice(len(shares), size=count, p=shares)
        position = ends[zone] + self._random.random(count) * (ends[zone + 1] - ends[zone])
        chunks: NDArray[np.int64] = first + np.minimum((position * (last - first)).astype(np.int64), last - first - 1)
        return chunks

    def _program_bytes_per_second(self) -> float:
        media = self.preset.media
        return media.units * media.program_kib * KIB / max(1e-9, media.program_us) * 1e6


def _late_factor(factor: float, mean_ns: float) -> float:
    """Return by which factor late I/Os take longer; less than ``factor`` if the latest exceeded the limit."""
    return max(1.0, min(factor, _LATEST_NS / (LATEST * max(1.0, mean_ns))))
