"""Holds result.xml against fio's own JSON in evidence/, with nothing of the suite.

``python tests/check_cells.py RUN`` prints how many measurements and cells agree; exit code 1, and a line for each that
does not.
"""

import hashlib
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def fio_figures(path: Path) -> dict[str, float]:
    """Return a point's figures from fio's own totals, reads and writes together."""
    text = path.read_text(encoding="utf-8")
    (job,) = json.loads(text[text.index("{") :])["jobs"]
    sides = [job[side] for side in ("read", "write") if job[side]["total_ios"]]
    ios = sum(side["total_ios"] for side in sides)
    return {
        "iops": sum(1000 * side["total_ios"] / side["runtime"] for side in sides),
        "mb_per_second": sum(side["io_bytes"] / side["runtime"] / 1000 for side in sides),
        "average_response_us": sum(side["lat_ns"]["mean"] * side["total_ios"] for side in sides) / ios / 1000,
        "maximum_response_us": max(side["lat_ns"]["max"] for side in sides) / 1000,
    }


def main(run: Path) -> int:
    """Compare; return the exit code."""
    root = ElementTree.parse(run / "result.xml").getroot()  # noqa: S314 - the suite's own parser is what is checked
    wrong: list[str] = []
    points: dict[tuple[str, tuple[str | None, str | None]], float] = {}
    for measured in root.findall("round"):
        for point in measured.findall("measurement"):
            evidence = run / "evidence" / f"{point.get('evidence')}.json"
            figures = fio_figures(evidence)
            key = (point.get("read_percent"), point.get("block_size_bytes"))
            points[measured.get("number", ""), key] = figures["iops"]
            for name, value in figures.items():
                if not abs(float(point.get(name, "nan")) - value) <= 1e-12 * value:
                    wrong.append(f"round {measured.get('number')} {key}: {name} {point.get(name)} stored, fio: {value}")
            if hashlib.sha256(evidence.read_bytes()).hexdigest() != point.get("evidence_sha256"):
                wrong.append(f"{evidence.name}: its SHA-256 is not the one stored")
    cells = [(window, cell) for window in root.findall("window") for cell in window.findall("cell")]
    for window, cell in cells:
        key = (cell.get("read_percent"), cell.get("block_size_bytes"))
        rounds = range(int(window.get("first", "")), int(window.get("last", "")) + 1)
        mean = sum(points[str(number), key] for number in rounds) / len(rounds)
        if abs(mean - float(cell.get("iops", "nan"))) > 1e-9 * mean:
            wrong.append(f"cell {key}: {cell.get('iops')} stored, the mean of fio's counts is {mean}")
    print("\n".join(wrong) or f"{len(points)} measurements and {len(cells)} cells agree")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
