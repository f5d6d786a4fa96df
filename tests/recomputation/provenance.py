"""The measured figures of the procedure, and of the judgement of host or drive."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.recomputation import host
from tests.recomputation.printed import Expected, PrintedTable, check_number, in_decimal_unit, labelled, text
from tests.recomputation.record import (
    Row,
    continuous_phase,
    facts,
    is_imported,
    is_profile,
    is_simulated,
    journal,
    measurements,
    per_second,
    rows,
    values,
)


@dataclass(frozen=True)
class Gap:
    """A time without I/O before a measurement, as the journal has it; ``requested`` seconds of it are of the test."""

    requested: float
    idle_ms: float
    suite_ms: float
    disturbed: bool


def started_seconds(run: Path, measured: Row) -> float:
    """Return when the I/O of a measurement started: its end, by the monotonic clock, less its I/O time."""
    runtime_ms = max(values(measured, "read_runtime_ms", "write_runtime_ms"))
    for entry in journal(run):
        outcome = entry.get("outcome", {})
        if outcome.get("evidence") == measured["evidence"]:
            return float(outcome["timing"]["ended_monotonic_ns"]) / 1e9 - runtime_ms / 1000
    raise AssertionError(f"{measured['evidence']} is not in the journal")


@cache
def purges_and_gaps(run: Path) -> tuple[list[dict[str, Any]], list[Gap]]:
    """Return the journal's outcomes of purges, and its gaps; a purge between two measurements is no gap."""
    purges: list[dict[str, Any]] = []
    gaps: list[Gap] = []
    requested, purged = 0.0, False
    for entry in journal(run):
        if entry["kind"] == "step" and entry["step"]["kind"] == "idle":
            requested = float(entry["step"]["seconds"])
        outcome = entry.get("outcome", {"kind": ""})
        if outcome["kind"] == "purge":
            purges.append(outcome)
            purged = True
        if outcome["kind"] == "measurement":
            timing = outcome["timing"]
            if timing["idle_gap_ms"] is not None and not purged:
                disturbed = (timing["idle_bytes"] or 0) > 8e6 or (timing["idle_ios"] or 0) > 500
                gaps.append(Gap(requested, timing["idle_gap_ms"], timing["suite_gap_us"] / 1000, disturbed))
            requested, purged = 0.0, False
    return purges, gaps


# -- procedure --------------------------------------------------------------------------------------------------------


def procedure(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the figures of the procedure: purges, preconditioning, gaps and starts of the engine."""
    expected: dict[str, Expected] = {"Evidence": None, "Report id": _identity(run), "Checksums": _checksums(run)}
    for phase, name in (("WIPC", "WIPC"), ("fill", "Fill")):
        expected |= {_label(name, row): _preconditioning(run, row) for row in measurements(run, phase)}
    expected["Idle gap between points"] = _gaps(run)
    if facts(run)["dut.kind"] != "simulated":
        expected["fio starts per continuous stimulus"] = _starts(run) or None
    if not purges_and_gaps(run)[0]:
        expected["Purge"] = "not reported" if is_imported(run) else "none"
    purges = iter(purges_and_gaps(run)[0])
    for label, _ in table.body:
        if label.startswith("Purge") and label not in expected:
            purge = next(purges)
            time, unit = (1000 * purge["seconds"], "{} ms") if purge["seconds"] < 0.1 else (purge["seconds"], "{time}")
            erased, proof = [purge["samples"] - purge["survivors"], purge["samples"]], ""
            if not is_simulated(run):
                proof = "; verified: {} of {} sample blocks were erased"
            expected[label] = text(f"{{any}}, {unit}{proof}", time, *map(float, erased if proof else ()))
        if label.startswith("Idle for"):
            expected[label] = _idle(run, float(label.split()[2]))
    return labelled(table, expected)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _identity(run: Path) -> str:
    digest = _sha256(run / "journal.jsonl")
    return (
        f"{digest[:16]}, the first 16 digits of the SHA-256 of journal.jsonl ({digest}). The journal has the facts "
        "and results of the run, and the SHA-256 of its evidence. Later reports on the run have the same id, also with "
        "other limits or annotations."
    )


def _checksums(run: Path) -> str:
    """Return the digest of a list that has each file it names with its digest."""
    for line in (run / "SHA256SUMS").read_text().splitlines():
        digest, path = line.split("  ", maxsplit=1)
        assert digest == _sha256(run / path), path
    listed = "the imported files" if is_imported(run) else "the engine's results of the measurements"
    return f"SHA256SUMS (SHA-256 {_sha256(run / 'SHA256SUMS')}) lists {listed}"


def _label(name: str, row: Row) -> str:
    return f"{name}, {row['part']}" if row["part"] else name


def _preconditioning(run: Path, row: Row) -> Expected:
    """Return what was written: the user capacity twice, which is more than two passes over a part of it.

    A profile writes once what its workloads access.
    """
    written, range_bytes, milliseconds = values(row, "write_bytes", "range_bytes", "write_runtime_ms")
    passes = 1.0 if is_profile(run) else 2 * float(facts(run)["dut.capacity_bytes"]) / range_bytes
    (size, size_unit), (amount, unit) = in_decimal_unit(range_bytes), in_decimal_unit(written)
    figures = (passes, size, *values(row, "thread_count", "queue_depth"), amount, written)
    template = (
        f"{row['point']}, {{}} pass{'es' * (passes != 1)} over {{}} {size_unit}, TC {{}}/QD {{}}: "
        f"{{}} {unit} written ({{}} bytes) in {{time}}, {{}} MB/s"
    )
    return text(template, *figures, milliseconds / 1000, per_second(written / 1e6, milliseconds / 1000))


def _gaps(run: Path) -> Expected:
    """Return the gaps between points that the test did not request."""
    kept = [gap for gap in purges_and_gaps(run)[1] if not gap.requested]
    if not kept:
        return "n/a"
    if is_simulated(run) and not any(gap.idle_ms for gap in kept):
        return "none (virtual time)"
    idle, suite = [gap.idle_ms for gap in kept], [gap.suite_ms for gap in kept]
    figures = [float(reduce(part)) for part in (idle, suite) for reduce in (np.median, np.max)]
    gaps = f"gap{'s' * (len(kept) != 1)}"
    times = "median {} ms, longest {} ms"
    words = "this includes the start and the end of the I/O engine. The suite itself took"
    return text(f"{{}} {gaps}: {times}; {words}: {times}", float(len(kept)), *figures)


def _idle(run: Path, requested: float) -> Expected:
    """Return the idle times that the test requested."""
    gaps = [gap for gap in purges_and_gaps(run)[1] if gap.requested == requested]
    kept = [gap.idle_ms / 1000 for gap in gaps]
    if is_simulated(run) and {*kept} == {requested}:
        return text("{} times (virtual time)", float(len(kept)))
    figures = [float(len(kept)), *(float(reduce(kept)) for reduce in (np.min, np.median, np.max))]
    template = "{} times without host I/O: {} s shortest, {} s median, {} s longest (upper bounds)"
    if disturbed := sum(gap.disturbed for gap in gaps):
        template = template.replace("host I/O", "I/O of the test") + "; other programs did I/O in {} of them"
        figures.append(float(disturbed))
    return text(template, *figures)


def _starts(run: Path) -> Expected:
    """Return how often the engine started for each continuous stimulus; parts with equal counts are one figure."""
    starts: dict[tuple[str, str], int] = {}
    for row in rows(run, "measurements"):
        phase = continuous_phase(run, row)
        if phase not in ("WIPC", "fill", "round"):
            starts[phase, row["part"]] = starts.get((phase, row["part"]), 0) + 1
    parts = Counter((phase, count) for (phase, _), count in starts.items())
    shown = (
        f"{phase}: {count}" if number == 1 else f"{phase}: {count} for each of {number}"
        for (phase, count), number in parts.items()
    )
    return "; ".join(shown)


# -- host or drive ----------------------------------------------------------------------------------------------------


def verdicts(run: Path) -> Expected:
    """Return how many points have each verdict, those of the windows and the continuous stimuli."""
    judged = host.judged_points(run)
    if not judged:
        return "n/a"
    kinds = Counter(part.startswith("/") for part, _ in judged)
    counts = Counter((part.startswith("/"), verdict) for (part, _), verdict in judged.items())
    if not kinds[True] and host.is_in_page_cache(run):
        points = f"point{'s' * (kinds[False] != 1)}"
        template = f"none of {{}} {points} judged, because all I/O passed through the page cache"
        return text(template, float(kinds[False]))
    nouns = {False: ("point", "points"), True: ("continuous stimulus", "continuous stimuli")}
    templates, figures = [], []
    for kind in (kind for kind in (False, True) if kinds[kind]):
        noun = nouns[kind][kinds[kind] != 1]
        templates.append(f"{{}} {noun}: {{}} host-limited, {{}} {host.not_limited(run)}, {{}} undetermined")
        figures += [kinds[kind], counts[kind, True], counts[kind, False], counts[kind, None]]
    if False in judged.values() and not host.null_targets(run):
        templates.append("not compared with a host ceiling, the IOPS that this host reaches on a null device")
    return text("; ".join(templates), *map(float, figures))


def host_or_drive(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return how many points have each verdict, and the reasons."""
    expected: dict[str, Expected] = {"Points judged": verdicts(run), "Rule": None, "Host ceiling": None}
    for verdict, label in ((True, "Host-limited measurements"), (None, "Undetermined measurements")):
        found = host.reasons(run)[verdict]
        expected[label] = partial(_check_reasons, found) if found else None
    return labelled(table, expected)


def _check_reasons(found: Counter[str], cell: str) -> None:
    shown = re.findall(r"(?:^|; )(.*?) \((\d+) measurements?\)(?=;|$)", cell)
    assert {reason: int(count) for reason, count in shown} == found


def host_ceilings(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the ranges of CPU time per I/O and of IOPS of each kind of I/O, from the answers on a null target."""
    cpus = host.cpus(run)
    assert table.heading[3] == f"Host IOPS ({cpus} CPU{'s' * (cpus != 1)})"
    found: dict[str, list[host.NullTarget]] = {}
    for target in host.null_targets(run):
        found.setdefault(target.kind, []).append(target)
    cells: list[list[Expected]] = []
    for kind, targets in found.items():
        demands = sorted((target.threads, target.depth) for target in targets)
        names = [f"T{threads}Q{depth}" for threads, depth in demands]
        costs = [target.cost_us for target in targets]
        rates = [min(target.threads, cpus) / target.cost_us * 1e6 for target in targets]
        shown = " - ".join(dict.fromkeys((names[0], names[-1])))
        cells.append([kind, shown, partial(_check_range, costs), partial(_check_range, rates)])
    return cells


def _check_range(figures: list[float], cell: str) -> None:
    shown = cell.split(" - ")
    check_number(shown[0], min(figures))
    check_number(shown[-1], max(figures))
