"""The duration of simulated tests, and the picture of docs/simulation.rst.

bench/simulation.py                          the IOPS test, and all eight tests, at full length on a simulated drive
bench/simulation.py --picture FILE.svg       IOPS against drive fills, from FOB on, for every simulated flash drive
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from snia_pts.lab.simulated.drive import SimulatedDrive
from snia_pts.lab.simulated.preset import preset_names, read_preset
from snia_pts.model.steps import Stimulus

_MEBIBYTE = 1024
_FILLS = 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", type=Path)
    parser.add_argument("--drive", default="enterprise-nvme")
    arguments = parser.parse_args()
    if arguments.picture:
        picture(arguments.picture)
    else:
        rehearsals(arguments.drive)


def rehearsals(drive: str) -> None:
    """Run complete tests in child processes, and print their duration and memory."""
    print(f"{'test':30} {'wall (s)':>9} {'CPU (s)':>9} {'peak RSS (MiB)':>15}")
    for verb in (["iops"], ["all", "--advanced"]):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "snia_pts", *verb, f"sim:{drive}", "--run-dir", f"{folder}/run"]
            wall, cpu, peak = measured(command)
        print(f"{' '.join(verb):30} {wall:9.1f} {cpu:9.1f} {peak:15.0f}")


def measured(command: list[str]) -> tuple[float, float, float]:
    """Run a command on one CPU; return wall and CPU seconds and MiB at its peak."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / _MEBIBYTE


def picture(path: Path) -> None:
    """Draw random 4 KiB writes from FOB to steady state."""
    from snia_pts.report.figures import axes as ax
    from snia_pts.report.figures.figure import canvas, legend_beside, plot
    from snia_pts.report.figures.render import settings
    from snia_pts.report.figures.style import series_styles

    names = [name for name in preset_names() if read_preset(name).media.over_provisioning_percent]
    with settings():
        figure = canvas(height=3.6)
        axes = plot(figure, left=0.8, right=2.0, bottom=0.55, top=0.2)
        ax.dress(axes)
        styles, heights = series_styles(names), []
        for name in names:
            fills, iops = course(name)
            axes.plot(fills, iops, label=name, color=styles[name].colour, linestyle=styles[name].dash)
            heights += iops
        ax.set_linear_x(axes, [0.0, _FILLS])
        axes.set_xlabel("Drive fills (bytes written / user capacity)")
        ax.set_y(axes, heights, "IOPS", log=True)
        legend_beside(axes, "sim:")
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def course(name: str, fills: float = _FILLS, steps: int = 300) -> tuple[list[float], list[float]]:
    """Return drive fills and IOPS at ``steps`` points in time."""
    drive = SimulatedDrive(read_preset(name), 1)
    capacity = drive.preset.drive.capacity_bytes
    stimulus = Stimulus(
        access="RND",
        read_percent=0,
        block_size_bytes=4096,
        thread_count=4,
        queue_depth=32,
        range_offset_bytes=0,
        range_bytes=capacity,
        seconds=60.0,
    )
    done = [drive.run(stimulus, float("inf"), fills * capacity / steps) for _ in range(steps)]
    return [fills * (place + 0.5) / steps for place in range(steps)], [item.write.ios / item.seconds for item in done]


if __name__ == "__main__":
    main()
