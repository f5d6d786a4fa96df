"""What a run recorded: its tables of data, and the engine's answers, without any of the suite's arithmetic."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.recomputation import tkperf

Row = dict[str, str]
Array = np.ndarray[Any, np.dtype[np.float64]]

#: The shortest time in seconds that has a rate: the engine's clock has a resolution of 1 ms.
_SHORTEST_SECONDS = 0.1


@cache
def _table(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows(run: Path, table: str) -> list[Row]:
    """Return a table of data; an empty list if the run has no such table."""
    path = run / "tables" / f"{table}.csv"
    return _table(path) if path.exists() else []


def facts(run: Path, table: str = "run") -> Row:
    """Return the table ``run`` or ``specification`` as keys with their values."""
    return {row["key"]: row["value"] for row in rows(run, table)}


def parameter(run: Path, key: str) -> float:
    """Return a number of the run's specification."""
    return float(facts(run, "specification")[key])


def parameters(run: Path, key: str) -> list[float]:
    """Return a list of numbers of the run's specification."""
    return [float(text) for text in facts(run, "specification")[key].split(", ")]


def values(row: Row, *names: str) -> list[float]:
    """Return numbers of a row; nan for a column without a value."""
    return [float(row[name]) if row.get(name) else math.nan for name in names]


def column(table: Iterable[Row], name: str) -> Array:
    """Return a column of a table; nan if it has no value."""
    return np.array([values(row, name)[0] for row in table], dtype=float)


def total(table: Iterable[Row], what: str) -> Array:
    """Return the ``ios`` or ``bytes`` of reads and writes together, row by row."""
    kept = list(table)
    return column(kept, f"read_{what}") + column(kept, f"write_{what}")


def slug(*words: str) -> str:
    """Return the name of the table of the samples of a part and phase."""
    return re.sub("[^a-z0-9]+", "-", " ".join(filter(None, ("samples", *words))).lower()).strip("-")


def samples(run: Path, part: str, phase: str) -> list[Row]:
    return rows(run, slug(part, phase))


@cache
def performed(run: Path) -> list[Row]:
    """Return all measurements, also those of a profile that were too short and repeated with more passes."""
    kept = rows(run, "measurements")
    if is_imported(run) or not is_profile(run):
        return kept
    known = {row["evidence"] for row in kept}
    outcomes = [entry["outcome"] for entry in journal(run) if entry["kind"] == "outcome"]
    measured = [outcome for outcome in outcomes if outcome["kind"] == "measurement"]
    return [*kept, *(_as_row(outcome) for outcome in measured if outcome["evidence"] not in known)]


def _as_row(outcome: dict[str, Any]) -> Row:
    """Return a measurement of the journal with the names of the table."""
    figures = {
        "evidence": outcome["evidence"],
        "point": outcome["stimulus"]["name"],
        "phase": "round",
        **outcome["stimulus"],
    }
    for side in ("read", "write"):
        names = {"ios": "ios", "bytes": "transferred_bytes", "runtime_ms": "runtime_ms"}
        figures |= {f"{side}_{name}": outcome[side][key] for name, key in names.items()}
    return {name: "" if value is None else str(value) for name, value in figures.items()}


def continuous_phase(run: Path, measured: Row) -> str:
    """Return the phase of a measurement; a point of a profile that has samples is a continuous stimulus, too."""
    has_samples = is_profile(run) and samples(run, measured["part"], "stimulus")
    return "stimulus" if has_samples else measured["phase"]


def measurements(run: Path, phase: str, part: str | None = None) -> list[Row]:
    """Return the measurements of a phase, of one part or of all."""
    return [row for row in rows(run, "measurements") if row["phase"] == phase and (part is None or row["part"] == part)]


# -- journal ----------------------------------------------------------------------------------------------------------


@cache
def journal(run: Path) -> list[dict[str, Any]]:
    """Return the entries of the journal that count: what a resumed run discarded is left out, but not its resume."""
    kept: list[dict[str, Any]] = []
    for entry in entries(run):
        if entry["kind"] == "resume":
            del kept[first_discarded(kept, entry) :]
        kept.append(entry)
    return kept


def entries(run: Path) -> list[dict[str, Any]]:
    lines = (run / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["entry"] for line in lines]


def first_discarded(kept: Sequence[dict[str, Any]], resumed: dict[str, Any]) -> int:
    """Return the place of the first step after those that a resumed run keeps."""
    steps = [place for place, entry in enumerate(kept) if entry["kind"] == "step"]
    return [*steps, len(kept)][int(resumed["kept_steps"])]


def discarded(run: Path) -> tuple[int, int]:
    """Return the number of outcomes that resumed runs discarded, and the bytes that they wrote, from samples if any."""
    kept: list[dict[str, Any]] = []
    outcomes = written = 0
    for entry in entries(run):
        if entry["kind"] == "resume":
            dropped = kept[first_discarded(kept, entry) :]
            del kept[len(kept) - len(dropped) :]
            found = [after["outcome"] for after in dropped if after["kind"] == "outcome"]
            sampled = [outcome["write_bytes"] for outcome in found if outcome["kind"] == "sample"]
            whole = [outcome["write"]["transferred_bytes"] for outcome in found if outcome["kind"] == "measurement"]
            outcomes, written = outcomes + len(found), written + (sum(sampled) if sampled else sum(whole))
        kept.append(entry)
    return outcomes, written


def interruptions(run: Path, name: str, number: int) -> list[int]:
    """Return how often the run had been interrupted before each point of a round, each number once.

    None for samples: a run that is interrupted in them restarts at its purge.
    """
    if is_sampled(run, name):
        return []
    rounds = [row for row in rows(run, "measurements") if row.get("round") == str(number) and row["part"] in ("", name)]
    return sorted({int(row["interruptions"]) for row in rounds})


# -- figures of an imported file ---------------------------------------------------------------------------------------


def is_imported(run: Path) -> bool:
    """Return whether another tool measured: the run has no answers, only its file."""
    return (run / "evidence" / "tkperf.xml").exists()


def reported(run: Path, measured: Row) -> tkperf.Figures:
    """Return the figures of a point of a round, or of a zone, in the imported file."""
    zone = measured["part"].partition(", zone ")[2]
    place = (int(zone or measured["round"]), int(measured["read_percent"]), int(measured["block_size_bytes"]))
    return tkperf.figures(run / "evidence" / "tkperf.xml")[place]


# -- answers of the engine --------------------------------------------------------------------------------------------


def answer_document(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text[text.index("{") :])
    return document


@cache
def answer(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the engine's reads and writes of one point; sequential threads, which are separate jobs, are added."""
    jobs = answer_document(path)["jobs"]
    return combined([job["read"] for job in jobs]), combined([job["write"] for job in jobs])


def combined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of jobs that ran side by side."""
    ios = sum(part["total_ios"] for part in parts)
    weighted = math.fsum(part["total_ios"] * part["lat_ns"]["mean"] for part in parts)
    return {
        "total_ios": ios,
        "io_bytes": sum(part["io_bytes"] for part in parts),
        "runtime": max(part["runtime"] for part in parts),
        "lat_ns": {
            "mean": weighted / ios if ios else 0.0,
            "max": max(part["lat_ns"]["max"] for part in parts),
            "bins": added(part["lat_ns"].get("bins", {}) for part in parts),
        },
    }


def added(histograms: Iterable[dict[Any, int]]) -> dict[int, int]:
    """Return the I/Os of all histograms by nanoseconds."""
    bins: dict[int, int] = {}
    for histogram in histograms:
        for edge, count in histogram.items():
            bins[int(edge)] = bins.get(int(edge), 0) + count
    return bins


def answers(run: Path, measured: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the reads and the writes of each measurement."""
    return [part for row in measured for part in answer(run / "evidence" / f"{row['evidence']}.json")]


def response_times(parts: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return ART, MRT and percentiles in microseconds of reads and writes together, weighted by I/O."""
    ios = np.array([part["total_ios"] for part in parts], dtype=float)
    means = np.array([part["lat_ns"]["mean"] for part in parts], dtype=float)
    bins = added(part["lat_ns"]["bins"] for part in parts)
    greatest: int = max(part["lat_ns"]["max"] for part in parts)
    return {
        "average_response_us": float(np.dot(ios, means) / ios.sum()) / 1000,
        "maximum_response_us": greatest / 1000,
        "three_nines_response_us": percentile(bins, 10**3, greatest),
        "four_nines_response_us": percentile(bins, 10**4, greatest),
        "five_nines_response_us": percentile(bins, 10**5, greatest),
    }


def percentile(bins: dict[int, int], one_in: int, greatest_ns: float) -> float:
    """Return the time in microseconds that all but one in so many I/Os do not exceed; nan for fewer I/Os."""
    edges, count = sorted(bins), sum(bins.values())
    if count < one_in:
        return math.nan
    up_to, rank = np.cumsum([bins[edge] for edge in edges]), -(-count * (one_in - 1) // one_in)
    return min(edges[int(np.searchsorted(up_to, rank))], greatest_ns) / 1000


def percentile_ms(parts: Sequence[dict[str, Any]], one_in: int) -> float:
    """Return the time in ms that all but one in so many I/Os of all parts do not exceed."""
    bins = added(part["lat_ns"]["bins"] for part in parts)
    return percentile(bins, one_in, max(part["lat_ns"]["max"] for part in parts)) / 1000


def uses_page_cache(options: Mapping[str, str]) -> bool:
    """Return whether fio's options make it use the page cache; ``buffered`` comes after ``direct`` in each job."""
    if options.get("ioengine") == "mmap" or options.get("atomic", "0") != "0":
        return options.get("ioengine") == "mmap"
    return options["buffered"] == "1" if "buffered" in options else options.get("direct") == "0"


def synchronizing_calls(run: Path, measured: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the calls of fsync and fdatasync of measurements like their reads and writes; empty without any."""
    calls: list[dict[str, Any]] = []
    for row in measured:
        document = answer_document(run / "evidence" / f"{row['evidence']}.json")
        times = [job.get("sync", {}).get("lat_ns", {}) for job in document["jobs"]]
        calls += [{"total_ios": latency["N"], "lat_ns": latency} for latency in times if latency.get("N")]
    return calls


def rate(parts: Sequence[dict[str, Any]], key: str) -> float:
    """Return I/Os or bytes per second: each direction by its own time; nan below the clock's resolution."""
    if any(part["total_ios"] and part["runtime"] < 1000 * _SHORTEST_SECONDS for part in parts):
        return math.nan
    return math.fsum(1000 * part[key] / part["runtime"] for part in parts if part["runtime"])


def per_second(amount: float, seconds: float) -> float:
    """Return an amount by its time; nan for a time below the clock's resolution."""
    return amount / seconds if round(seconds, 9) >= _SHORTEST_SECONDS else math.nan


def running_totals(path: Path) -> list[dict[str, Any]]:
    """Return what fio had done at the end of each sample, reads and writes together, and when, in ms of I/O.

    While fio runs, its ``total_ios`` are the I/Os that it started; those that have a response time are done.
    """
    text, decoder, at = gzip.decompress(path.read_bytes()).decode(), json.JSONDecoder(), 0
    totals: list[dict[str, Any]] = []
    while (at := text.find("\n{", at)) >= 0:
        status, at = decoder.raw_decode(text, at + 1)
        sides = [job[side] for job in status["jobs"] for side in ("read", "write")]
        totals.append(
            {
                "ios": sum(side["lat_ns"]["N"] for side in sides),
                "bytes": sum(side["io_bytes"] for side in sides),
                "ms": max(side["runtime"] for side in sides),
                "response_ns": math.fsum(side["lat_ns"]["N"] * side["lat_ns"]["mean"] for side in sides),
                "bins": added(side["lat_ns"].get("bins", {}) for side in sides),
            }
        )
    return totals


# -- points and rounds ------------------------------------------------------------------------------------------------


def window_of(run: Path, point: Row) -> list[Row]:
    """Return the measurements of a point's window, or all of a profile's point."""
    if is_profile(run):
        return [
            row
            for row in rows(run, "measurements")
            if row["point"] == point["point"] and row["phase"] not in ("WIPC", "fill")
        ]
    first, last = int(point["first_round"]), int(point["last_round"])
    keys = ("part", "point", "thread_count", "queue_depth")
    return [
        row
        for row in rows(run, "measurements")
        if row.get("round") and first <= int(row["round"]) <= last and all(row[key] == point[key] for key in keys)
    ]


def is_simulated(run: Path) -> bool:
    return facts(run)["dut.kind"] == "simulated"


def is_profile(run: Path) -> bool:
    """Return whether a run is one of a workload profile: its rounds are repeats, and not judged."""
    return facts(run)["test"] == "profile"


_METRICS = {
    "iops": lambda parts: rate(parts, "total_ios"),
    "mb_per_second": lambda parts: rate(parts, "io_bytes") / 1e6,
    "average_response_ms": lambda parts: response_times(parts)["average_response_us"] / 1000,
}


@cache
def series(run: Path) -> dict[str, dict[str, dict[int, float]]]:
    """Return the values of each tracked variable by round, for each series; all rounds that were judged."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows(run, "rounds"):
        found.setdefault(row["series"], {}).setdefault(row["variable"], {})[int(row["round"])] = (
            _sampled(run, int(row["round"])) if is_sampled(run, row["series"]) else _tracked(run, row)
        )
    return found


def is_sampled(run: Path, name: str) -> bool:
    """Return whether a series' rounds are samples of a continuous stimulus."""
    return "Preconditioning" in name or facts(run)["test"] == "wsat"


def _sampled(run: Path, number: int) -> float:
    """Return the IOPS of the sample that is a round: the first one, and every 30th after it."""
    row = sampled_rows(run)[number]
    return per_second(float(total([row], "ios")[0]), values(row, "seconds")[0])


def sampled_rows(run: Path) -> dict[int, Row]:
    """Return the samples that are rounds, by round."""
    kept = samples(run, "", "stimulus") or samples(run, "", "PC")
    first, stride = (int(parameter(run, f"settling.{key}")) for key in ("first_sample", "stride_samples"))
    return dict(enumerate(kept[first - 1 :: stride], start=1))


def minute(run: Path, number: int) -> float:
    """Return the minute in which the sample that is a round ends, without pauses between starts of the engine."""
    first, stride = (parameter(run, f"settling.{key}") for key in ("first_sample", "stride_samples"))
    return (first + stride * (number - 1)) * parameter(run, "settling.sample_seconds") / 60


def in_seconds(run: Path, last: int) -> bool:
    """Return whether samples are timed in seconds: the ``last`` round ends within five minutes."""
    return minute(run, last) <= 5


def sample_time(run: Path, number: int, last: int) -> float:
    """Return when the sample that is a round ends, in minutes or seconds; ``last`` is the number of the last round."""
    return minute(run, number) * (60 if in_seconds(run, last) else 1)


def _tracked(run: Path, row: Row) -> float:
    """Return a tracked variable of a round of points, from the engine's answer."""
    label, *demand = re.fullmatch(r"(.*?)(?: T(\d+)Q(\d+))?", row["variable"]).groups()  # type: ignore[union-attr]
    (measured,) = (
        point
        for point in rows(run, "measurements")
        if point.get("round") == row["round"]
        and point["point"] == label
        and point["part"] in ("", row["series"])
        and demand in ([None, None], [point["thread_count"], point["queue_depth"]])
    )
    if is_imported(run):
        return reported(run, measured)[row["metric"].replace("_response", "")]
    return _METRICS[row["metric"]](answers(run, [measured]))


@cache
def window_rounds(run: Path) -> int:
    """Return the number of rounds of a measurement window."""
    specification = facts(run, "specification")
    return int(specification.get("steady_state.window_rounds") or specification["settling.window_rounds"])


def achieved(run: Path, name: str) -> bool:
    """Return whether a series ended with steady state: all variables, and of samples not before the range was full."""
    variables, window = series(run)[name].values(), window_rounds(run)
    last = max(next(iter(variables)))
    if not all(has_window(variable, last, window) for variable in variables):
        return False
    if not all(determination(variable, last, window)["steady"] for variable in variables):
        return False
    return not is_sampled(run, name) or fills(run, last) >= parameter(run, "settling.minimum_fills")


def has_window(series_values: dict[int, float], last: int, window: int) -> bool:
    """Return whether no round is missing in the window that ends with round ``last``."""
    return all(number in series_values for number in range(last - window + 1, last + 1))


def fills(run: Path, number: int) -> float:
    """Return how often the range was written by the end of the sample that is a round."""
    (kept,) = filter(None, (samples(run, "", phase) for phase in ("stimulus", "PC")))
    (range_bytes,) = {row["range_bytes"] for phase in ("stimulus", "PC") for row in measurements(run, phase)}
    place = kept.index(sampled_rows(run)[number])
    return float(column(kept[: place + 1], "write_bytes").sum()) / float(range_bytes)


def rounds_written(run: Path, name: str) -> tuple[int, float, float] | None:
    """Return the last round of a loop's window, the bytes written up to it, and how often that is the range.

    None for tests without sequential preconditioning, and for files without amounts.
    """
    if facts(run)["test"] not in ("iops", "throughput", "latency") or is_imported(run):
        return None
    last = max(next(iter(series(run)[name].values())))
    kept = [
        row
        for row in rows(run, "measurements")
        if row["phase"] == "round" and row["part"] in ("", name) and int(row["round"]) <= last
    ]
    (range_bytes,) = {row["range_bytes"] for row in kept}
    written = float(column(kept, "write_bytes").sum())
    return last, written, written / float(range_bytes)


def determination(series_values: dict[int, float], last: int, window: int) -> dict[str, float]:
    """Return the figures of the window that ends with round ``last``, with the rule: 20 % and 10 %."""
    numbers = np.arange(last - window + 1, last + 1)
    y = np.array([series_values[int(number)] for number in numbers])
    slope, intercept = (float(figure) for figure in np.polyfit(numbers.astype(float), y, 1))
    average, data, fit = float(y.mean()), float(np.ptp(y)), abs(slope) * (window - 1)
    return {
        "average": average,
        "allowed_data_excursion": 0.2 * average,
        "data_excursion": data,
        "allowed_slope_excursion": 0.1 * average,
        "slope_excursion": fit,
        "slope": slope,
        "intercept": intercept,
        "steady": data <= 0.2 * average and fit <= 0.1 * average,
    }
