"""Derive the device from a TKperf file: from its description and its command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..model.dut import CacheState, Dut
from ..units import MAX_QUANTITY, MB
from .document import File

#: TKperf's options that take a value.
_OPTIONS_WITH_VALUE = {
    "-nj",
    "--numjobs",
    "-iod",
    "--iodepth",
    "-rt",
    "--runtime",
    "-i",
    "--interface",
    "-dsc",
    "--desc_file",
    "-c",
    "--config",
    "-fm",
    "--feature_matrix",
    "-hddt",
    "--hdd_type",
    "-ssdt",
    "--ssd_type",
    "-m",
    "--mail",
    "-s",
    "--smtp",
    "-g",
    "--gen_report",
}
#: The lines of hdparm, udevadm, nvme and sginfo as TKperf copies them, by the property that they report.
_PATTERNS: Mapping[str, str] = {
    "model": r"(?:Model Number|E: ID_MODEL|mn|Product)\s*[:=]\s*(.+)",
    "serial": r"(?:Serial Number|E: ID_SERIAL_SHORT|sn)\s*[:=']\s*([^']+)",
    "firmware": r"(?:Firmware Revision|fr|Revision Level)\s*[:=]\s*(.+)",
    "bytes": r"(?:Device Size \(bytes\)|tnvmcap|Device size)\s*:\s*(\d{1,18})\b",
    "mb": r"device size with M = 1000\*1000:\s*(\d{1,12}) MBytes",
    "cache": r"(?:write-caching\s*=|Write Cache Enabled)\s*([01])\b",
    "bus": r"Device Interface:\s*([a-z]+)",
    "logical": r"Device Logical Sector Size:\s*(\d{1,6})\b",
    "physical": r"Device Physical Sector Size:\s*(\d{1,6})\b",
}
_MIN_BYTES = MB
#: The first line of the description in a file exported from a simulated run.
SIMULATED = "SIMULATED: no drive was tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The settings in TKperf's command line; an empty string or None if the command line does not state them."""

    mode: str = ""
    path: str = ""
    jobs: int | None = None
    depth: int | None = None


def command(text: str) -> Command:
    """Parse a command line of TKperf; any other command line gives an empty Command."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if not words or not words[0].rpartition("/")[2].startswith("tkperf"):
        return Command()
    arguments, options = list[str](), dict[str, str]()
    remaining = iter(words[1:])
    for word in remaining:
        if word in _OPTIONS_WITH_VALUE:
            options[word] = next(remaining, "")
        elif not word.startswith("-"):
            arguments.append(word)
    mode, _, path = (*arguments, "", "", "")[:3]
    return Command(
        mode=mode if mode in ("ssd", "hdd", "raid") else "",
        path=path if path.startswith("/") else "",
        jobs=_whole_number(options, "-nj", "--numjobs"),
        depth=_whole_number(options, "-iod", "--iodepth"),
    )


def _whole_number(options: Mapping[str, str], *names: str) -> int:
    """Return the number of an option; the default of TKperf is 1."""
    text = next((options[name] for name in names if name in options), "1")
    return int(text) if re.fullmatch("[1-9][0-9]{0,2}", text) else 1


def device(file: File, sizes: Sequence[int]) -> Dut:
    """Return the device as far as the file describes it; ``sizes`` are the measured block sizes in bytes."""
    properties = {name: _first_match(pattern, file.description) for name, pattern in _PATTERNS.items()}
    tkperf = command(file.command_line)
    capacity_bytes = int(properties["bytes"] or 0) or MB * int(properties["mb"] or 0)
    caches: dict[str, CacheState] = {"1": "enabled", "0": "disabled"}
    sector = 512 if 512 in sizes else int(properties["logical"] or (4096 if sizes else 0))
    size = capacity_bytes if _MIN_BYTES <= capacity_bytes <= MAX_QUANTITY else 0
    simulated = file.version.startswith("snia-pts") and file.description.startswith(SIMULATED) and size and sector
    return Dut(
        path=tkperf.path or file.name,
        kind="simulated" if simulated else "imported",
        model=properties["model"],
        serial=properties["serial"],
        firmware=properties["firmware"],
        bus=properties["bus"],
        capacity_bytes=size,
        logical_sector_bytes=sector,
        physical_sector_bytes=int(properties["physical"] or 0),
        rotational={"ssd": False, "hdd": True}.get(tkperf.mode),
        write_cache=caches.get(properties["cache"], "unknown"),
        discard=None,
        write_cache_source="stated in the file" if properties["cache"] else "not stated in the file",
    )


def _first_match(pattern: str, text: str) -> str:
    """Return the value in the first line that matches ``pattern``, at most 200 characters; empty if none matches."""
    for line in text.splitlines():
        if match := re.match(rf"\s*{pattern}", line):
            return match[1].strip()[:200]
    return ""
