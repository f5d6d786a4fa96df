"""The processors of the host: how fast they run, how deep they sleep, what they pay for safety, and who else runs."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from ....model.test_platform import Judgement
from ....units import capacity, whole_number
from ...device.identity import attribute
from ...observation.telemetry import ZERO_CPU_TIMES, CpuTimes, busy_percent, cpu_times
from .finding import DesiredSetting, Finding, counted, finding, unknown_finding

#: The longest that --tune lets a processor take to wake up, in microseconds.
WAKE_US = 10
#: An idle processor that takes as long to wake up is seen in the response times of a fast drive.
_SLOW_WAKE_US = 50
_BUSY_PERCENT = 10.0
_CPU = "sys/devices/system/cpu"
_SLOWER = "a processor that slows down between I/Os costs up to four fifths of the IOPS, and makes every response late"
_NO_FREQUENCY = "the kernel does not govern the frequency here: firmware or a hypervisor does"


def processors(root: Path) -> Iterator[Finding]:
    """Tell of the processors."""
    yield _policies(root, "governor", "scaling_governor", _SLOWER)
    yield _policies(
        root,
        "energy preference",
        "energy_performance_preference",
        "it tells the processor whether to save energy where it chooses its frequency by itself",
    )
    yield _turbo(root)
    yield _idle_states(root)
    yield _mitigations(root)
    yield _virtual(root)


def _policies(root: Path, kind: str, name: str, reason: str) -> Finding:
    """A setting that each group of processors has for itself."""
    found = {
        path.parent.name: text for path in root.glob(f"{_CPU}/cpufreq/policy*/{name}") if (text := attribute(path))
    }
    if not found:
        return unknown_finding(kind, _NO_FREQUENCY if kind == "governor" else "the kernel does not tell of one")
    fast = all(value == "performance" for value in found.values())
    wanted = (DesiredSetting(kind=kind, place=place, value="performance") for place in sorted(found))
    return finding(
        kind,
        counted(found.values()),
        "good" if fast else "affects results",
        reason,
        recommended="performance",
        wanted=wanted,
    )


def _turbo(root: Path) -> Finding:
    off = {"1": True, "0": False}.get(attribute(root / _CPU / "intel_pstate/no_turbo"))
    on = {"1": True, "0": False}.get(attribute(root / _CPU / "cpufreq/boost")) if off is None else not off
    if on is None:
        return unknown_finding("turbo", "the kernel does not tell")
    if on:
        return finding("turbo", "on", "noted", "faster, but the speed depends on heat and on how many processors work")
    return finding("turbo", "off", "noted", "steadier, but slower than the processor could be")


def _idle_states(root: Path) -> Finding:
    """How long an idle processor may take to wake up, by the states that it has and by the limit that is set."""
    states = [
        (latency, attribute(path / "name"))
        for path in root.glob(f"{_CPU}/cpu0/cpuidle/state*")
        if (latency := whole_number(attribute(path / "latency"))) is not None and attribute(path / "disable") != "1"
    ]
    if not states:
        return unknown_finding(
            "idle states", "the kernel does not put processors to sleep here: firmware or a hypervisor does"
        )
    limit = _latency_limit(root)
    allowed = [each for each in states if limit is None or each[0] <= limit] or [min(states)]
    latency, name = max(allowed)
    reason = "an I/O that finds its processor asleep waits for it: it adds to response times, at low queue depths most"
    judgement: Judgement = "affects results" if latency > _SLOW_WAKE_US else "good"
    limited = f", limited to {limit} us" if limit is not None and len(allowed) < len(states) else ""
    value = f"up to {latency} us to wake up ({name}{limited})"
    return finding("idle states", value, judgement, reason, recommended=f"at most {_SLOW_WAKE_US} us")


def _latency_limit(root: Path) -> int | None:
    """The time to wake up that programs let processors take at most, in us; None where only root is told."""
    try:
        with (root / "dev/cpu_dma_latency").open("rb") as file:
            return int(struct.unpack("=i", file.read(4))[0])
    except (OSError, struct.error):
        return None


def _mitigations(root: Path) -> Finding:
    found = [attribute(path) for path in sorted((root / _CPU / "vulnerabilities").glob("*"))]
    if not found:
        return unknown_finding("mitigations", "the kernel does not tell")
    on = sum(text.startswith("Mitigation") for text in found)
    bare = sum(text.startswith("Vulnerable") for text in found)
    value = f"{on} on, {bare} off or missing, {len(found) - on - bare} not needed"
    return finding(
        "mitigations", value, "noted", "each system call costs more with them; compare only hosts with the same"
    )


def _virtual(root: Path) -> Finding:
    flags = re.search(r"^flags\s*:(.*)$", attribute(root / "proc/cpuinfo"), re.MULTILINE)
    if flags is None:
        return unknown_finding("virtual machine", "the kernel does not tell")
    if "hypervisor" in flags[1].split():
        reason = "a hypervisor stands between host and drive, and takes its time as it likes"
        return finding("virtual machine", "yes", "affects results", reason, recommended="a host without")
    return finding("virtual machine", "no", "good", "nothing stands between host and drive")


def load(before: CpuTimes, after: CpuTimes) -> Finding:
    """How busy the host was with something else, by ``times`` before and after a moment without I/O of the suite."""
    percent = busy_percent(before, after)
    if percent is None:
        return unknown_finding("other load", "the kernel does not tell")
    judgement: Judgement = "affects results" if percent > _BUSY_PERCENT else "good"
    reason = "other programs take processors from the test"
    return finding(
        "other load", f"{percent:.0f} % of all CPUs", judgement, reason, recommended=f"at most {_BUSY_PERCENT:.0f} %"
    )


def times(root: Path) -> CpuTimes:
    """Return the times of all processors together so far; ``ZERO_CPU_TIMES`` where they are untold."""
    return cpu_times(attribute(root / "proc/stat").encode()).get(b"cpu", ZERO_CPU_TIMES)


def swap(root: Path) -> Finding:
    """Whether the host has moved memory to swap space."""
    lines = [line.split() for line in attribute(root / "proc/swaps").splitlines()[1:]]
    used = [number for line in lines if len(line) > 3 and (number := whole_number(line[3])) is not None]
    if not used:
        return finding("swap", "none", "good", "no memory is moved to a drive")
    reason = "memory that is moved to and fro does I/O of its own, on another drive"
    if not sum(used):
        return finding("swap", "not in use", "good", reason)
    return finding("swap", f"{capacity(1024 * sum(used))} in use", "noted", reason)
