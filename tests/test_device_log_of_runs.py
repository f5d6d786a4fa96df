"""What the reports of whole runs say, compared with the log of the drive: rates, amounts, and the suite's own terms.

All expected figures come from the bytes and the times of the log, with arithmetic of their own.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from snia_pts.units import KIB, NARROW_NBSP
from tests.command_line import ROOT, snia_pts
from tests.simulated_device.drive import loop_drive
from tests.simulated_device.oracle import Io, read_ios
from tests.simulated_device.slow import CAPACITY_BYTES as CAPACITY

pytestmark = [pytest.mark.root, pytest.mark.long]

BLOCK = 4 * KIB
#: No rate comes from a shorter time of fio.
RATED_MS = 100
#: fio's clock has whole milliseconds; its time begins before the drive's first I/O arrives, and ends after the last.
RATE_HIGH, RATE_LOW = 1.02, 0.9
#: The samples of the report end when fio answers, those of the log at whole multiples of their time.
SAMPLE_TOLERANCE = 0.05
#: How much later than the drive's answer an I/O may be in fio's running totals.
LATE_SECONDS = 0.1
SAMPLE_SECONDS = 0.5
DEFINITIONS = tomllib.loads((ROOT / "specs" / "suite-definitions.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class LoggedRun:
    """A finished run, its progress messages, and all requests that the drive got, in the order of their arrival."""

    folder: Path
    progress: str
    requests: Sequence[Io]

    @property
    def measurements(self) -> list[dict[str, Any]]:
        """All measurements of the journal."""
        lines = (self.folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line)["entry"] for line in lines]
        return [entry["outcome"] for entry in entries if entry["kind"] == "outcome" and "seed" in entry["outcome"]]

    def during(self, measurement: dict[str, Any]) -> list[Io]:
        """Return what arrived while a stimulus ran, of the kinds that it has.

        Another process that looks at new devices only reads, so it is not among the I/Os of a stimulus that writes.
        """
        timing = measurement["timing"]
        kinds = [kind for kind in ("read", "write") if measurement[kind]["ios"]]
        began, ended = timing["started_monotonic_ns"] / 1e9, timing["ended_monotonic_ns"] / 1e9
        return [io for io in self.requests if began <= io.arrived <= ended and io.kind in kinds]

    def written_since_purge(self) -> int:
        """Return the bytes of all writes after the last trim."""
        purged = max(io.arrived for io in self.requests if io.kind == "trim")
        return sum(io.length for io in self.requests if io.kind == "write" and io.arrived > purged)

    def printed(self, label: str) -> list[str]:
        """Return the other cells of the first row of the report whose first cell begins with a regular expression."""
        lines = (self.folder / "report.rst").read_text(encoding="utf-8").replace(NARROW_NBSP, "").splitlines()
        rows = csv.reader((line.strip() for line in lines if line.strip().startswith('"')), skipinitialspace=True)
        return next((row[1:] for row in rows if re.match(label, row[0])), [])

    def samples(self, part: str = "") -> list[dict[str, float]]:
        """Return the samples of a stimulus, from the report's table of data."""
        path = self.folder / "tables" / f"samples-{part}stimulus.csv"
        rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        return [{name: float(value or "nan") for name, value in row.items()} for row in rows]


def performed(folder: Path, test: str, *options: str) -> LoggedRun:
    """Run a test of the suite on a new drive, with its report as text and as tables."""
    with loop_drive(folder) as drive:
        target = (str(drive.path), "--serial", drive.path.name, "--run-dir", "run", "--to", "rst,csv")
        done = snia_pts(folder, *test.split(), *target, "--progress", "log", *options)
    requests = sorted(read_ios(folder / "oracle.jsonl", 0.0, float("inf")), key=lambda io: io.arrived)
    return LoggedRun(folder / "run", done.stderr.replace(NARROW_NBSP, ""), requests)


def settings(*changes: str) -> list[str]:
    """Return the options that change values of a specification."""
    return [word for change in changes for word in ("--set", change)]


def rate_bounds(ios: Sequence[Io], *, of_bytes: bool) -> tuple[float, float]:
    """Return the least and the greatest I/Os, or bytes, per second of the drive's time, reads and writes together.

    The time ends with the last answer.  It begins with the first I/O or, as fio does not count passes in which a kind
    has not occurred yet, with the first of its kind.
    """
    began, ended, low, high = min(io.arrived for io in ios), max(io.done for io in ios), 0.0, 0.0
    for those in ([io for io in ios if io.kind == kind] for kind in ("read", "write")):
        amount = sum(io.length for io in those) if of_bytes else len(those)
        low += amount / (ended - began)
        high += amount / (ended - min(io.arrived for io in those)) if those else 0.0
    return low, high


def first_number(text: str) -> float:
    """Return the number that a text begins with."""
    match = re.match(r"[0-9.]+", text)
    assert match, text
    return float(match[0])


def half_a_digit(text: str) -> float:
    """Return half a unit of the last place of the number that a text begins with."""
    decimals = re.match(r"[0-9]+\.?([0-9]*)", text)
    assert decimals, text
    return 0.500_001 * 10.0 ** -len(decimals[1])


def unit_bytes(text: str) -> float:
    """Return the bytes of the unit after the number that a text begins with."""
    unit = re.match(r"[0-9.]+ ([kMGT])B\b", text)
    assert unit, text
    return 1000.0 ** ("kMGT".index(unit[1]) + 1)


@dataclass(frozen=True)
class Bin:
    """What a drive completed from a time to another, in seconds since its first I/O."""

    begin: float
    end: float
    ios: int
    transferred_bytes: int

    @property
    def iops(self) -> float:
        return self.ios / (self.end - self.begin)

    @property
    def bytes_per_second(self) -> float:
        return self.transferred_bytes / (self.end - self.begin)


def time_bin(ios: Sequence[Io], begin: float, end: float) -> Bin:
    """Return what was completed after one time until another, in seconds since the first I/O arrived."""
    first = min(io.arrived for io in ios)
    those = [io for io in ios if begin < io.done - first <= end]
    return Bin(begin, end, len(those), sum(io.length for io in those))


def time_bins(ios: Sequence[Io], seconds: float) -> list[Bin]:
    """Divide the time of a stimulus by the drive's clock; the last bin ends with the last answer."""
    whole = duration(ios)
    edges = [seconds * number for number in range(max(1, round(whole / seconds)))]
    return [time_bin(ios, begin, end) for begin, end in zip(edges, [*edges[1:], whole], strict=True)]


def duration(ios: Sequence[Io]) -> float:
    """Return the time from the first arrival to the last answer."""
    return max(io.done for io in ios) - min(io.arrived for io in ios)


def end_seconds(ios: Sequence[Io]) -> float:
    """Return the length of the end of a stimulus by the suite's definition."""
    end = DEFINITIONS["end"]
    return float(min(end["seconds"]["value"], end["percent"]["value"] / 100 * duration(ios)))


def longest_gap(ios: Sequence[Io]) -> float:
    """Return the longest time without an answer: a few milliseconds, or how long a busy machine stood still."""
    return max(after - before for before, after in pairwise(sorted(io.done for io in ios)))


def near(value: float, *, tolerance: float = SAMPLE_TOLERANCE, of: float | None = None) -> Any:
    """Return what a figure of the report must be equal to, within a share of it, or of another figure."""
    return pytest.approx(value, abs=tolerance * (value if of is None else of))


# -- resolution -------------------------------------------------------------------------------------------------------


def test_a_profile_prints_the_rates_of_the_drive_or_none(tmp_path: Path) -> None:
    """All orders of access of a file: every printed rate is the drive's, and of a time of at least 100 ms.

    Points too short for fio's clock are repeated with more passes; what must not be repeated has no rate.
    """
    axes = ("--axis", "fio.direct=1", "--axis", "block_size=64K", "--axis", "range=64K,1M")
    run = performed(tmp_path, "profile run file-matrix", *axes)
    attempts = run.measurements
    messages = re.findall(r"\] (.+): (\S+) IOPS, (\S+) MB/s", run.progress)
    last = {attempt["stimulus"]["name"]: attempt for attempt in attempts}

    assert [name for name, _, _ in messages] == [attempt["stimulus"]["name"] for attempt in attempts]
    assert len(attempts) > len(last) == 20
    for attempt, (name, iops, mb_per_second) in zip(attempts, messages, strict=True):
        ios = run.during(attempt)
        rows = [(iops, mb_per_second)] + [tuple(run.printed(name)[2:4])] * (attempt is last[name])
        moved = {side: sum(io.length for io in ios if io.kind == side) for side in ("read", "write")}
        short = any(moved[side] and attempt[side]["runtime_ms"] < RATED_MS for side in moved)

        assert moved == {side: attempt[side]["transferred_bytes"] for side in moved}, name
        for row in rows:
            assert (row == ("n/a", "n/a")) == short, name
            if not short:
                assert rate_matches(float(row[0]), rate_bounds(ios, of_bytes=False)), name
                assert rate_matches(1e6 * float(row[1]), rate_bounds(ios, of_bytes=True)), name
    unrated = {name for name in last if run.printed(name)[2] == "n/a"}
    assert "write, over 64 KiB" in unrated
    assert all(duration(run.during(last[name])) < 0.001 * RATED_MS for name in unrated)


def rate_matches(printed: float, bounds: tuple[float, float]) -> bool:
    """Return whether a printed rate is that of the drive, within what fio's clock adds to its time."""
    low, high = bounds
    return RATE_LOW * low <= printed <= RATE_HIGH * high


# -- write saturation -------------------------------------------------------------------------------------------------

WSAT = (
    "--thread-count",
    "2",
    "--queue-depth",
    "8",
    *settings(
        f"settling.sample_seconds={SAMPLE_SECONDS}",
        "settling.stride_samples=1",
        "saturation.until_steady=false",
        "histogram.seconds=0.5",
        "histogram.thread_count=1",
        "histogram.queue_depth=8",
    ),
)


@pytest.mark.parametrize(("pattern", "capacities"), [("write-intensive", 0.7), ("oltp", 0.15)])
def test_the_amount_written_is_that_of_the_drive(pattern: str, capacities: float, tmp_path: Path) -> None:
    """``N x written`` is no more than the drive got; TGBW is of the stimulus, data written of the whole run.

    Writes alone end at the amount, with less than a block of each thread above it; a mix may write less, or more.
    """
    run = performed(tmp_path, "wsat", "--stimulus", pattern, *WSAT, *settings(f"saturation.capacities={capacities}"))
    stimulus, histogram = run.measurements
    parts = [sum(io.length for io in run.during(item) if io.kind == "write") for item in (stimulus, histogram)]
    (ended,) = run.printed("Ended by")
    (written,), (whole,) = run.printed("Written by the stimulus"), run.printed("Data written, whole run")
    fills = parts[0] / CAPACITY

    assert ended.endswith("x user capacity written")
    assert fills - 0.0001 < first_number(ended) <= fills or first_number(ended) == capacities <= fills
    assert fills == pytest.approx(capacities, rel=0.2 if pattern == "oltp" else 2 * BLOCK / (capacities * CAPACITY))
    for text, amount in ((written, parts[0]), (whole, sum(parts))):
        assert first_number(text) == pytest.approx(amount / unit_bytes(text), abs=half_a_digit(text))
        of_capacity = text.split(", ")[1]
        assert first_number(of_capacity) == pytest.approx(amount / CAPACITY, abs=half_a_digit(of_capacity))
    assert sum(parts) == run.written_since_purge()
    assert parts[1] > 0


def test_the_figures_of_write_saturation_are_those_of_the_drive(tmp_path: Path) -> None:
    """The first and the last sample, the end, the worst and the best sample, and the histogram, within 5 %.

    A machine that stands still shifts what a sample holds: single samples have that much more tolerance.
    """
    amount = settings("saturation.seconds=22", "saturation.capacities=100")
    run = performed(tmp_path, "wsat", *WSAT, *amount)
    stimulus, histogram = (run.during(measurement) for measurement in run.measurements)
    bins, whole = time_bins(stimulus, SAMPLE_SECONDS), duration(stimulus)
    end = time_bin(stimulus, whole - end_seconds(stimulus), whole)
    at_end = [item.iops for item in bins if item.begin >= end.begin - SAMPLE_SECONDS]
    rows = (
        (r"First sample \(FOB\)", bins[0]),
        ("Last full sample", bins[-1]),
        (r"End: last \d", end),
        ("Histogram after it", time_bin(histogram, 0.0, duration(histogram))),
    )
    samples, gap = run.samples(), longest_gap(stimulus)
    of_samples = SAMPLE_TOLERANCE + gap / SAMPLE_SECONDS

    for label, expected in rows:
        tolerance = of_samples if "sample" in label else SAMPLE_TOLERANCE
        iops, mb_per_second, *_ = run.printed(label)
        assert float(iops) == near(expected.iops, tolerance=tolerance), label
        assert float(mb_per_second) == near(expected.bytes_per_second / 1e6, tolerance=tolerance), label
    worst, best = map(first_number, run.printed("Worst, best sample")[0].split(", "))
    assert worst == near(min(at_end), tolerance=of_samples, of=end.iops)
    assert best == near(max(at_end), tolerance=of_samples, of=end.iops)
    least, greatest = min(sample["iops"] for sample in samples), max(sample["iops"] for sample in samples)
    assert least == near(min(entry.iops for entry in bins), tolerance=of_samples, of=end.iops)
    assert greatest == near(max(each.iops for each in bins), tolerance=of_samples)
    assert bins[0].iops > 1.5 * end.iops
    assert len(samples) == len(bins)
    assert_running_totals(samples, stimulus, LATE_SECONDS + gap)


def assert_running_totals(samples: Sequence[dict[str, float]], ios: Sequence[Io], late: float) -> None:
    """Compare the running total of each sample with the log: the last is exact, no other is early or late."""
    first, total = min(io.arrived for io in ios), 0.0
    done = sorted(io.done - first for io in ios)
    for sample in samples:
        total += sample["write_ios"]
        before, after = sample["ended_seconds"] - late, sample["ended_seconds"] + late
        assert bisect_left(done, before) <= total <= bisect_left(done, after)
    assert total == len(ios)
    assert sum(sample["write_bytes"] for sample in samples) == sum(io.length for io in ios)


# -- cross stimulus recovery ------------------------------------------------------------------------------------------

GROUP = '{{name="AG {}", access="{}", read_percent=0, block_size_kib={}, seconds={}, thread_count=1, queue_depth=4}}'
GROUPS = ", ".join(GROUP.format(*item) for item in ((1, "SEQ", 16, 4), (2, "RND", 8, 5), (3, "SEQ", 16, 10)))


def test_recovery_is_that_of_the_drive(tmp_path: Path) -> None:
    """When sequential writes are as fast as before the random ones, for good and at first, and how slow they were.

    A rate near to the threshold may be on either side of it: the time is between those of two thresholds 5 % apart.
    """
    seconds = 1.0
    run = performed(tmp_path, "xsr", *settings(f"groups.sequence=[{GROUPS}]", f"groups.sample_seconds={seconds}"))
    first, _, last = (run.during(measurement) for measurement in run.measurements)
    before_end = duration(first) - end_seconds(first)
    baseline = time_bin(first, before_end, duration(first)).bytes_per_second
    threshold = (1 - DEFINITIONS["recovery"]["tolerance_percent"]["value"] / 100) * baseline
    bins = time_bins(last, seconds)
    lower, upper = ((1 - SAMPLE_TOLERANCE) * threshold, (1 + SAMPLE_TOLERANCE) * threshold)

    assert first_number(run.printed("Baseline")[0]) == near(baseline / 1e6)
    assert first_number(run.printed("Recovery threshold")[0]) == near(threshold / 1e6)
    lowest = min(item.bytes_per_second for item in bins) / baseline
    assert first_number(run.printed("Lowest sample")[0]) == near(100 * lowest)
    recovered = run.printed("Recovery time")[0]
    (reached,) = run.printed("First recovered sample") or (recovered,)
    assert recovery_seconds(bins, lower) - 0.1 <= first_number(recovered) <= recovery_seconds(bins, upper) + 0.1
    assert reached_seconds(bins, lower) - 0.1 <= first_number(reached) <= reached_seconds(bins, upper) + 0.1
    assert lowest < 0.8
    assert 0 < first_number(recovered) < duration(last)


def reached_seconds(bins: Sequence[Bin], threshold: float) -> float:
    """Return when the first sample of at least a threshold began."""
    return next(item.begin for item in bins if item.bytes_per_second >= threshold)


def recovery_seconds(bins: Sequence[Bin], threshold: float) -> float:
    """Return when samples reached a threshold to stay there for the dwell; infinity if they did not."""
    rule = DEFINITIONS["recovery"]
    dwell = min(rule["dwell_seconds"]["value"], rule["dwell_percent"]["value"] / 100 * bins[-1].end)
    slow_ends = [item.end for item in bins if item.bytes_per_second < threshold]
    entered = max(slow_ends, default=0.0)
    return entered if bins[-1].end - entered >= dwell else float("inf")
