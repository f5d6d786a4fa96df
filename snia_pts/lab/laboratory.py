"""Performs the steps that a procedure asks for, on a held target, with an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..dut import Dut
from ..errors import DeviceFailed, HostFailed, SniaPtsError
from ..measurement import Outcome
from ..spec import Deviation, IopsSpec
from ..steps import Purge, Step
from ..units import block_size
from .engine import Engine
from .fio import Refused
from .purge import purge
from .safety import Target


class Laboratory:
    """A held target, the engine that does I/O on it, and the way it is purged."""

    def __init__(self, target: Target, engine: Engine, *, purge_method: str, seed: int, evidence: Path) -> None:
        self._target = target
        self._engine = engine
        self._purge_method = purge_method
        self._seed = seed
        self._evidence = evidence

    def perform(self, step: Step) -> Iterator[Outcome]:
        """Perform a step, giving each outcome as it comes.

        Raises PurgeFailed, DeviceFailed or HostFailed; that the target is still what was held is looked at before
        each stimulus.
        """
        parts = [stimulus.label for stimulus in step.stimuli] or [self._purge_method]
        outcomes = self._outcomes(step)
        for part in parts:
            self._target.require_same(step.label, part)
            try:
                outcome = next(outcomes)
            except Refused as refusal:
                failed = DeviceFailed if refusal.blame == "device" else HostFailed
                raise failed(step=step.label, what=part, reason=refusal.reason) from refusal
            except SniaPtsError:
                raise
            except OSError as error:
                raise HostFailed(step=step.label, what=part, reason=str(error)) from error
            yield outcome

    def _outcomes(self, step: Step) -> Iterator[Outcome]:
        if isinstance(step, Purge):
            yield purge(self._target, self._purge_method, self._seed, self._evidence / "00000-purge")
        else:
            yield from self._engine.measure(step.stimuli)


def target_deviations(dut: Dut, spec: IopsSpec) -> tuple[Deviation, ...]:
    """Return what makes a target differ from what the standard tests.

    That is a solid state drive, raw, its write cache as asked, its sectors small enough for every block size.
    """
    setup, found = spec.setup, []
    if dut.kind != "drive":
        found.append(
            Deviation(
                what="device under test",
                standard="a solid state drive, raw",
                actual="a file through a file system" if dut.kind == "file" else dut.model,
                clause="PTS chapter 1",
            )
        )
    if dut.write_cache != setup.write_cache:
        found.append(
            Deviation(
                what="write cache",
                standard=setup.write_cache,
                actual=f"{dut.write_cache} (as the kernel reports it; not set by this suite)",
                clause="PTS chapter 3, Caching",
            )
        )
    if dut.rotational:
        found.append(
            Deviation(
                what="media", standard="solid state", actual="rotational, says the kernel", clause="PTS chapter 1"
            )
        )
    lost = [size for size in spec.rounds.block_sizes_bytes if size % dut.logical_sector_bytes]
    if lost:
        found.append(
            Deviation(
                what="block sizes",
                standard=", ".join(map(block_size, lost)),
                actual=f"left out: sectors of {dut.logical_sector_bytes} bytes cannot hold them",
                clause="PTS chapter 7, block sizes",
            )
        )
    return tuple(found)
