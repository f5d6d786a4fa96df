"""The host's CPUs: frequency, turbo, idle states, mitigations, virtualization, other load; and swap."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from ....model.test_platform import Judgement
from ....units import capacity, whole_number
from ...device.identity import attribute
from ...observation.telemetry import ZERO_CPU_TIMES, CpuTimes, busy_percent, cpu_times
from .finding import NOT_REPORTED, DesiredSetting, Finding, counted, finding, unknown_finding

#: The maximum wake-up time of a CPU with --tune, in microseconds.
MAX_WAKE_US = 10
#: A wake-up time that is visible in the response times of a fast drive.
_SLOW_WAKE_US = 50
_BUSY_PERCENT = 10.0
_CPU = "sys/devices/system/cpu"
_SLOWER = "a CPU that slows down between I/Os costs up to four fifths of the IOPS, and increases all response times"
_NO_FREQUENCY = "the kernel does not control the frequency here: firmware or a hypervisor does"


def processors(root: Path) -> Iterator[Finding]:
    """Inspect the CPUs."""
    yield _policies(root, "governor", "scaling_governor", _SLOWER)
    yield _policies(
        root,
        "energy preference",
        "energy_performance_preference",
        "a CPU that chooses its own frequency saves energy according to this preference",
    )
    yield _turbo(root)
    yield _idle_states(root)
    yield _mitigations(root)
    yield _virtual(root)


def _policies(root: Path, kind: str, name: str, reason: str) -> Finding:
    """Return the finding about a setting that each group of CPUs has."""
    values = {
        path.parent.name: text for path in root.glob(f"{_CPU}/cpufreq/policy*/{name}") if (text := attribute(path))
    }
    if not values:
        return unknown_finding(kind, _NO_FREQUENCY if kind == "governor" else NOT_REPORTED)
    is_fast = all(value == "performance" for value in values.values())
    desired = (DesiredSetting(kind=kind, place=place, value="performance") for place in sorted(values))
    return finding(
        kind,
        counted(values.values()),
        "good" if is_fast else "affects results",
        reason,
        recommended="performance",
        desired=desired,
    )


def _turbo(root: Path) -> Finding:
    off = {"1": True, "0": False}.get(attribute(root / _CPU / "intel_pstate/no_turbo"))
    on = {"1": True, "0": False}.get(attribute(root / _CPU / "cpufreq/boost")) if off is None else not off
    if on is None:
        return unknown_finding("turbo", NOT_REPORTED)
    if on:
        return finding(
            "turbo", "on", "noted", "faster, but the speed depends on temperature and on the number of busy CPUs"
        )
    return finding("turbo", "off", "noted", "steadier, but below the CPU's maximum speed")


def _idle_states(root: Path) -> Finding:
    """Return the maximum wake-up time of an idle CPU, from its idle states and the limit in force."""
    states = [
        (latency, attribute(path / "name"))
        for path in root.glob(f"{_CPU}/cpu0/cpuidle/state*")
        if (latency := whole_number(attribute(path / "latency"))) is not None and attribute(path / "disable") != "1"
    ]
    if not states:
        return unknown_finding(
            "idle states", "the kernel does not control idle states here: firmware or a hypervisor does"
        )
    limit = _latency_limit(root)
    allowed = [state for state in states if limit is None or state[0] <= limit] or [min(states)]
    latency, name = max(allowed)
    reason = "an I/O waits until its CPU has woken up: this adds to response times, mainly at low queue depths"
    judgement: Judgement = "affects results" if latency > _SLOW_WAKE_US else "good"
    limited = f", limited to {limit} us" if limit is not None and len(allowed) < len(states) else ""
    value = f"up to {latency} us to wake up ({name}{limited})"
    return finding("idle states", value, judgement, reason, recommended=f"at most {_SLOW_WAKE_US} us")


def _latency_limit(root: Path) -> int | None:
    """Return the maximum wake-up time that processes have requested, in us; None if it is not readable by this user."""
    try:
        with (root / "dev/cpu_dma_latency").open("rb") as file:
            return int(struct.unpack("=i", file.read(4))[0])
    except (OSError, struct.error):
        return None


def _mitigations(root: Path) -> Finding:
    states = [attribute(path) for path in sorted((root / _CPU / "vulnerabilities").glob("*"))]
    if not states:
        return unknown_finding("mitigations", NOT_REPORTED)
    on = sum(state.startswith("Mitigation") for state in states)
    vulnerable = sum(state.startswith("Vulnerable") for state in states)
    value = f"{on} on, {vulnerable} off or missing, {len(states) - on - vulnerable} not needed"
    reason = "they make each system call slower; results are comparable only if they are the same"
    return finding("mitigations", value, "noted", reason)


def _virtual(root: Path) -> Finding:
    flags = re.search(r"^flags\s*:(.*)$", attribute(root / "proc/cpuinfo"), re.MULTILINE)
    if flags is None:
        return unknown_finding("virtual machine", NOT_REPORTED)
    if "hypervisor" in flags[1].split():
        reason = "the hypervisor between host and drive can add unpredictable delays"
        return finding("virtual machine", "yes", "affects results", reason, recommended="bare metal")
    return finding("virtual machine", "no", "good", "there is no hypervisor between host and drive")


def load(before: CpuTimes, after: CpuTimes) -> Finding:
    """Return the load of other processes, from ``times`` before and after an interval in which the suite is idle."""
    percent = busy_percent(before, after)
    if percent is None:
        return unknown_finding("other load", NOT_REPORTED)
    judgement: Judgement = "affects results" if percent > _BUSY_PERCENT else "good"
    reason = "other processes are using the CPUs"
    return finding(
        "other load", f"{percent:.0f} % of all CPUs", judgement, reason, recommended=f"at most {_BUSY_PERCENT:.0f} %"
    )


def times(root: Path) -> CpuTimes:
    """Return the total times of all CPUs so far; ``ZERO_CPU_TIMES`` if not reported."""
    return cpu_times(attribute(root / "proc/stat").encode()).get(b"cpu", ZERO_CPU_TIMES)


def swap(root: Path) -> Finding:
    """Return whether the host uses swap space."""
    lines = [line.split() for line in attribute(root / "proc/swaps").splitlines()[1:]]
    used = [number for line in lines if len(line) > 3 and (number := whole_number(line[3])) is not None]
    if not used:
        return finding("swap", "none", "good", "the host has no swap space")
    reason = "swapping causes I/O on another drive"
    if not sum(used):
        return finding("swap", "not in use", "good", reason)
    return finding("swap", f"{capacity(1024 * sum(used))} in use", "noted", reason)
