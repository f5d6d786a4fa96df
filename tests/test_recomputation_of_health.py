"""The figures of a drive's health once more, from the raw answers of its tools: before, after, differences, alarms."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.lab.device.health import read_health
from snia_pts.report.registry import build
from snia_pts.report.tables import Table
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from tests import samples
from tests.recomputation.printed import check, check_number, plain
from tests.test_health import NVME, OCP, SMART, Drive

#: Offset, size and unit of fields of OCP's log page C0h (Datacenter NVMe SSD Specification, SMART-1 to SMART-25).
_PAGE = {
    "Physical Media Units Written": (0, 16, "bytes"),
    "Physical Media Units Read": (16, 16, "bytes"),
    "Bad User NAND Blocks, Raw": (32, 6, ""),
    "Bad User NAND Blocks, Normalized": (38, 2, "%"),
    "Bad System NAND Blocks, Raw": (40, 6, ""),
    "Bad System NAND Blocks, Normalized": (46, 2, "%"),
    "XOR Recovery Count": (48, 8, ""),
    "Uncorrectable Read Error Count": (56, 8, ""),
    "Soft ECC Error Count": (64, 8, ""),
    "End to End Detected Errors": (72, 4, ""),
    "End to End Corrected Errors": (76, 4, ""),
    "System Data % Used": (80, 1, "%"),
    "Refresh Counts": (81, 7, ""),
    "Maximum User Data Erase Count": (88, 4, ""),
    "Minimum User Data Erase Count": (92, 4, ""),
    "Number of Thermal Throttling Events": (96, 1, ""),
    "Current Throttling Status": (97, 1, ""),
    "PCIe Correctable Error Count": (104, 8, ""),
    "Incomplete Shutdowns": (112, 4, ""),
    "% Free Blocks": (120, 1, "%"),
    "Capacitor Health": (128, 2, "%"),
    "Unaligned I/O": (136, 8, ""),
    "Security Version Number": (144, 8, ""),
    "Total NUSE": (152, 8, ""),
    "PLP Start Count": (160, 16, ""),
    "Endurance Estimate": (176, 16, "bytes"),
}
#: Keys of nvme-cli with the specification's names, the size of a unit, and the unit.
_SMART = {
    "critical_warning": ("Critical Warning", 1, ""),
    "avail_spare": ("Available Spare", 1, "%"),
    "percent_used": ("Percentage Used", 1, "%"),
    "data_units_read": ("Data Units Read", 512_000, "bytes"),
    "data_units_written": ("Data Units Written", 512_000, "bytes"),
    "host_write_commands": ("Host Write Commands", 1, ""),
    "controller_busy_time": ("Controller Busy Time", 1, "min"),
    "power_cycles": ("Power Cycles", 1, ""),
    "power_on_hours": ("Power On Hours", 1, "h"),
    "unsafe_shutdowns": ("Unsafe Shutdowns", 1, ""),
    "media_errors": ("Media and Data Integrity Errors", 1, ""),
    "warning_temp_time": ("Warning Composite Temperature Time", 1, "min"),
    "thm_temp1_trans_count": ("Thermal Management Temperature 1 Transitions", 1, ""),
    "thm_temp2_total_time": ("Thermal Management Temperature 2 Time", 1, "s"),
}
#: Counters that cause a warning if they rise during the test, and those that must always be 0.
_ALARMS = {
    "faults of the drive": {
        "Bad User NAND Blocks, Raw",
        "Bad System NAND Blocks, Raw",
        "Uncorrectable Read Error Count",
        "End to End Detected Errors",
        "PCIe Correctable Error Count",
        "Incomplete Shutdowns",
        "Unsafe Shutdowns",
        "Media and Data Integrity Errors",
    },
    "heat of the drive": {
        "Number of Thermal Throttling Events",
        "Warning Composite Temperature Time",
        "Thermal Management Temperature 1 Transitions",
        "Thermal Management Temperature 2 Time",
    },
    "power of the drive": {"Power Cycles"},
}
_STATES = {"Critical Warning", "Current Throttling Status"}
_UNITS = {"PB": 1e15, "TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}

Reading = tuple[dict[str, Any], bytes]


def answers(dice: random.Random) -> tuple[Reading, Reading]:
    """Return the answers of a drive's tools before and after a test, in which about half of the counters rise."""
    page, later = bytearray(OCP), bytearray(OCP)
    for name, (offset, size, _) in _PAGE.items():
        value = dice.randrange(min(200, 256**size - 60)) if name not in _STATES else dice.choice((0, 2))
        value *= 10**10 if size == 16 else 1
        grown = value + dice.choice((0, dice.randrange(1, 50))) * (10**10 if size == 16 else 1)
        page[offset : offset + size], later[offset : offset + size] = (
            number.to_bytes(size, "little") for number in (value, grown)
        )
    smart = {key: dice.randrange(10**6) for key in _SMART} | {"critical_warning": 0, "avail_spare": 100}
    after = {key: value + dice.choice((0, dice.randrange(1, 10**6))) for key, value in smart.items()}
    after |= {"critical_warning": dice.choice((0, 4)), "avail_spare": 99}
    return ({**SMART, **smart}, bytes(page)), ({**SMART, **after}, bytes(later))


def decoded(reading: Reading) -> dict[str, tuple[int, str]]:
    """Return the values of a reading with their units."""
    smart, page = reading
    found = {name: (smart[key] * factor, unit) for key, (name, factor, unit) in _SMART.items()}
    for name, (offset, size, unit) in _PAGE.items():
        found[name] = int.from_bytes(page[offset : offset + size], "little"), unit
    return found


@pytest.mark.long_but_first
@pytest.mark.parametrize("seed", range(5))
def test_the_health_of_a_drive_is_that_of_its_answers(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table, write amplification and alarms follow from the raw answers, within half of the last digit."""
    before, after = answers(random.Random(seed))
    readings = []
    for number, (smart, page) in enumerate((before, after)):
        Drive(monkeypatch, smart_log=smart, get_log=page)
        folder = tmp_path / str(number)
        folder.mkdir()
        readings.append(read_health(NVME, folder))
    result = samples.result_of("iops")
    result = replace(result, facts=replace(result.facts, health=readings[0]), health_after=readings[1])
    tables = health_tables(result)

    rows = {row[0]: row for row in tables["Drive health counters"]}
    was, now = decoded(before), decoded(after)
    for name, (value, unit) in was.items():
        for cell, expected in zip(rows[name][1:4], (value, now[name][0], now[name][0] - value), strict=True):
            check_amount(cell, expected, unit)
    check_amplification(dict(tables["Readings"])["Write amplification"], was, now)
    warned = {warning.what: warning.detail for warning in run_warnings(result)}
    expected_alarms = alarms(was, now)
    assert {what: warned.get(what) for what in (*_ALARMS, "state of the drive")} == {
        what: expected_alarms.get(what) for what in (*_ALARMS, "state of the drive")
    }
    check_counters(result, was, now)


def check_counters(result: TestResult, was: dict[str, tuple[int, str]], now: dict[str, tuple[int, str]]) -> None:
    """Compare the warnings about counters of host I/O that are more than 10 % and 2 GiB below the test's own I/O."""
    details = [warning.detail for warning in run_warnings(result) if warning.what == "counters of the drive"]
    for name, side, verb in (("Data Units Written", "write", "wrote"), ("Data Units Read", "read", "read")):
        tested = sum(getattr(measurement, side).transferred_bytes for measurement in result.measurements)
        counted = now[name][0] - was[name][0]
        if tested - counted > max(tested / 10, 2 * 2**30):
            match = re.match(
                rf"{name}, NVMe SMART log increased by (.+), but the test alone {verb} (.+) \(", details.pop(0)
            )
            assert match
            check_amount(match[1], counted, "bytes")
            check_amount(match[2], tested, "bytes")
    assert not details


def health_tables(result: TestResult) -> dict[str, list[list[str]]]:
    """Return the tables of the page on the health of the drive."""
    (page,) = (page for page in build(result).pages if page.title == "Drive Health")
    return {
        block.title: [[plain(cell) for cell in row] for row in block.rows]
        for block in page.blocks
        if isinstance(block, Table)
    }


def check_amount(cell: str, expected: float, unit: str) -> None:
    match = re.fullmatch(r"(-?[0-9.]+)\s?(\S*)", cell)
    assert match, cell
    factor = _UNITS[match[2]] if unit == "bytes" else 1.0
    assert unit in ("bytes", match[2])
    check_number(match[1], expected / factor)


def check_amplification(cell: str, was: dict[str, tuple[int, str]], now: dict[str, tuple[int, str]]) -> None:
    """Compare the write amplification: bytes written to the media by those that the host wrote."""
    media, host = (now[name][0] - was[name][0] for name in ("Physical Media Units Written", "Data Units Written"))
    if not (media and host):
        assert cell.startswith("n/a")
        return
    match = re.search(r"([0-9.]+)\s?(\w+) on the media .* for ([0-9.]+)\s?(\w+) by the host", cell)
    assert match, cell
    check(cell.partition(":")[0], media / host)
    check_number(match[1], media / _UNITS[match[2]])
    check_number(match[3], host / _UNITS[match[4]])


def alarms(was: dict[str, tuple[int, str]], now: dict[str, tuple[int, str]]) -> dict[str, str]:
    """Return the sentences of the alarms; the figures of a sentence are in the order of the logs."""
    order = [name for name, _, _ in _SMART.values()] + list(_PAGE)
    found = {}
    for what, names in _ALARMS.items():
        grown = [name for name in order if name in names and now[name][0] > was[name][0]]
        if grown:
            details = (f"{name} is {now[name][0]}, and was {was[name][0]}" for name in grown)
            found[what] = f"new during the test: {'; '.join(details)}"
    if states := [name for name in order if name in _STATES and now[name][0]]:
        found["state of the drive"] = f"the drive reports: {'; '.join(f'{name} is {now[name][0]}' for name in states)}"
    return found
