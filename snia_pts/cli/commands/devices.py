"""The verb ``devices``: lists the block devices of this host, and why a device cannot be tested."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import TextWrapper, wrap

from ...errors import SniaPtsError, TargetNotOurs
from ...lab.inventory import ListedDevice, PcieLink, read_inventory
from ...text import printable
from ...units import capacity, counted
from ..text.formatting import json_text
from ..text.lines import print_lines

_MEDIA = {True: "rotational", False: "solid state", None: ""}
_VERDICT = "may be tested"
_INDENT = "    "


def devices(arguments: argparse.Namespace) -> int:
    """Print every block device of this host, as a table or as JSON."""
    listed_devices = read_inventory()
    if arguments.json:
        print(json_text({"format": 1, "devices": [device_json(device) for device in listed_devices]}))
        return 0
    print_lines(device_lines(listed_devices, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    return 0


def device_json(listed: ListedDevice) -> dict[str, object]:
    """Return a device in the JSON form of docs/formats.rst."""
    refusal = listed.refusal
    return {
        "path": listed.path,
        "usable": refusal is None,
        "refusal": refusal and {"exit_code": refusal.exit_code, "reason": _reason(refusal), "remedy": refusal.hint},
        "by_id": listed.by_id,
        "dut": listed.dut and {name: value for name, value in asdict(listed.dut).items() if name != "array"},
        "pcie": {
            name: {"gigatransfers_per_second": link.gigatransfers, "lanes": link.lanes} if link else None
            for name, link in (("current", listed.link), ("maximum", listed.link_maximum))
        },
        "numa_node": listed.numa_node,
        "purge_methods": listed.purge_methods,
        "contents": listed.contents,
    }


def device_lines(listed_devices: Sequence[ListedDevice], width: int | None) -> Iterator[str]:
    """Yield a table ``width`` columns wide, with the columns that do not fit below each device.

    Without a width, each device is one row of all columns.
    """
    if not listed_devices:
        yield "There are no block devices."
        return
    rows = [_cells(device) for device in listed_devices]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    shown = [name for name in widths if width is None or (name != _VERDICT and any(row[name] for row in rows))]
    while width is not None and len(shown) > 1 and sum(widths[name] + 2 for name in shown) > width:
        shown.pop()
    yield _row({name: name for name in shown}, widths)
    for row in rows:
        yield _row({name: row[name] or "-" for name in shown}, widths)
        if width is not None:
            yield from _lines_below(row, shown, width)
    if width is not None:
        usable = sum(device.refusal is None for device in listed_devices)
        yield ""
        yield from wrap(f"{usable} of {counted(len(listed_devices), 'device')} may be tested.", width)


def _row(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    return "  ".join(f"{cell:{widths[name]}}" for name, cell in cells.items()).rstrip()


def _lines_below(row: Mapping[str, str], shown: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines below a device: the verdict, then the columns that do not fit; no word is broken."""
    wrapper = TextWrapper(
        width=max(width, 20),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from wrapper.wrap(f"{_VERDICT}: {row[_VERDICT]}")
    yield from wrapper.wrap(
        "; ".join(f"{name} {row[name]}" for name in row if row[name] and name not in (*shown, _VERDICT))
    )


def _cells(listed: ListedDevice) -> dict[str, str]:
    """Return the cell of each column, the most important first; empty if unknown."""
    dut = listed.dut
    cells = {"device": listed.path}
    cells |= {
        "size": capacity(dut.capacity_bytes) if dut else "",
        "model": dut.model if dut else "",
        "serial": dut.serial if dut else "",
        "bus": dut.bus if dut else "",
        "firmware": dut.firmware if dut else "",
        "media": _MEDIA[dut.rotational] if dut and dut.kind == "drive" else "",
        "PCIe": _links(listed.link, listed.link_maximum),
        "NUMA": "" if listed.numa_node is None else str(listed.numa_node),
        "write cache": dut.write_cache if dut else "",
        "sectors": f"{dut.logical_sector_bytes}/{dut.physical_sector_bytes}" if dut else "",
        "purge": ", ".join(listed.purge_methods),
        "by-id": listed.by_id[0] if listed.by_id else "",
        _VERDICT: f"no: {_reason(listed.refusal)}" if listed.refusal else "yes",
    }
    if isinstance(listed.refusal, TargetNotOurs):
        cells[_VERDICT] += " (--discard-data allows it)"
    return {name: printable(text) for name, text in cells.items()}


def _reason(refusal: SniaPtsError) -> str:
    return str(getattr(refusal, "reason", refusal))


def _links(current: PcieLink | None, maximum: PcieLink | None) -> str:
    """Return the speed of a PCIe link, and its maximum if that is higher."""
    if current is None or maximum is None:
        return ""
    speed, maximum_speed = (f"{link.gigatransfers:g} GT/s x{link.lanes}" for link in (current, maximum))
    return speed if speed == maximum_speed else f"{speed} of {maximum_speed}"
