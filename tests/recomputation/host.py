"""Whether the host limited a point, by the rules of docs/host-limits.rst, from answers and the kernel's counters."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.recomputation.record import (
    Row,
    answer_document,
    answers,
    combined,
    facts,
    is_imported,
    is_profile,
    journal,
    rate,
    rows,
    uses_page_cache,
    window_of,
)

Verdict = bool | None
_NULL = "the IOPS were close to those on a null target"
_ENGINE = "the engine used the available CPU time"
_BUSY = "the host's CPUs were busy with the engine and other work"


@dataclass(frozen=True, kw_only=True)
class Share:
    """What is known of a measurement, in percent; nan if unknown.

    ``engine`` is the engine's CPU time of what its threads could get, ``ceiling`` the IOPS of those on a null target,
    ``cpus`` the load of all CPUs, ``busiest`` that of the busiest, ``drive`` the outstanding I/Os that were in the
    drive, ``stolen`` the CPU time that a hypervisor took of what the threads could get.
    """

    threads: int
    outstanding: int
    host_cpus: int
    engine_of_a_cpu: float
    ceiling: float
    cpus: float
    busiest: float
    drive: float
    stolen_of_all: float

    @property
    def engine(self) -> float:
        return self.engine_of_a_cpu * max(1.0, self.threads / self.host_cpus)

    @property
    def stolen(self) -> float:
        return min(100.0, self.stolen_of_all * max(1.0, self.host_cpus / self.threads))

    @property
    def balance(self) -> float:
        """The load of CPUs with which host and drive are equally fast."""
        per_cpu = self.outstanding / min(self.threads, self.host_cpus)
        return 100 * per_cpu / (per_cpu + 1)


def judge(share: Share) -> tuple[Verdict, tuple[str, ...]]:
    """Return whether the host limited a measurement, None if that is undetermined, and the reasons."""
    balance = share.balance
    for_host = [
        reason
        for reason, speaks in (
            (_ENGINE, share.engine >= min(90, balance)),
            (_NULL, share.ceiling >= min(75, balance)),
            (_BUSY, share.cpus >= 95 and share.engine >= 10 and not share.drive >= 50),
        )
        if speaks
    ]
    took_much = share.stolen > 10
    if share.drive >= 90:
        if share.busiest >= 98 and share.engine_of_a_cpu < 90:
            return None, ("one CPU was always busy, and not with the engine; it may handle the drive's interrupts",)
    elif for_host:
        return True, tuple(for_host)
    elif _may_be_limited(share, balance):
        return None, ("a hypervisor took CPU time that the engine may have needed",)
    elif math.isnan(share.engine) and math.isnan(share.ceiling):
        return None, ("the CPU time of the engine is unknown",)
    elif share.cpus >= 95 * (min(1, share.outstanding / share.host_cpus) if math.isnan(share.drive) else 1):
        return None, ("the host's CPUs were busy, and it is unknown whether I/Os waited for them",)
    elif share.drive < 50:
        return None, ("few of the outstanding I/Os were in the drive, although CPUs were idle",)
    if took_much:
        return None, ("a hypervisor took CPU time, so that I/Os that the drive had completed may have waited",)
    return False, ("nearly all outstanding I/Os were in the drive",) if share.drive >= 90 else ()


def _may_be_limited(share: Share, balance: float) -> bool:
    """Return whether there were reasons if the engine had got all of the stolen CPU time."""
    engine = share.engine + share.stolen
    ceiling = 100 * share.ceiling / max(1.0, 100 - share.stolen)
    busy = share.cpus >= 95 and engine >= 10 and not share.drive >= 50
    return engine >= min(90, balance) or ceiling >= min(75, balance) or busy


def of_majority(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of more than half of a point's measurements."""
    counts = Counter(verdicts)
    return next((verdict for verdict in (True, False) if 2 * counts[verdict] > len(verdicts)), None)


# -- a run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NullTarget:
    """A measurement on a target without latency: the cost of an I/O in CPU time."""

    kind: str
    threads: int
    depth: int
    cost_us: float


def cpus(run: Path) -> int:
    return int(journal(run)[0]["facts"]["platform"]["cpus"])


@cache
def null_targets(run: Path) -> list[NullTarget]:
    """Return the measurements on a null target; reads are measured as writes of buffers that are not filled."""
    found = []
    for job in sorted((run / "evidence").glob("00000-ceiling-*.fio")):
        document = json.loads(job.with_suffix(".json").read_text(encoding="utf-8"))
        jobs, options = document["jobs"], document["global options"] | document["jobs"][0]["job options"]
        access = "RND" if options["rw"] == "randwrite" else "SEQ"
        size = f"writes, {int(options['bs']) // 1024} KiB"
        kind = f"{access} {size if job.stem.endswith('write') else 'reads, any size'}"
        threads = int(options.get("numjobs", len(jobs)))
        iops = rate([combined([entry["write"] for entry in jobs])], "total_ios")
        found.append(NullTarget(kind, threads, int(options["iodepth"]), threads * engine_cpu(jobs) / 100 / iops * 1e6))
    return found


def not_limited(run: Path) -> str:
    """Return the name of the verdict on a point that the host did not limit, as far as is known."""
    return "not host-limited" if null_targets(run) else "without a sign of a host limit"


def engine_cpu(jobs: Sequence[dict[str, Any]]) -> float:
    """Return the mean CPU time of the engine's threads, in percent of one CPU."""
    return min(100.0, float(np.mean([job["usr_cpu"] + job["sys_cpu"] for job in jobs])))


def _ceiling(run: Path, row: Row) -> float:
    """Return the IOPS of a point on a null target; nan if one of its sides was not measured there."""
    costs = {(one.kind, one.threads, one.depth): one.cost_us for one in null_targets(run)}
    threads, depth, reads = (int(row[key]) for key in ("thread_count", "queue_depth", "read_percent"))
    if row.get("options") or not row.get("block_size_bytes"):
        return math.nan
    kinds = {
        f"{row['access']} reads, any size": reads,
        f"{row['access']} writes, {int(row['block_size_bytes']) // 1024} KiB": 100 - reads,
    }
    cost = sum(
        costs.get((kind, threads, depth), math.nan) * percent / 100 for kind, percent in kinds.items() if percent
    )
    return min(threads, cpus(run)) / cost * 1e6 if cost else math.nan


@cache
def verdict(run: Path, evidence: str) -> tuple[Verdict, tuple[str, ...]] | None:
    """Return the verdict on a measurement; None for one without a host, in the page cache, or limited by itself."""
    (row,) = (row for row in rows(run, "measurements") if row["evidence"] == evidence)
    options = row.get("options", "")
    cached = uses_page_cache(dict(option.split("=", 1) for option in options.split()))
    if facts(run)["dut.kind"] == "simulated" or is_imported(run) or cached:
        return None
    return None if re.search("rate|thinktime", options) else judge(_share(run, row))


def _share(run: Path, row: Row) -> Share:
    threads, depth = int(row["thread_count"]), int(row["queue_depth"])
    iops = rate(answers(run, [row]), "total_ios")
    seen = _telemetry(run)[row["evidence"]]
    block = seen.get("block") or {}
    requests = block.get("read_ios", 0) + block.get("write_ios", 0)
    drive = math.nan
    if facts(run)["dut.kind"] == "drive" and requests:
        drive = min(100.0, 100 * block["queue"] * seen["seconds"] / requests * iops / (threads * depth))
    return Share(
        threads=threads,
        outstanding=threads * depth,
        host_cpus=cpus(run),
        engine_of_a_cpu=engine_cpu(answer_document(run / "evidence" / f"{row['evidence']}.json")["jobs"]),
        ceiling=100 * iops / _ceiling(run, row),
        cpus=_known(seen.get("cpu_percent")),
        busiest=_known(seen.get("busiest_cpu_percent")),
        drive=drive,
        stolen_of_all=seen.get("stolen_percent") or 0.0,
    )


def _known(value: float | None) -> float:
    return math.nan if value is None else value


@cache
def _telemetry(run: Path) -> dict[str, dict[str, Any]]:
    outcomes = [entry["outcome"] for entry in journal(run) if entry["kind"] == "outcome"]
    return {item["evidence"]: item["telemetry"] or {} for item in outcomes if item["kind"] == "measurement"}


def judged_points(run: Path) -> dict[tuple[str, str], Verdict]:
    """Return the verdict on each point of the windows and on each continuous stimulus, by their parts and names.

    The part of a continuous stimulus is its phase and part, after a slash.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    demands = {(row["thread_count"], row["queue_depth"]) for row in rows(run, "points")}
    for row in rows(run, "points"):
        demand = "" if len(demands) == 1 or is_profile(run) else f" T{row['thread_count']}Q{row['queue_depth']}"
        found[row.get("part", ""), row["point"] + demand] = window_of(run, row)
    for row in rows(run, "measurements"):
        if row["phase"] not in ("WIPC", "fill", "round"):
            place = "/" + ", ".join(filter(None, (row["phase"], row["part"])))
            found.setdefault((place, row["point"]), []).append(row)
    return {name: limited(run, measured) for name, measured in found.items()}


def limited(run: Path, measured: Sequence[Row]) -> Verdict:
    """Return whether the host limited a point: in most of its measurements."""
    if is_imported(run):  # it has no answers of fio
        return None
    shares = [verdict(run, row["evidence"]) for row in measured]
    if any(share is None for share in shares):  # no measurement is judged, or all of them are
        return None
    return of_majority([share[0] for share in shares if share])


def is_in_page_cache(run: Path) -> bool:
    """Return whether all measurements of a run used the page cache of the host."""
    options = [
        row.get("options", "").split() for row in rows(run, "measurements") if row["phase"] in ("round", "stimulus")
    ]
    return all(uses_page_cache(dict(option.split("=", 1) for option in given)) for given in options)


def reasons(run: Path) -> dict[Verdict, Counter[str]]:
    """Return how many measurements of windows and continuous stimuli have each reason, by their verdict."""
    counts: dict[Verdict, Counter[str]] = {True: Counter(), None: Counter()}
    for measured in _judged(run):
        share = verdict(run, measured["evidence"])
        if share is not None and share[0] in counts:
            counts[share[0]].update(share[1])
    return counts


def _judged(run: Path) -> Iterator[Row]:
    for row in rows(run, "points"):
        yield from window_of(run, row)
    yield from (row for row in rows(run, "measurements") if row["phase"] not in ("WIPC", "fill", "round"))
