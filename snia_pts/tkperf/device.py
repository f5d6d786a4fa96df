"""What a file of TKperf tells of the device: its description, and the command line that named it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..model.dut import CacheState, Dut
from ..units import MAX_QUANTITY, MB
from .document import File

#: TKperf's options that have a value.
_VALUED = {
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
#: How hdparm, udevadm, nvme and sginfo write a line about each, as TKperf copies it.
_LINES: Mapping[str, str] = {
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
_LEAST_BYTES = MB
#: The first line of the description in a file that was written of a rehearsal.
SIMULATED = "SIMULATED: no drive was tested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What TKperf's command line asked for; an empty string, or None, where it is not told."""

    mode: str = ""
    path: str = ""
    jobs: int | None = None
    depth: int | None = None


def command(text: str) -> Command:
    """Return what a command line of TKperf asked for; of any other, nothing."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if not words or not words[0].rpartition("/")[2].startswith("tkperf"):
        return Command()
    named, given = list[str](), dict[str, str]()
    rest = iter(words[1:])
    for word in rest:
        if word in _VALUED:
            given[word] = next(rest, "")
        elif not word.startswith("-"):
            named.append(word)
    mode, _, path = (*named, "", "", "")[:3]
    return Command(
        mode=mode if mode in ("ssd", "hdd", "raid") else "",
        path=path if path.startswith("/") else "",
        jobs=_whole(given, "-nj", "--numjobs"),
        depth=_whole(given, "-iod", "--iodepth"),
    )


def _whole(given: Mapping[str, str], *names: str) -> int:
    """Return an option's number; TKperf's own is 1."""
    text = next((given[name] for name in names if name in given), "1")
    return int(text) if re.fullmatch("[1-9][0-9]{0,2}", text) else 1


def device(file: File, sizes: Sequence[int]) -> Dut:
    """Return the device of a file as far as that describes it; ``sizes`` are the block sizes that it took."""
    found = {name: _first(pattern, file.description) for name, pattern in _LINES.items()}
    asked = command(file.command_line)
    known = int(found["bytes"] or 0) or MB * int(found["mb"] or 0)
    caches: dict[str, CacheState] = {"1": "enabled", "0": "disabled"}
    sector = 512 if 512 in sizes else int(found["logical"] or (4096 if sizes else 0))
    size = known if _LEAST_BYTES <= known <= MAX_QUANTITY else 0
    rehearsed = file.version.startswith("snia-pts") and file.description.startswith(SIMULATED) and size and sector
    return Dut(
        path=asked.path or file.name,
        kind="simulated" if rehearsed else "imported",
        model=found["model"],
        serial=found["serial"],
        firmware=found["firmware"],
        bus=found["bus"],
        capacity_bytes=size,
        logical_sector_bytes=sector,
        physical_sector_bytes=int(found["physical"] or 0),
        rotational={"ssd": False, "hdd": True}.get(asked.mode),
        write_cache=caches.get(found["cache"], "unknown"),
        discard=None,
        write_cache_source="as its file tells" if found["cache"] else "its file does not tell",
    )


def _first(pattern: str, text: str) -> str:
    """Return what the first line of that form says, in a line's length."""
    for line in text.splitlines():
        if match := re.match(rf"\s*{pattern}", line):
            return match[1].strip()[:200]
    return ""
