"""The I/O path from the CPUs to a drive: memory node, interrupts, PCIe link, power saving."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ....model.test_platform import Judgement
from ....units import whole_number
from ...device.identity import attribute
from ...inventory import PcieLink, numa_node, parent_folders, pci_function, read_link
from ..settings_list import selected_value
from .finding import NOT_REPORTED, DesiredSetting, Finding, finding, numbers, unknown_finding

_NODES = "sys/devices/system/node"


def inspect_io_path(block: Path, root: Path, allowed: frozenset[int]) -> Iterator[Finding]:
    """Inspect the I/O path from the ``allowed`` CPUs to the drive with the sysfs folder ``block``."""
    yield _node(block, root, allowed)
    yield _interrupts(block, root)
    function = pci_function(block)
    if function is not None:
        yield _link(read_link(function, "current"), read_link(function, "max"))
        yield _aspm(root)
    yield from _sata_power(block, root)


def numa_local_cpus(block: Path | None, root: Path) -> frozenset[int]:
    """Return the CPUs of the drive's memory node; empty if the host has a single node, or if it is not reported."""
    node = numa_node(block) if block else None
    if node is None or len(list((root / _NODES).glob("node[0-9]*"))) < 2:
        return frozenset()
    return frozenset(numbers(attribute(root / _NODES / f"node{node}/cpulist")))


def _node(block: Path, root: Path, allowed: frozenset[int]) -> Finding:
    nodes = len(list((root / _NODES).glob("node[0-9]*")))
    if nodes < 2:
        return finding("memory nodes", "one", "good", "all CPUs are equally close to the drive")
    local_cpus, node = numa_local_cpus(block, root), numa_node(block)
    if not local_cpus:
        return unknown_finding("memory nodes", f"the host has {nodes}, but does not report which one the drive is on")
    reason = "I/O from another node crosses the link between the nodes, which adds latency and limits bandwidth"
    drive_node, recommended = f"drive on node {node} of {nodes}", "fio on the drive's node"
    if allowed <= local_cpus:
        return finding("memory nodes", f"{drive_node}, fio on the same node", "good", reason, recommended=recommended)
    value = f"{drive_node}, fio on any node"
    return finding("memory nodes", value, "affects results", reason, recommended=recommended)


def _interrupts(block: Path, root: Path) -> Finding:
    controller = next((folder for folder in parent_folders(block) if (folder / "msi_irqs").is_dir()), None)
    names = [path.name for path in (controller / "msi_irqs").glob("*")] if controller else []
    folders = [root / "proc/irq" / name for name in names]
    cpus = [
        numbers(attribute(folder / "effective_affinity_list") or attribute(folder / "smp_affinity_list"))
        for folder in folders
    ]
    irq_cpus, online_cpus = set().union(*cpus), numbers(attribute(root / "sys/devices/system/cpu/online"))
    if not irq_cpus:
        return unknown_finding("interrupts", "the kernel does not report the drive's interrupts")
    value = f"{len(names)} on {len(irq_cpus)} of {max(len(online_cpus), len(irq_cpus))} CPUs"
    if len(names) > 2 and len(irq_cpus) == 1 and len(online_cpus) > 1:  # an NVMe drive has one for its admin queue
        reason = "one CPU handles the interrupts of all queues, which limits the IOPS"
        return finding("interrupts", value, "affects results", reason, recommended="spread over the CPUs")
    return finding("interrupts", value, "good", "no single CPU handles the interrupts of many queues")


def _link(current: PcieLink, maximum: PcieLink) -> Finding:
    value, recommended = (f"{link.gigatransfers:g} GT/s x{link.lanes}" for link in (current, maximum))
    if not current.lanes or not maximum.lanes:
        return unknown_finding("PCIe link", NOT_REPORTED)
    if (current.gigatransfers, current.lanes) == (maximum.gigatransfers, maximum.lanes):
        return finding("PCIe link", value, "good", "the drive's maximum", recommended=recommended)
    reason = "the drive supports a faster link: it may be in the wrong slot, or the slot is older than the drive"
    return finding("PCIe link", value, "affects results", reason, recommended=recommended)


def _aspm(root: Path) -> Finding:
    kind = "PCIe power saving"
    policy = selected_value(attribute(root / "sys/module/pcie_aspm/parameters/policy"))
    if not policy:
        return unknown_finding(kind, "the kernel does not manage it")
    if policy == "default":
        return finding(kind, policy, "good", "the link sleeps only as configured by firmware")
    desired = [DesiredSetting(kind=kind, place="", value="performance")]
    if policy == "performance":
        return finding(kind, policy, "good", "the link does not sleep", recommended=policy, desired=desired)
    reason = "a link that sleeps between I/Os takes microseconds to wake up"
    return finding(kind, policy, "affects results", reason, recommended="performance", desired=desired)


def _sata_power(block: Path, root: Path) -> Iterator[Finding]:
    kind = "SATA power saving"
    host = next((part for part in reversed(block.parts) if re.fullmatch(r"host[0-9]{1,5}", part)), "")
    policy = attribute(root / "sys/class/scsi_host" / host / "link_power_management_policy") if host else ""
    if not policy:
        return
    reason = "a link that sleeps between I/Os takes up to milliseconds to wake up"
    if policy == "max_performance":
        yield finding(kind, policy, "good", "the link does not sleep", recommended=policy)
        return
    # The kernel accepts every policy as a new value except this one.
    firmware = policy == "keep_firmware_settings"
    desired = [] if firmware else [DesiredSetting(kind=kind, place=host, value="max_performance")]
    judgement: Judgement = "noted" if firmware else "affects results"
    yield finding(kind, policy, judgement, reason, recommended="max_performance", desired=desired)


def command_queue_depth(block: Path) -> Iterator[Finding]:
    """Inspect how many commands the kernel sends to a SCSI or ATA drive at a time."""
    commands = whole_number(attribute(block / "device/queue_depth"))
    if commands is None:
        return
    if commands < 2:
        reason = "the kernel sends one command at a time (NCQ is off): queue depths above 1 have no effect"
        recommended = "the drive's maximum"
        yield finding("commands at a time", str(commands), "affects results", reason, recommended=recommended)
        return
    yield finding("commands at a time", str(commands), "good", "the drive's maximum; further I/Os wait in the host")
