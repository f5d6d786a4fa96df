"""Time and memory from a stored run to its report, and of ``--help`` and ``--plan``, compared with TKperf.

``python bench/report.py RUN [--repeats 3]`` makes the report of RUN again, each time in a separate process. ``--tkperf
CHECKOUT --tkperf-python PYTHON`` lets TKperf plot the rounds of RUN, an IOPS run of the whole matrix, and rst2pdf make
its PDF, alternating with the suite. PYTHON is an interpreter with the libraries of both: Python 3.10 with matplotlib
3.5.3, numpy below 1.25, lxml, simplejson, docutils 0.20.1 and rst2pdf. The same turns measure the libraries alone:
matplotlib for the same number of figures with one line, rst2pdf for the report's text without figures.

The first turn writes the bytecode of every program, as an installation does, and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snia_pts.results.result import TestResult

_MIXES = (100, 95, 65, 50, 35, 5, 0)
_SIZES = (1024, 128, 64, 32, 16, 8, 4, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one or several consecutive programs: seconds, CPU seconds, and peak resident memory in MiB."""

    seconds: float
    cpu_seconds: float
    mib: float


def cost(*programs: Sequence[str | Path], folder: Path | None = None, **environment: str) -> Cost:
    """Return the total cost of programs; the memory is that of the largest, and at least ours, because they fork."""
    began, cpu, mib = time.monotonic(), 0.0, 0.0
    for argv in programs:
        process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, env={**os.environ, **environment}
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, argv))} failed")
        cpu, mib = cpu + usage.ru_utime + usage.ru_stime, max(mib, usage.ru_maxrss / 1024)
    return Cost(seconds=time.monotonic() - began, cpu_seconds=cpu, mib=mib)


def tkperf_xml(result: TestResult) -> str:
    """Return the rounds of an IOPS test as TKperf 2.2 stores them: texts are JSON, block sizes in KiB descend."""
    rounds = [
        [[round(figures[mix, size]) for size in _SIZES] for mix in _MIXES]
        for figures in (
            {
                (measurement.stimulus.read_percent, measurement.stimulus.largest_block_bytes / 1024): measurement.iops
                for measurement in measured
            }
            for measured in (measured_round.measurements for measured_round in result.loops[0].complete)
        )
    ]
    last = len(rounds) - 1
    values = [measured_round[-1][-2] for measured_round in rounds[-5:]]
    fields = {
        "fioversion": "fio-3.33\n",
        "numjobs": 4,
        "iodepth": 32,
        "runtime": 60,
        "xargs": [],
        "roundmat": rounds,
        "stdyrounds": list(range(last - 4, last + 1)),
        "stdyvalues": values,
        "stdyslope": [0.0, values[0]],
        "stdyavg": statistics.fmean(values),
        "reachstdystate": True,
        "rndnr": last,
    }
    head = {
        "testdate": "2026-01-01",
        "devinfo": "Device Logical Sector Size: 512",
        "kernel": "Linux\n",
        "lsb": "Debian\n",
        "ioperfversion": "2.2",
        "cmdline": "tkperf ssd run none",
    }

    def elements(values: dict[str, object]) -> str:
        return "".join(f"<{name}>{json.dumps(value)}</{name}>" for name, value in values.items())

    return f"<run>{elements(dict(head))}<iops>{elements(fields)}</iops></run>"


#: Makes figures of one line as SVG and PDF; the argument is their number.
_PLOTTED = """
import io, sys
from matplotlib.figure import Figure
for _ in range(int(sys.argv[1])):
    figure = Figure(figsize=(6.9, 4.3))
    figure.subplots().plot(range(11))
    for form in ("svg", "pdf"):
        figure.savefig(io.BytesIO(), format=form)
"""
_TYPESET = "import sys; from rst2pdf.createpdf import main; main(sys.argv[1:])"


def by_tkperf(document: str, checkout: Path, python: Path) -> Cost:
    """Run TKperf's plots of the rounds of ``document``, and rst2pdf for its PDF."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.xml").write_text(document)
        plots = (python, checkout / "scripts" / "tkperf", "ssd", "run", "none", "-xml", "-ssdt", "iops")
        total = cost(
            plots,
            (python.parent / "rst2pdf", "run.rst"),
            folder=folder,
            PYTHONPATH=str(checkout / "src"),
            MPLBACKEND="agg",
        )
        if not (folder / "run.pdf").exists():
            raise SystemExit("rst2pdf made no PDF of TKperf's report")
    return total


def by_libraries(run: Path) -> tuple[Cost, Cost]:
    """Return the cost of matplotlib for the number of figures of ``run``, and of rst2pdf for its text."""
    figures = len(list((run / "figures").glob("*.svg")))
    text = re.sub(r"(?m)^\.\. (figure|header)::.*\n(?:(?: .*)?\n)*", "\n", (run / "report.rst").read_text())
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "text.rst"
        source.write_text(text)
        return (
            cost((sys.executable, "-c", _PLOTTED, str(figures))),
            cost((sys.executable, "-c", _TYPESET, str(source), "-o", f"{name}/text.pdf")),
        )


def beside_tkperf(run: Path, checkout: Path, python: Path, suite: Sequence[str], repeats: int) -> None:
    """Run TKperf and the suite on the same rounds in turns, and print their costs."""
    from snia_pts.record.folder import RunFolder
    from snia_pts.record.replay import assess

    document = tkperf_xml(assess(RunFolder.existing(run)))
    costs: dict[str, list[Cost]] = {}
    for _ in range(1 + repeats):
        ours = cost([*suite, "report", str(run), "--to", "rst,pdf,html,xlsx"])
        theirs = by_tkperf(document, checkout, python)
        plotted, typeset = by_libraries(run)
        for name, found in (
            ("TKperf's four plots, rst2pdf", theirs),
            ("ours: PDF, HTML, XLSX", ours),
            ("matplotlib: figures of a line", plotted),
            ("rst2pdf: the text alone", typeset),
        ):
            costs.setdefault(name, []).append(found)
    print(f"{'medians, the largest':34} seconds CPU seconds peak MiB   TKperf : this, and of CPU seconds")
    theirs_first, *_ = costs.values()
    for name, item in costs.items():
        counted = item[1:]
        seconds, cpu = statistics.median(c.seconds for c in counted), statistics.median(c.cpu_seconds for c in counted)
        pairs = list(zip(theirs_first[1:], counted, strict=True))
        ratio = statistics.median(t.seconds / o.seconds for t, o in pairs)
        of_cpu = statistics.median(t.cpu_seconds / o.cpu_seconds for t, o in pairs)
        print(f"{name:34} {seconds:7.2f} {cpu:11.2f} {max(c.mib for c in counted):8.0f}   {ratio:.2f} {of_cpu:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tkperf", type=Path, metavar="CHECKOUT")
    parser.add_argument("--tkperf-python", type=Path, metavar="PYTHON", default=Path(sys.executable))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as prefix:
        os.environ |= {"PYTHONPYCACHEPREFIX": prefix, "PYTHONDONTWRITEBYTECODE": ""}
        suite = [sys.executable, "-m", "snia_pts"]
        if arguments.tkperf:
            beside_tkperf(arguments.run, arguments.tkperf, arguments.tkperf_python, suite, arguments.repeats)
        else:
            alone(arguments.run, suite, arguments.repeats)


def alone(run: Path, suite: Sequence[str], repeats: int) -> None:
    """Print the cost of the suite's commands that need no device."""
    commands = {
        "interpreter alone": [sys.executable, "-c", "pass"],
        "--help": [*suite, "iops", "--help"],
        "--plan": [*suite, "iops", "no-such.img", "--size", "1G", "--plan"],
        "assess": [*suite, "assess", str(run)],
        "report (RST, PDF, HTML, XLSX)": [*suite, "report", str(run)],
    }
    print(f"{'':30} {'seconds':>7} {'CPU seconds':>11} {'peak MiB':>8} (medians, the largest)")
    for name, argv in commands.items():
        costs = [cost(argv) for _ in range(1 + repeats)][1:]
        seconds = statistics.median(item.seconds for item in costs)
        cpu_seconds = statistics.median(item.cpu_seconds for item in costs)
        print(f"{name:30} {seconds:7.2f} {cpu_seconds:11.2f} {max(item.mib for item in costs):8.0f}", flush=True)


if __name__ == "__main__":
    main()
