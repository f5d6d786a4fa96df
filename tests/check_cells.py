"""Compares result.xml with fio's own JSON in evidence/, without any code of the suite.

``python tests/check_cells.py RUN`` prints how many measurements and cells agree; the exit code is 1, with a line for
each difference.
"""

import hashlib
import json
import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

#: The keys that distinguish the points of a loop.
KEY = ("access", "read_percent", "block_size_bytes", "block_mix", "thread_count", "queue_depth")
#: The shortest runtime of reads or writes, in ms, from which a rate is computed.
SHORTEST_RATED_MS = 100


def fio_figures(path: Path) -> dict[str, float]:
    """Return a point's figures from fio's own totals, reads and writes together; nan is a rate that is n/a."""
    text = path.read_text(encoding="utf-8")
    jobs = json.loads(text[text.index("{") :])["jobs"]  # one for all threads, or for sequential ones one each
    both = [[job[side] for job in jobs if job[side]["total_ios"]] for side in ("read", "write")]
    sides = [side for found in both for side in found]
    ios = sum(side["total_ios"] for side in sides)
    times = [(max(side["runtime"] for side in found), found) for found in both if found]
    rated = all(runtime >= SHORTEST_RATED_MS for runtime, _ in times)

    def rate(amount: str) -> float:
        rates = (sum(side[amount] for side in found) / runtime for runtime, found in times)
        return sum(rates) if rated else math.nan

    return {
        "iops": 1000 * rate("total_ios"),
        "mb_per_second": rate("io_bytes") / 1000,
        "average_response_us": sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides) / ios / 1000,
        "maximum_response_us": max(side["lat_ns"]["max"] for side in sides) / 1000,
    }


def main(run: Path) -> int:
    """Compare; return the exit code."""
    root = ElementTree.parse(run / "result.xml").getroot()  # noqa: S314 - the suite's own parser is what is checked
    wrong: list[str] = []
    measured = [*root.iter("measurement")]
    for point in measured:
        evidence = run / "evidence" / f"{point.get('evidence')}.json"
        for name, value in fio_figures(evidence).items():
            if not same(point.get(name), value, 1e-12):
                wrong.append(f"{point.get('evidence')}: {name} {point.get(name)} stored, fio: {value}")
        if hashlib.sha256(evidence.read_bytes()).hexdigest() != point.get("evidence_sha256"):
            wrong.append(f"{evidence.name}: its SHA-256 is not the one stored")
    cells = 0
    for loop in root.findall("loop"):
        window = loop.find("window")
        for cell in [] if window is None else window.findall("point"):
            cells += 1
            wrong += compare(run, loop, cell)
    print("\n".join(wrong) or f"{len(measured)} measurements and {cells} points agree")
    return bool(wrong)


def same(stored: str | None, value: float, tolerance: float) -> bool:
    """Return whether a stored number is the value, to a relative tolerance; a nan is not stored."""
    if math.isnan(value):
        return stored is None
    return stored is not None and abs(float(stored) - value) <= tolerance * abs(value)


def compare(run: Path, loop: ElementTree.Element, cell: ElementTree.Element) -> list[str]:
    """Compare the means of a point over its loop's window with fio's counts."""
    window, key = loop.find("window"), [cell.get(name) for name in KEY]
    numbers = range(int(window.get("first", "")), int(window.get("last", "")) + 1) if window is not None else ()
    found = [
        fio_figures(run / "evidence" / f"{point.get('evidence')}.json")
        for measured in loop.findall("round")
        for point in measured.findall("measurement")
        if int(measured.get("number", "")) in numbers and [point.get(name) for name in KEY] == key
    ]
    wrong = (
        [f"point {key}: {len(found)} measurements in a window of {len(numbers)}"] if len(found) != len(numbers) else []
    )
    for name in ("iops", "mb_per_second"):
        mean = sum(figures[name] for figures in found) / len(numbers)
        if not same(cell.get(name), mean, 1e-9):
            wrong.append(f"point {key}: {name} {cell.get(name)} stored, the mean of fio's counts is {mean}")
    greatest = max(figures["maximum_response_us"] for figures in found)
    if not same(cell.get("maximum_response_us"), greatest, 1e-9):
        wrong.append(f"point {key}: maximum_response_us {cell.get('maximum_response_us')} stored, fio: {greatest}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
