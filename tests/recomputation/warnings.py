"""The measured figures of warnings, from the answers, and from the journal's clocks and the kernel's counters.

The numbers of each rule are written here a second time, as the documentation has them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tests.recomputation import host, tkperf
from tests.recomputation.printed import Expected, PrintedTable, text
from tests.recomputation.provenance import purges_and_gaps
from tests.recomputation.record import (
    Array,
    Row,
    answer_document,
    answers,
    column,
    continuous_phase,
    determination,
    facts,
    is_imported,
    is_profile,
    journal,
    performed,
    response_times,
    rows,
    series,
    slug,
    total,
    uses_page_cache,
    values,
    window_rounds,
)


@dataclass(frozen=True)
class Point:
    """A measurement: its row, its entry in the journal, and its answer."""

    row: Row
    outcome: dict[str, Any]
    parts: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return _name(self.row)

    @property
    def requested(self) -> float:
        """The requested time; nan if an amount was requested."""
        return values(self.row, "seconds")[0]

    @property
    def seconds(self) -> float:
        return float(max(part["runtime"] for part in self.parts)) / 1000

    @property
    def moved(self) -> int:
        return sum(part["io_bytes"] for part in self.parts)

    @property
    def maximum_seconds(self) -> float:
        return response_times(self.parts)["maximum_response_us"] / 1e6

    @property
    def timing(self) -> dict[str, Any]:
        timing: dict[str, Any] = self.outcome["timing"]
        return timing

    @property
    def telemetry(self) -> dict[str, Any]:
        return self.outcome["telemetry"] or {}


def _name(row: Row) -> str:
    return f"{row['point']} T{row['thread_count']}Q{row['queue_depth']} ({row['evidence']})"


@cache
def points(run: Path) -> list[Point]:
    """Return all measurements of a run."""
    outcomes = {
        entry["outcome"]["evidence"]: entry["outcome"]
        for entry in journal(run)
        if entry["kind"] == "outcome" and entry["outcome"]["kind"] == "measurement"
    }
    return [Point(row, outcomes[row["evidence"]], answers(run, [row])) for row in performed(run)]


def warnings(run: Path, table: PrintedTable) -> list[list[Expected]]:
    """Return the warnings; each of a kind that has measured figures is printed, and no other one of that kind."""
    kinds = _OF_IMPORTS if is_imported(run) else _KINDS
    pending = {what: list(recompute(run)) for what, recompute in kinds.items()}
    cells: list[list[Expected]] = []
    for what, _ in table.body:
        assert what not in pending or pending[what], f"a warning {what!r} too many"
        cells.append([what, pending[what].pop(0) if what in pending else None])
    missing = [what for what, expected in pending.items() if expected]
    assert not missing, f"no warning: {missing}"
    return cells


def _count(found: Sized, everything: Sized) -> tuple[float, float]:
    return float(len(found)), float(len(everything))


def _size(size_bytes: float) -> tuple[str, float]:
    """Return a field with its decimal unit, and the number that is in it."""
    unit, factor = next(
        ((unit, factor) for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if size_bytes >= factor),
        ("kB", 1e3),
    )
    return f"{{}} {unit}", size_bytes / factor


# -- clocks and idle times --------------------------------------------------------------------------------------------


def _clock(run: Path) -> Iterator[Expected]:
    for point in points(run):
        step = point.timing["clock_set_seconds"]
        if abs(step) > 0.5:
            direction = "forward" if step > 0 else "back"
            template = f"the wall clock was set {direction} by {{}} s at about {point.timing['started']}: {{any}}"
            yield text(template, abs(step))


def _pause(run: Path) -> Iterator[Expected]:
    pauses = [gap.idle_ms / 1000 for gap in purges_and_gaps(run)[1] if not gap.requested and gap.idle_ms > 3000]
    if pauses:
        times = "time" if len(pauses) == 1 else "times"
        yield text(f"the drive was idle between points {{}} {times}, for up to {{time}}", len(pauses), max(pauses))


def _idle_times(run: Path) -> Iterator[Expected]:
    gaps = [gap for gap in purges_and_gaps(run)[1] if gap.requested]
    for word, sign in (("longer", 1), ("shorter", -1)):
        errors = [sign * (gap.idle_ms / 1000 / gap.requested - 1) for gap in gaps]
        wrong = [error for error in errors if error > 0.01]
        if wrong:
            worst = gaps[int(np.argmax(errors))]
            template = (
                f"{{}} of {{}} idle times were {word} than requested by more than {{}} %, by up to {{}} %: {{time}} "
                "instead of {time}; {any}"
            )
            figures = (1, 100 * max(errors), worst.idle_ms / 1000, worst.requested)
            yield text(template, *_count(wrong, gaps), *figures)


def _fio_clock(run: Path) -> Iterator[Expected]:
    found = []
    for point in points(run):
        own = (point.timing["ended_monotonic_ns"] - point.timing["started_monotonic_ns"]) / 1e9
        by_fio = point.outcome["stimulus"]["ramp_seconds"] + point.seconds
        if own - by_fio - point.maximum_seconds > 0.05 * own + 1 and not point.timing["engine_restarted"]:
            found.append((own - by_fio, own, by_fio, point))
    if found:
        _, own, by_fio, worst = max(found, key=lambda entry: entry[0])
        template = (
            "in {} of {} measurements fio's clock disagrees with the suite's: fio reports {time} of I/O, but {time} "
            f"passed between start and end; {worst.name}; {{any}}"
        )
        yield text(template, *_count(found, points(run)), by_fio, own)


# -- options of the engine --------------------------------------------------------------------------------------------


def _options_of_points(run: Path) -> dict[str, dict[str, str]]:
    """Return the options that fio had for each point of a profile; none for a run without fio."""
    found: dict[str, dict[str, str]] = {}
    for row in rows(run, "measurements"):
        if is_profile(run) and row["phase"] not in ("WIPC", "fill"):
            document = answer_document(run / "evidence" / f"{row['evidence']}.json")
            found[row["point"]] = document.get("global options", {})
    return found


def _cached(run: Path) -> Iterator[Expected]:
    """Return the points whose I/O was not direct."""
    everything = _options_of_points(run)
    found = [name for name, options in everything.items() if uses_page_cache(options)]
    if found:
        template = f"{{}} of {{}} points ({'the first is ' * (len(found) > 1)}{found[0]}) used the page cache {{any}}"
        yield text(template, *_count(found, everything))


def _limited_by_options(run: Path) -> Iterator[Expected]:
    everything = _options_of_points(run)
    limiting = ("iodepth_low", "rate", "rate_iops", "thinktime")
    found = [
        (name, " ".join(f"{key}={options[key]}" for key in limiting if key in options))
        for name, options in everything.items()
        if not options.keys().isdisjoint(limiting)
    ]
    if found:
        name, given = found[0]
        template = (
            f"{{}} of {{}} points ({'the first is ' * (len(found) > 1)}{name}: {given}) had options of fio {{any}}"
        )
        yield text(template, *_count(found, everything))


# -- the engine -------------------------------------------------------------------------------------------------------


def _restarts(run: Path) -> Iterator[Expected]:
    timings = [point for point in points(run) if point.timing["engine_restarted"]]
    if timings:
        template = f"for {{}} of {{}} measurements fio exited before its first I/O {{any}}: {timings[0].name}{{any}}"
        yield text(template, *_count(timings, points(run)))


def _messages(run: Path) -> Iterator[Expected]:
    """Return one warning for each of five kinds of messages; messages of a kind have other numbers."""
    kinds: dict[str, list[tuple[str, Point]]] = {}
    for point in points(run):
        for message in point.outcome.get("engine_messages", ()):
            kinds.setdefault(re.sub(r"\d+", "0", message), []).append((message, point))
    for sentence in list(kinds.values())[:5]:
        message, first = sentence[0]
        template = f"in {{}} of {{}} measurements fio wrote to its standard error: {message}; "
        template += f"{'the first is ' * (len(sentence) > 1)}{first.name}"
        yield text(template, *_count(sentence, points(run)))
    if len(kinds) > 5:
        yield text(f"evidence/*.process.json has {{}} other kind{'s' * (len(kinds) > 6)} of messages", len(kinds) - 5)


def _overruns(run: Path) -> Iterator[Expected]:
    factors = np.array([point.seconds / point.requested for point in points(run)])
    late = [factor for factor in factors if factor > 1.05]
    if late:
        worst = points(run)[int(np.nanargmax(factors))]
        template = (
            "{} of {} measurements took more than {} % longer than requested, up to {} times the requested time: "
            f"{{time}} instead of {{time}} in {worst.name}"
        )
        yield text(template, *_count(late, points(run)), 5, max(late), worst.seconds, worst.requested)


def _spreads(run: Path) -> Iterator[Expected]:
    found = []
    for point in points(run):
        apart = (point.timing["thread_spread_ms"] or 0.0) / 1000 - point.maximum_seconds
        if apart > 0.01 * point.requested:
            found.append((apart / point.requested, apart, point))
    if found:
        share, apart, worst = max(found, key=lambda entry: entry[0])
        template = (
            "in {} of {} measurements threads started apart by more than {} % of the time of the measurement: fewer "
            f"I/Os than requested were outstanding at its start and end. The worst: {{}} ms "
            f"({{}} %) in {worst.name}"
        )
        yield text(template, *_count(found, points(run)), 1, 1000 * apart, 100 * share)


def _stalls(run: Path) -> Iterator[Expected]:
    average = [response_times(point.parts)["average_response_us"] / 1e6 for point in points(run)]
    stalled = [
        point
        for point, mean in zip(points(run), average, strict=True)
        if point.maximum_seconds > 2 and point.maximum_seconds > 30 * mean
    ]
    if stalled:
        worst = max(stalled, key=lambda point: point.maximum_seconds)
        template = (
            "in {} of {} measurements an I/O took more than {} s and more than {} times the average; up to {time}, in "
            f"{worst.name}. These limits are of this suite and change no result."
        )
        numbers = [*_count(stalled, points(run)), 2, 30, worst.maximum_seconds]
        longest = max(points(run), key=lambda point: point.maximum_seconds)
        if longest.maximum_seconds > worst.maximum_seconds:
            template += (
                f" The longest I/O of the run, {{time}} in {longest.name}, is not counted: it took at most {{}} times "
                "the average there."
            )
            numbers += [longest.maximum_seconds, 30]
        yield text(template, *numbers)


def _remeasured(run: Path) -> Iterator[Expected]:
    for point in points(run):
        for attempt in point.outcome["rejected"]:
            template = (
                f"{point.name}: the previous attempt was rejected ({attempt['evidence']}: {attempt['reason']}). "
                "Its {time} of I/O, {any}"
            )
            yield text(template, attempt["seconds"])


def _uncounted(run: Path) -> Iterator[Expected]:
    for point in points(run):
        if lost := point.outcome["uncounted_ios"]:
            yield text(f"{point.name}: fio did not count the last {{}} I/O{'s' * (lost != 1)}: {{any}}", lost)


def _host_limited(run: Path) -> Iterator[Expected]:
    """Return the points of each loop that the host limited, at most 8 by name, and the continuous stimuli."""
    loops: dict[str, dict[str, host.Verdict]] = {}
    stimuli: dict[str, host.Verdict] = {}
    for (part, name), verdict in host.judged_points(run).items():
        if part.startswith("/"):
            stimuli[part.removeprefix("/")] = verdict
        else:
            loops.setdefault("" if is_profile(run) else part, {})[name] = verdict
    for part, points_of_loop in loops.items():
        limited = [name for name, verdict in points_of_loop.items() if verdict]
        if limited:
            separator = "; " if any("," in name for name in limited) else ", "
            more = f" and {len(limited) - 8} more" if len(limited) > 8 else ""
            window = "" if is_profile(run) else " of the window"
            prefix = f"{part}: " if part else ""
            template = f"{prefix}the host, not the drive, limited {{}} of {{}} points{window}: "
            yield text(template + separator.join(limited[:8]) + more, *_count(limited, points_of_loop))
    phases: dict[str, list[str]] = {}
    for place in (place for place, verdict in stimuli.items() if verdict):
        phase, _, part = place.partition(", ")
        phases.setdefault(phase, []).extend([part] if part else [])
    if phases:
        names = [f"{phase} ({', '.join(parts[:8])}{{any}})" if parts else phase for phase, parts in phases.items()]
        noun = "stimulus" if len(stimuli) == 1 else "stimuli"
        template = f"the host, not the drive, limited {{}} of {{}} continuous {noun}: {'; '.join(names)}"
        yield text(template, *_count([place for place, verdict in stimuli.items() if verdict], stimuli))


def _mixes(run: Path) -> Iterator[Expected]:
    """Return the mix of all points with one stimulus together; less than 0.2 points of difference do not count."""
    kept = performed(run)
    keys = ("point", "thread_count", "queue_depth", "range_offset_bytes", "range_bytes", "seconds")
    found = []
    kinds = sorted({tuple(row[key] for key in keys) for row in kept})
    for kind in kinds:
        alike = [row for row in kept if tuple(row[key] for key in keys) == kind]
        reads, ios = float(column(alike, "read_ios").sum()), float(total(alike, "ios").sum())
        share = float(alike[0]["read_percent"]) / 100
        if abs(reads / ios - share) > max(0.002, 3 * math.sqrt(share * (1 - share) / ios)):
            found.append((abs(reads / ios - share), reads, ios, kind[0]))
    if found:
        _, reads, ios, name = max(found)
        template = (
            "{} of {} kinds of points did not have the requested R/W mix, by more than {} percentage points and more "
            f"than chance explains; {name} deviated most: it had {{}}/{{}} in {{}} I/Os"
        )
        yield text(template, *_count(found, kinds), 0.2, 100 * reads / ios, 100 - 100 * reads / ios, ios)


def _unrated(run: Path) -> Iterator[Expected]:
    measured = [row for row in rows(run, "measurements") if row["phase"] not in ("WIPC", "fill")]
    short = [row for row in measured if max(values(row, "read_runtime_ms", "write_runtime_ms")) < 100]
    if short:
        first = f"{'the first is ' * (len(short) > 1)}{_name(short[0])}"
        template = "{} of {} points lasted less than {} ms, too short for the engine's clock of {} ms: {any}; " + first
        yield text(template, *_count(short, measured), 100, 1)


# -- the kernel's counters --------------------------------------------------------------------------------------------


def _foreign(run: Path) -> Iterator[Expected]:
    excesses, discards, one_way = (list[tuple[float, Point]]() for _ in range(3))
    for point in points(run):
        block = point.telemetry.get("block")
        if not block:
            continue
        outstanding = math.prod(values(point.row, "thread_count", "queue_depth", "block_size_bytes"))
        excess = block["read_bytes"] + block["write_bytes"] - point.moved - outstanding
        if excess > max(8e6, 0.02 * point.moved):
            excesses.append((excess, point))
        if discarded := block.get("discarded_bytes"):
            discards.append((discarded, point))
        (percent,) = values(point.row, "read_percent")
        other = block["read_ios"] if percent == 0 else block["write_ios"] if percent == 100 else 0
        if other > max(500, 0.02 * sum(part["total_ios"] for part in point.parts)):
            one_way.append((other, point))
    for found, sentence, has_bytes in (
        (excesses, "the block layer counted more I/O on the drive than the test did; up to AMOUNT more", True),
        (
            discards,
            "another program discarded blocks of the drive: its preconditioning is lost, and reads of these blocks "
            "measure nothing; up to AMOUNT",
            True,
        ),
        (
            one_way,
            "the block layer counted reads although the test only wrote, or writes although it only read; up to AMOUNT",
            False,
        ),
    ):
        if found:
            largest, worst = max(found, key=lambda entry: entry[0])
            field, amount = _size(largest) if has_bytes else ("{} I/Os", largest)
            template = f"in {{}} of {{}} measurements {sentence.replace('AMOUNT', field)}, in {worst.name}"
            yield text(template, *_count(found, points(run)), amount)


def _processes(run: Path) -> Iterator[Expected]:
    totals, names = Counter[str](), dict[str, str]()
    affected, foreign = 0, {point.row["evidence"] for point in points(run) if _has_foreign(point)}
    for point in points(run):
        of_drive = bool(point.telemetry.get("block"))
        if of_drive and point.row["evidence"] not in foreign:
            continue
        listed = [item for item in point.telemetry.get("processes", ()) if of_drive or item["name"][0] != "["]
        if sum(item["read_bytes"] + item["written_bytes"] for item in listed) <= max(8e6, 0.02 * point.moved):
            continue
        affected += 1
        for item in listed:
            totals[item["pid"]] += item["read_bytes"] + item["written_bytes"]
            names[item["pid"]] = item["name"]
    if affected:
        sizes = [(pid, *_size(size)) for pid, size in totals.most_common(5)]
        shown = ", ".join(f"{names[pid]} (process {pid}) {field}" for pid, field, _ in sizes)
        template = f"in {{}} of {{}} measurements other processes did I/O, on this or another device: {shown}"
        yield text(template, float(affected), float(len(points(run))), *(amount for _, _, amount in sizes))


def _has_foreign(point: Point) -> bool:
    block = point.telemetry.get("block")
    if not block:
        return False
    outstanding = math.prod(values(point.row, "thread_count", "queue_depth", "block_size_bytes"))
    excess = block["read_bytes"] + block["write_bytes"] - point.moved - outstanding
    (percent,) = values(point.row, "read_percent")
    other = block["read_ios"] if percent == 0 else block["write_ios"] if percent == 100 else 0
    return bool(
        excess > max(8e6, 0.02 * point.moved)
        or other > max(500, 0.02 * sum(part["total_ios"] for part in point.parts))
        or block.get("discarded_bytes")
    )


def _idle_io(run: Path) -> Iterator[Expected]:
    timings = [
        (size, ios, point)
        for point in points(run)
        if (size := point.timing["idle_bytes"] or 0) > 8e6 or (point.timing["idle_ios"] or 0) > 500
        for ios in (point.timing["idle_ios"],)
    ]
    if timings:
        size, ios, worst = max(timings, key=lambda entry: entry[0])
        field, amount = _size(size)
        template = (
            "before {} of {} measurements the block layer counted I/O on the drive while the test left it idle; up to "
            f"{{}} I/Os and {field}, before {worst.name}"
        )
        yield text(template, *_count(timings, points(run)), ios, amount)


def _stolen(run: Path) -> Iterator[Expected]:
    shares = [(point.telemetry.get("stolen_percent") or 0.0, point) for point in points(run)]
    found = [share for share in shares if share[0] > 10]
    if found:
        percent, worst = max(found, key=lambda share: share[0])
        template = (
            "a hypervisor took more than {} % of the host's CPU time in {} of {} measurements; up to {} %, in "
            + worst.name
        )
        yield text(template, 10, *_count(found, points(run)), percent)


def _counter(name: str) -> Callable[[Path], Iterator[Expected]]:
    def counted(run: Path) -> Iterator[Expected]:
        counts = [count for point in points(run) if (count := point.telemetry.get(name))]
        if counts:
            times = "time" if sum(counts) == 1 else "times"
            template = f"{{any}}: {{}} {times}, in {{}} of {{}} measurements"
            yield text(template, sum(counts), *_count(counts, points(run)))

    return counted


@dataclass(frozen=True)
class Line:
    """A continuous stimulus, in samples or whole stimuli: what the engine and the kernel counted, and in what time."""

    first: Row
    seconds: Array
    ios: Array
    moved: Array
    counted: Array
    response: Array
    longest: Array
    requested: Array


@cache
def _lines(run: Path) -> list[Line]:
    """Return the continuous stimuli of a run in the order of their first I/O."""
    by_name: dict[str, list[tuple[dict[str, Any], float]]] = {}
    name, requested = "", math.nan
    for entry in journal(run):
        if entry["kind"] == "step":
            step = entry["step"]
            name = slug(step["part"], step["phase"]) if step["kind"] == "continuous" else ""
            requested = float(step.get("sample_seconds") or math.nan)
        outcome = entry.get("outcome", {})
        if name and outcome.get("kind") == ("measurement" if math.isnan(requested) else "sample"):
            by_name.setdefault(name, []).append((outcome, requested))
    first: dict[str, Row] = {}
    for row in rows(run, "measurements"):
        first.setdefault(slug(row["part"], continuous_phase(run, row)), row)
    return [_line(first[name], found) for name, found in by_name.items()]


def _line(first: Row, found: Sequence[tuple[dict[str, Any], float]]) -> Line:
    outcomes = [outcome for outcome, _ in found]
    sampled = outcomes[0]["kind"] == "sample"
    sides = [(outcome["read"], outcome["write"]) for outcome in outcomes] if not sampled else []
    blocks = [(outcome["telemetry"] or {}).get("block") for outcome in outcomes]
    return Line(
        first=first,
        seconds=np.array(
            [outcome["seconds"] for outcome in outcomes]
            if sampled
            else [max(read["runtime_ms"], write["runtime_ms"]) / 1000 for read, write in sides]
        ),
        ios=np.array(
            [outcome["read_ios"] + outcome["write_ios"] for outcome in outcomes]
            if sampled
            else [read["ios"] + write["ios"] for read, write in sides],
            dtype=float,
        ),
        moved=np.array(
            [outcome["read_bytes"] + outcome["write_bytes"] for outcome in outcomes]
            if sampled
            else [read["transferred_bytes"] + write["transferred_bytes"] for read, write in sides],
            dtype=float,
        ),
        response=np.array(
            [
                outcome["average_response_us"] * (outcome["read_ios"] + outcome["write_ios"]) / 1e6
                for outcome in outcomes
            ]
            if sampled
            else [sum(side["ios"] * side["response_mean_ns"] for side in pair) / 1e9 for pair in sides]
        ),
        longest=np.array(
            [outcome["maximum_response_us"] / 1e6 for outcome in outcomes]
            if sampled
            else [max(side["response_max_ns"] for side in pair) / 1e9 for pair in sides]
        ),
        counted=np.array([block["read_bytes"] + block["write_bytes"] if block else math.nan for block in blocks]),
        requested=np.array([seconds for _, seconds in found]),
    )


def _contradicted(run: Path) -> Iterator[Expected]:
    """Return the samples of which the kernel counted another amount; one late reading has its reverse right after."""
    for line in _lines(run):
        excess, greater = line.counted - line.moved, np.maximum(line.counted, line.moved)
        outstanding = math.prod(values(line.first, "thread_count", "queue_depth", "block_size_bytes"))
        judged = (line.seconds >= 1) & (greater >= 2000 * line.moved.sum() / line.ios.sum())
        allowed = outstanding + np.maximum(0.05, 0.25 / line.seconds) * greater
        differs = judged & (np.abs(excess) > allowed)
        wrong: list[int] = []
        for is_wrong, places in groupby(range(len(excess)), differs.__getitem__):
            together = list(places)
            first = together[0]
            late = len(together) <= 2 and abs(excess[together].sum()) <= 0.05 * line.counted[first]
            late = late and abs(excess[first]) * line.seconds[first] <= 5 * greater[first]
            wrong += together if is_wrong and not late else []
        if wrong and abs(excess.sum()) <= max(8e6, 0.02 * line.moved.sum()):
            worst = max(wrong, key=lambda place: abs(excess[place]))
            (one, by_kernel), (other, by_fio) = _size(line.counted[worst]), _size(line.moved[worst])
            template = (
                f"in {{}} of {{}} samples of {_label(line.first)} the kernel counted another amount of I/O "
                "than fio, although the totals are equal: "
                f"{one} instead of {other} in sample {{}}"
            )
            yield text(template, *_count(wrong, excess), by_kernel, by_fio, worst + 1)
    for line in _lines(run):
        ios = math.prod(values(line.first, "thread_count", "queue_depth"))
        possible = ios * (1.05 * line.seconds + line.longest + 0.25)
        means = np.where(line.response > possible, line.response / line.seconds, 0.0)
        if means.any():
            template = (
                f"in {{}} of {{}} samples of {_label(line.first)} the response times add up to more than {{}} "
                "outstanding I/Os can have: to those of {} in sample {}"
            )
            yield text(template, *_count(means[means > 0], means), ios, means.max(), float(means.argmax() + 1))


def _long_samples(run: Path) -> Iterator[Expected]:
    for line in _lines(run):
        long = line.seconds[line.seconds >= 1.5 * line.requested]
        if len(long):
            noun = f"{'sample' if len(long) == 1 else 'samples'} of {_label(line.first)}"
            yield text(f"{{}} {noun} took longer than requested, up to {{time}}: {{any}}", len(long), max(long))


def _label(row: Row) -> str:
    """Return the name of a continuous stimulus: its part, if it has one, its phase and its point."""
    return ": ".join(filter(None, (row["part"], f"{row['phase']} {row['point']}")))


# -- imported files ---------------------------------------------------------------------------------------------------


def _unknown_end(run: Path) -> Iterator[Expected]:
    found = tkperf.figures(run / "evidence" / "tkperf.xml")
    if facts(run)["test"] != "wsat" or len(found) >= 1440:
        return
    written = sum(4096 * 60 * figures["iops"] for figures in found.values())
    fills = written / float(facts(run)["dut.capacity_bytes"])
    field, amount = _size(written)
    yield text(f"the samples wrote {field}, {{}} x user capacity; {{any}} 4 x {{any}}", amount, fills)


def _disputes(run: Path) -> Iterator[Expected]:
    """Return what the file claims for its window and its rounds do not give; it counts them from 0."""
    claim = tkperf.claim(run / "evidence" / "tkperf.xml")
    if claim is None:
        return
    rounds = next(iter(next(iter(series(run).values())).values()))
    again = determination(rounds, max(rounds), window_rounds(run))
    own = [rounds[number] for number in sorted(rounds)[-window_rounds(run) :]]
    (average,), (slope, intercept) = claim["average"], claim["fit"]
    if not np.allclose(claim["values"], own, rtol=1e-6):
        yield "its values for the window differ from those of these rounds"
    if not math.isclose(average, again["average"], rel_tol=1e-6):
        yield text("its average is {}, that of these rounds is {}", average, again["average"])
    if abs(slope - again["slope"]) > 1e-6 * again["average"]:
        yield text("its best fit has the slope {}, that of these rounds is {}", slope, again["slope"])
    elif abs(intercept - again["intercept"] - again["slope"]) > 1e-5 * again["average"]:
        yield "its best fit does not match these rounds"


_KINDS: dict[str, Callable[[Path], Iterator[Expected]]] = {
    "host-limited": _host_limited,
    "page cache": _cached,
    "limited by options": _limited_by_options,
    "clock": _clock,
    "pause": _pause,
    "idle time": _idle_times,
    "fio's clock": _fio_clock,
    "fio restarted": _restarts,
    "fio's message": _messages,
    "point duration": _overruns,
    "threads apart": _spreads,
    "long I/Os": _stalls,
    "remeasured": _remeasured,
    "uncounted I/Os": _uncounted,
    "R/W mix": _mixes,
    "too short for a rate": _unrated,
    "other I/O on the drive": _foreign,
    "other processes": _processes,
    "other I/O while idle": _idle_io,
    "stolen CPU time": _stolen,
    "CPU throttling": _counter("throttlings"),
    "PCIe errors": _counter("link_errors"),
    "samples": _contradicted,
    "long samples": _long_samples,
}
_OF_IMPORTS: dict[str, Callable[[Path], Iterator[Expected]]] = {
    "end of the stimulus": _unknown_end,
    "steady state claimed": _disputes,
}
