"""The tables of IOPS per watt: rates from the engine's answers, power from a drive's preset or the readings."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from tests.recomputation.printed import Expected, PrintedTable
from tests.recomputation.record import Row, answers, facts, rate, rows, window_of

_PRESETS = Path(__file__).parents[2] / "specs" / "drives"


def _watts(run: Path, row: Row, name: str, answer: tuple[dict[str, Any], dict[str, Any]], seconds: float) -> float:
    """Return the power of a measurement."""
    target = facts(run)["dut.path"]
    if not target.startswith("sim:"):
        return float(row[name])
    power = tomllib.loads((_PRESETS / f"{target.removeprefix('sim:')}.toml").read_text())["power"]
    read, write = answer
    joules = power["microjoules_per_io"] * (read["total_ios"] + write["total_ios"]) / 1e6
    joules += (
        power["joules_per_read_gb"] * read["io_bytes"] / 1e9 + power["joules_per_written_gb"] * write["io_bytes"] / 1e9
    )
    return float(power["idle_watts"] + joules / seconds)


def _figures(run: Path, measured: list[Row], name: str, *, by_time: bool = False) -> list[Expected]:
    """Return IOPS, MB/s, watts, and the rates per watt with four digits; ``by_time``: each row counts by its time."""
    each, times = [], []
    for row in measured:
        read, write = answers(run, [row])
        seconds = max(read["runtime"], write["runtime"]) / 1000
        rates = (rate((read, write), "total_ios"), rate((read, write), "io_bytes") / 1e6)
        times.append(seconds if by_time else 1.0)
        each.append((*rates, _watts(run, row, name, (read, write), seconds)))
    iops, mb_per_second, watts = (float(value) for value in np.average(each, axis=0, weights=times))
    return [iops, mb_per_second, watts, *(float(f"{rate / watts:.4g}") for rate in (iops, mb_per_second))]


def per_watt(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the figures of each continuous stimulus and of each point of the windows."""
    name = "host_watts" if table.title.endswith("packages)") else "watts"
    expected: dict[str, list[Expected]] = {}
    kept: dict[tuple[str, str], list[Row]] = {}
    for row in rows(run, "measurements"):
        if row["phase"] != "round":
            kept.setdefault((row["phase"], row["part"]), []).append(row)
    for (phase, part), measured in kept.items():
        where = ", ".join(filter(None, ("whole stimulus" if phase == "stimulus" else phase, part)))
        label = f"{measured[0]['point']} {_demand(measured[0])} ({where})"
        expected[label] = _figures(run, measured, name, by_time=True)
    for point in rows(run, "points"):
        expected[f"{point['point']} {_demand(point)}"] = _figures(run, window_of(run, point), name)
    return [[label, *figures] for label, figures in expected.items()]


def _demand(row: Row) -> str:
    return f"T{row['thread_count']}Q{row['queue_depth']}"
