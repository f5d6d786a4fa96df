"""The way from the processors to a drive: memory node, interrupts, PCIe link, power saving."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ....model.test_platform import Judgement
from ....units import whole_number
from ...device.identity import attribute
from ...inventory import PcieLink, numa_node, parent_folders, pci_function, read_link
from ..settable import chosen
from .finding import DesiredSetting, Finding, finding, numbers, unknown_finding

_NODES = "sys/devices/system/node"


def way(block: Path, root: Path, allowed: frozenset[int]) -> Iterator[Finding]:
    """Tell of the way to the drive whose sysfs folder is ``block``, from the processors that a program may use."""
    yield _node(block, root, allowed)
    yield _interrupts(block, root)
    function = pci_function(block)
    if function is not None:
        yield _link(read_link(function, "current"), read_link(function, "max"))
        yield _aspm(root)
    yield from _sata_power(block, root)


def numa_local_cpus(block: Path | None, root: Path) -> frozenset[int]:
    """Return the processors beside a drive; none where the host has one node alone, or does not tell."""
    node = numa_node(block) if block else None
    if node is None or len(list((root / _NODES).glob("node[0-9]*"))) < 2:
        return frozenset()
    return frozenset(numbers(attribute(root / _NODES / f"node{node}/cpulist")))


def _node(block: Path, root: Path, allowed: frozenset[int]) -> Finding:
    nodes = len(list((root / _NODES).glob("node[0-9]*")))
    if nodes < 2:
        return finding("memory nodes", "one", "good", "every processor is as near to the drive as any other")
    near, node = numa_local_cpus(block, root), numa_node(block)
    if not near:
        return unknown_finding("memory nodes", f"the host has {nodes}, and does not tell which one the drive is at")
    reason = "I/O from another node goes over the link between the nodes, later and slower"
    where = f"drive at node {node} of {nodes}"
    if allowed <= near:
        return finding("memory nodes", f"{where}, fio beside it", "good", reason, recommended="fio beside the drive")
    return finding(
        "memory nodes", f"{where}, fio anywhere", "affects results", reason, recommended="fio beside the drive"
    )


def _interrupts(block: Path, root: Path) -> Finding:
    controller = next((each for each in parent_folders(block) if (each / "msi_irqs").is_dir()), None)
    names = [path.name for path in (controller / "msi_irqs").glob("*")] if controller else []
    folders = [root / "proc/irq" / name for name in names]
    cpus = [
        numbers(attribute(each / "effective_affinity_list") or attribute(each / "smp_affinity_list"))
        for each in folders
    ]
    used, host = set().union(*cpus), numbers(attribute(root / "sys/devices/system/cpu/online"))
    if not used:
        return unknown_finding("interrupts", "the kernel does not tell of the drive's")
    value = f"{len(names)} on {len(used)} of {max(len(host), len(used))} CPUs"
    if len(names) > 2 and len(used) == 1 and len(host) > 1:  # one of an NVMe drive's is for its administration
        reason = "one processor answers for all queues, and limits the IOPS"
        return finding("interrupts", value, "affects results", reason, recommended="spread over the CPUs")
    return finding("interrupts", value, "good", "no processor alone has to answer for many queues")


def _link(current: PcieLink, most: PcieLink) -> Finding:
    words, best = (f"{each.gigatransfers:g} GT/s x{each.lanes}" for each in (current, most))
    if not current.lanes or not most.lanes:
        return unknown_finding("PCIe link", "the kernel does not tell")
    if (current.gigatransfers, current.lanes) == (most.gigatransfers, most.lanes):
        return finding("PCIe link", words, "good", "as fast as the drive can", recommended=best)
    reason = "the drive could have a faster link: it may be in the wrong slot, or the slot is older than the drive"
    return finding("PCIe link", words, "affects results", reason, recommended=best)


def _aspm(root: Path) -> Finding:
    kind = "PCIe power saving"
    policy = chosen(attribute(root / "sys/module/pcie_aspm/parameters/policy"))
    if not policy:
        return unknown_finding(kind, "the kernel does not manage it")
    if policy == "default":
        return finding(kind, policy, "good", "the link does not sleep beyond what firmware set up")
    wanted = [DesiredSetting(kind=kind, place="", value="performance")]
    if policy == "performance":
        return finding(kind, policy, "good", "the link does not sleep", recommended=policy, wanted=wanted)
    reason = "a link that sleeps between I/Os takes microseconds to wake up"
    return finding(kind, policy, "affects results", reason, recommended="performance", wanted=wanted)


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
    # The kernel takes back every policy but this one.
    firmware = policy == "keep_firmware_settings"
    wanted = [] if firmware else [DesiredSetting(kind=kind, place=host, value="max_performance")]
    judgement: Judgement = "noted" if firmware else "affects results"
    yield finding(kind, policy, judgement, reason, recommended="max_performance", wanted=wanted)


def depth(block: Path) -> Iterator[Finding]:
    """Tell how many commands a SCSI or ATA drive is given at a time."""
    commands = whole_number(attribute(block / "device/queue_depth"))
    if commands is None:
        return
    if commands < 2:
        reason = "the drive is given one command at a time (NCQ is off): queue depths beyond 1 mean nothing"
        yield finding(
            "commands at a time", str(commands), "affects results", reason, recommended="as many as the drive takes"
        )
        return
    yield finding("commands at a time", str(commands), "good", "the drive takes no more; the rest waits in the host")
