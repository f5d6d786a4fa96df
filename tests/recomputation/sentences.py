"""The measured figures outside of tables: in sentences, captions, titles and the header."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tests.recomputation import demand, host, matrices, profiles, provenance, recoveries
from tests.recomputation.printed import Expected, Text, check, in_decimal_unit, plain, printed_tables, text
from tests.recomputation.record import (
    Row,
    achieved,
    answers,
    column,
    determination,
    facts,
    fills,
    is_imported,
    is_sampled,
    journal,
    measurements,
    parameter,
    response_times,
    rounds_written,
    rows,
    sample_time,
    samples,
    series,
    total,
    values,
    window_of,
    window_rounds,
)
from tests.recomputation.saturation import shown_places

#: Returns what a sentence must be, from the words that its pattern found.
Sentence = Callable[[Path, re.Match[str]], Expected]


def lines(run: Path) -> list[str]:
    """Return the lines of the report's pages, without tables and headers."""
    whole = (run / "report.rst").read_text(encoding="utf-8").partition("\nSummary\n")[2]
    return [plain(line) for line in whole.splitlines() if not line.lstrip().startswith(('"', ":", "..", "="))]


# -- windows ----------------------------------------------------------------------------------------------------------


def windows(run: Path) -> dict[str, list[float]]:
    """Return the first and the last round of each series' last window, with times if its rounds are samples."""
    found: dict[str, list[float]] = {}
    for name, variables in series(run).items():
        last = max(next(iter(variables.values())))
        first = last - window_rounds(run) + 1
        found[name] = [first, last]
        if is_sampled(run, name):
            found[name] += [sample_time(run, number, last) for number in (first, last)]
    return found


def spans(printed: str) -> Iterator[tuple[str, list[float]]]:
    """Yield each span of rounds in a text, and its numbers."""
    number = r"[0-9]+(?:\.[0-9]+)?"
    pattern = rf"rounds ([0-9]+) - ([0-9]+)(?: \((?:minutes|seconds) ({number}) - ({number})\))?"
    for match in re.finditer(pattern, printed):
        yield match[0], [float(group) for group in match.groups() if group]


# -- sentences --------------------------------------------------------------------------------------------------------


def _caption_of_histogram(run: Path, match: re.Match[str]) -> Expected:
    """Return a check of a histogram's caption; two operating points with the same demand have equal stimuli."""
    captions = [_caption(run, row) for row in measurements(run, "histogram") if _stimulus(row) == match[1]]
    return partial(_check_any, captions)


def _check_any(captions: Sequence[Text], line: str) -> None:
    """Compare a caption with several, one of which it must be."""
    failures = []
    for caption in captions:
        try:
            check(line, caption)
        except AssertionError as failure:
            failures.append(str(failure))
    assert len(failures) < len(captions), failures


def _caption(run: Path, row: Row) -> Text:
    parts = answers(run, [row])
    milliseconds = max(values(row, "read_runtime_ms", "write_runtime_ms"))
    ios, moved = float(total([row], "ios")[0]), float(total([row], "bytes")[0])
    maximum_ms = response_times(parts)["maximum_response_us"] / 1000
    edges = sorted({int(edge) for part in parts for edge, count in part["lat_ns"]["bins"].items() if count})
    places = [math.floor(20 * math.log10(min(edge / 1e6, maximum_ms))) for edge in edges]
    rates = (1000 * ios / milliseconds, moved / milliseconds / 1000, maximum_ms)
    together = "" if row["point"].endswith((" 0/100", " 100/0")) else ", reads and writes together,"
    counts = (ios, milliseconds / 1000, float(places[-1] - places[0] + 1), 20.0, float(len(edges)))
    return text(
        f"Confidence Level Plot (CLP). {_stimulus(row)}: IOPS = {{}}, {{}} MB/s, MRT = {{}} ms. {{any}}. "
        f"{{}} I/Os{together} in {{time}}, drawn in {{}} bins, {{}} per decade (recorded in {{}} bins){{any}}"
        f" on a scale of nines.{_host_limit(run, [row])}",
        *rates,
        *counts,
    )


def _host_limit(run: Path, measured: Sequence[Row]) -> str:
    """Return the end of the caption of one continuous stimulus: whether the host limited it."""
    if facts(run)["dut.kind"] == "simulated" or is_imported(run):
        return ""
    ends = {True: " Limited by the host; the drive may be faster.", None: " Undetermined whether the host limited it."}
    return ends.get(host.limited(run, measured), "")


def _pre_write(run: Path, match: re.Match[str]) -> Expected:
    limit = _host_limit(run, measurements(run, "pre-write", match[2]))
    return text(f"{match[1]}{limit}" + " No plot: {any}" * bool(match[4]))


def _stimulus(row: Row) -> str:
    return f"{row['point']}, T{row['thread_count']}Q{row['queue_depth']}"


def _noise(run: Path, match: re.Match[str]) -> Expected:
    first = next(choice.alternatives[0] for choice in demand.choices(run).values() if choice.alternatives)
    template = "{any} The noise is {} % of each point's IOPS: {any} " + first.label
    return text(f"{template}: Thread Count {first.threads}, Queue Depth {first.depth}.", demand.noise_percent(run))


def _alternative_choices(run: Path) -> dict[str, int]:
    """Return how many other points another run may choose, if these are some but not most of all points."""
    if facts(run)["test"] not in ("composite", "dirth"):
        return {}
    counts = {name: len(choice.alternatives) for name, choice in demand.choices(run).items()}
    return {name: count for name, count in counts.items() if count and name not in _hidden_choices(run)}


def _alternatives(run: Path, match: re.Match[str]) -> Expected:
    counts = _alternative_choices(run)
    names = " and ".join(f"{{}} other point{'s' * (count != 1)} as {name}" for name, count in counts.items())
    return text(
        "The noise is {} % of the IOPS, the tolerance {} %. Another run may choose one of " + names + " {any}",
        demand.noise_percent(run),
        parameter(run, "operating_points.tolerance_percent"),
        *map(float, counts.values()),
    )


def _times_of_histograms(run: Path, match: re.Match[str]) -> Expected:
    """Return 99.999 %, if known, and MRT of each histogram."""
    texts: list[str] = []
    figures: list[float] = []
    for row in measurements(run, "histogram"):
        times = response_times(answers(run, [row]))
        known = {"99.999 %": times["five_nines_response_us"], "MRT": times["maximum_response_us"]}
        known = {name: value / 1000 for name, value in known.items() if not math.isnan(value)}
        texts.append(f"{row['part']}: {', '.join(f'{name} = {{}} ms' for name in known)}")
        figures += known.values()
    return text(
        "The table is of the loop. The histograms measure the same points for {time} (page {any}): "
        + "; ".join(texts)
        + ".",
        parameter(run, "operating_points.histogram_seconds"),
        *figures,
    )


def _rate_differences(run: Path) -> dict[str, float]:
    """Return by how many percent the IOPS of a histogram differ from those of its operating point, if by over 5."""
    if facts(run)["test"] not in ("composite", "dirth"):
        return {}
    found = {}
    for name, choice in demand.choices(run).items():
        for row in measurements(run, "histogram", name):
            iops = 1000 * total([row], "ios")[0] / max(values(row, "read_runtime_ms", "write_runtime_ms"))
            found[name] = 100 * (iops / choice.candidates[0].iops - 1)
    return {name: percent for name, percent in found.items() if abs(percent) > 5}


def _rates_of_histograms(run: Path, match: re.Match[str]) -> Expected:
    """Return the differences, and the times of pre-write, histogram and point, which are a reason."""
    differences = _rate_differences(run)
    texts = [f"{name} {{}} % {'lower' if percent < 0 else 'higher'}" for name, percent in differences.items()]
    keys = ("operating_points.pre_write_seconds", "operating_points.histogram_seconds", "demand.point_seconds")
    return text(
        f"{match[1]}{', '.join(texts)}. A histogram is measured after the loop and directly after a pre-write of "
        "{time}; it lasts {time}, a point of the loop {time}.",
        *map(abs, differences.values()),
        *(parameter(run, key) for key in keys),
    )


def _selection(run: Path, match: re.Match[str]) -> Expected:
    """Return how far the nearest point is from the target of Mid IOPS, and how far a point may be."""
    choice, near = demand.choices(run)["Mid IOPS"], parameter(run, "operating_points.tolerance_percent")
    distance = abs(choice.nearest.iops - choice.target)
    return text(
        f"{{any}} The nearest point, {choice.nearest.label}, is {{}} IOPS away. Points up to {{}} + {{}} % of {{}} = "
        "{} IOPS from the target are near enough. {any}",
        distance,
        distance,
        near,
        choice.target,
        distance + near / 100 * choice.target,
    )


def _hidden_choices(run: Path) -> list[str]:
    """Return the operating points for which another run may choose more than half of all points."""
    if facts(run)["test"] not in ("composite", "dirth"):
        return []
    choices, most = demand.choices(run), len(demand.points(run)) / 2
    return [name for name, choice in choices.items() if len(choice.alternatives) > most]


def _uncertain(run: Path, match: re.Match[str]) -> Expected:
    others = demand.choices(run)[match[1]].alternatives
    assert match[1] in _hidden_choices(run)
    iops = [point.iops for point in others]
    return text(
        f"{match[1]} cannot be distinguished from most other points in this run: the noise is {{}} % of the IOPS, and "
        "another run may choose one of {} other points of {}, with {} to {} IOPS.",
        demand.noise_percent(run),
        float(len(others)),
        float(len(demand.points(run))),
        min(iops),
        max(iops),
    )


def _title_of_histogram(run: Path, match: re.Match[str]) -> Expected:
    (row,) = measurements(run, "histogram", match[2])
    return text(f"{match[1]}{{}} ms", response_times(answers(run, [row]))["maximum_response_us"] / 1000)


def _summary_of_histogram(run: Path, match: re.Match[str]) -> Expected:
    (row,) = measurements(run, "histogram")
    times = response_times(answers(run, [row]))
    names = ("average", "three_nines", "four_nines", "five_nines", "maximum")
    shown = {name: times[f"{name}_response_us"] / 1000 for name in names}
    labels = ("ART", "99.9 %", "99.99 %", "99.999 %", "MRT")
    known = [(label, value) for label, value in zip(labels, shown.values(), strict=True) if not math.isnan(value)]
    milliseconds = max(values(row, "read_runtime_ms", "write_runtime_ms"))
    figures = ", ".join(f"{label} {{}} ms" for label, _ in known)
    (point,) = (other for other in rows(run, "points") if other["point"] == row["point"])
    of_loop = matrices.over_window(run, point)
    ratios = {
        "99.999 %": shown["five_nines"] / of_loop["five_nines_ms"],
        "MRT": shown["maximum"] / of_loop["maximum_ms"],
    }
    ratios = {name: ratio for name, ratio in ratios.items() if not math.isnan(ratio)}
    return text(
        f"Histogram of {_stimulus(row)}: {{}} IOPS, {figures}. It was {{any}} In the histogram, "
        f"{' and '.join(f'{name} is {{}} times' for name in ratios)} as long as in the loop. In the loop, {{any}}",
        1000 * float(total([row], "ios")[0]) / milliseconds,
        *(value for _, value in known),
        *ratios.values(),
    )


def _baseline(run: Path, match: re.Match[str]) -> Expected:
    return text("{any} Baseline: {} IOPS{any}", recoveries.baseline(run))


def _transition(run: Path, match: re.Match[str]) -> Expected:
    """Return how much of two groups is shown: at most 2 hours of each, or 1.5 times the time of a longer recovery.

    The gap between them is before the second.
    """
    before, after = (measurements(run, "stimulus", part)[0] for part in match.groups()[1:])
    gap = provenance.started_seconds(run, after) - provenance.started_seconds(run, before)
    shown = gap, values(samples(run, match[3], "stimulus")[-1], "ended_seconds")[0]
    most = [7200.0, 7200.0]
    if match[3] == "AG 3":
        _, returned = recoveries.recovery_of_last(run)
        most[1] = max(7200.0, 1.5 * np.nan_to_num(returned["for_good_end"]))
    lengths = [min(*pair) for pair in zip(most, shown, strict=True)]
    return text(f"{match[1]}, {{time}} before and {{time}} after the transition from {{any}}", *lengths)


def _shown_samples(run: Path, match: re.Match[str]) -> Expected:
    kept = samples(run, "", "stimulus")
    (table,) = (table for table in printed_tables(run) if table.page.endswith("Tabular Data"))
    figures = [parameter(run, "settling.sample_seconds"), float(len(table.body)), float(len(kept))]
    missing = ""
    if is_imported(run):
        missing = " 99.999 % is n/a: not in the imported file."
    elif any("n/a" in row for row in table.body):
        missing = " 99.999 % is n/a: the sample has fewer than the required 100 000 I/Os."
    shortened = len(kept) - len(recoveries.without_shortened(kept, kept))
    omitted = f"; {shortened} shortened sample{'s' * (shortened != 1)} omitted" if shortened else ""
    whole, selection = recoveries.without_shortened(kept, kept), ""
    places = shown_places(kept.index(whole[-1]) + 1, len(table.body))
    if places[1] > 1:
        figures.append(float(places[1]))
        selection = f": one in {{}} from the first on, and the last{' full' if shortened else ''} one"
    return text(
        f"Single samples of {{time}}, by the minute they ended, {{}} of {{}} shown{selection}{omitted}.{missing}",
        *figures,
    )


def _stalled(run: Path, match: re.Match[str]) -> Expected:
    return recoveries.stalled_samples(run)


def _end(run: Path, match: re.Match[str]) -> Expected:
    kept = recoveries.at_end(samples(run, "", "stimulus"))
    return text("IOPS and response times, each sample of the last {time}.{any}", float(column(kept, "seconds").sum()))


def _early(run: Path, match: re.Match[str]) -> Expected:
    """Return how often the range was written by the end of the samples' last window, and how often it must be."""
    (name,) = (name for name in series(run) if is_sampled(run, name))
    written, required = math.floor(100 * _fills(run, name)) / 100, parameter(run, "settling.minimum_fills")
    if written >= required:
        return text("{any}determined after {} fills of the ActiveRange{any}", written)
    template = "{any}within the limits after {} fills of the ActiveRange, but at least {} are required{any}"
    return text(template, written, required)


def _written(run: Path, match: re.Match[str]) -> Expected:
    """Return what the rounds wrote up to the end of a window, with a caution if random writes filled no range."""
    found = [kept for name in series(run) if (kept := rounds_written(run, name))]
    least = "at least " if any(entry["kind"] == "resume" for entry in journal(run)) else ""
    sentences = []
    for name, (last, written, times) in zip(series(run), found, strict=True):
        amount, unit = in_decimal_unit(written)
        fact = f"Written in rounds 1 to {last}: {least}{{}} {unit}, {{}} fills of the ActiveRange."
        caution = facts(run)["test"] != "throughput" and times < 1 and achieved(run, name)
        filled = " The window ended before random writes had filled the ActiveRange once; {any}"
        sentences.append(text("{any}" + fact + filled * caution, amount, times))
    return partial(_check_any, sentences)


def _fills(run: Path, name: str) -> float:
    return fills(run, max(next(iter(series(run)[name].values()))))


def _deviations(run: Path, match: re.Match[str]) -> Expected:
    return text("NOT PTS conformant: {} deviation{any}", float(len(rows(run, "deviations"))))


def unsteady_points(run: Path) -> dict[str, tuple[float, float]]:
    """Return the excursions of the points that are not steady, if all loops are; without points of demand."""
    if facts(run)["test"] not in ("iops", "throughput", "latency") or not all(
        achieved(run, name) for name in series(run)
    ):
        return {}
    found = {row["point"]: matrices.excursions(run, row) for row in rows(run, "points")}
    return {name: pair for name, pair in found.items() if pair and (pair[0] > 20 or pair[1] > 10)}


def _unsteady(run: Path, match: re.Match[str]) -> Expected:
    return partial(_check_unsteady, run, f"{match[1]} of {match[2]} point")


def _check_unsteady(run: Path, counts: str, line: str) -> None:
    """Compare the number of points that are not steady, and on the page of the matrix their names and excursions."""
    unsteady, points = unsteady_points(run), rows(run, "points")
    assert counts == f"{len(unsteady)} of {len(points)} point"
    if "They are R/W " in line:
        assert line.partition("They are R/W ")[2].partition(". ")[0] == _by_mix(list(unsteady), points)
        data_name, (data, _) = max(unsteady.items(), key=lambda one: one[1][0])
        slope_name, (_, slope) = max(unsteady.items(), key=lambda one: one[1][1])
        largest = (
            f"The largest data excursion is {{}} % ({data_name}), the largest slope excursion {{}} % ({slope_name})."
        )
        check(line, text(f"{{any}} {largest}{{any}}", data, slope))
    elif "It is " in line:
        ((name, pair),) = unsteady.items()
        check(line, text(f"{{any}} It is {name} (data excursion {{}} %, slope excursion {{}} %).{{any}}", *pair))


def _by_mix(names: Sequence[str], points: Sequence[Row]) -> str:
    """Return names of points by R/W mix, in their order; a mix of which all of several sizes are named has no list."""
    of_mix: dict[str, list[str]] = {}
    for name in names:
        _, size, _, read_write = name.split(" ")
        of_mix.setdefault(read_write, []).append(size)
    texts = []
    for read_write, sizes in of_mix.items():
        measured = sum(point["point"].endswith(f" {read_write}") for point in points)
        are_all = 1 < measured == len(sizes)
        texts.append(f"{read_write}: {'all block sizes' if are_all else ', '.join(sizes) + ' KiB'}")
    return "; ".join(texts)


def covered_lines(run: Path) -> dict[str, str]:
    """Return the R/W mixes whose IOPS are within 3 % of those of a mix with more reads, with the most such reads."""
    of_mix: dict[int, dict[str, float]] = {}
    for row in rows(run, "points") if facts(run)["test"] == "iops" else ():
        of_mix.setdefault(int(row["read_percent"]), {})[row["block_size_bytes"]] = matrices.over_window(run, row)[
            "iops"
        ]
    found = {}
    for share, below in of_mix.items():
        for other in sorted(other for other in of_mix if other > share):
            pairs = [(value, of_mix[other][size]) for size, value in below.items()]
            if all(abs(one - two) <= 0.03 * max(one, two) for one, two in pairs):
                found[f"{share}/{100 - share}"] = f"{other}/{100 - other}"
    return found


def _covered(run: Path, match: re.Match[str]) -> Expected:
    """Return the caption's words on lines under others, by ascending reads."""
    found = covered_lines(run)
    below: dict[str, list[str]] = {}
    for name in sorted(found, key=lambda name: int(name.partition("/")[0])):
        below.setdefault(found[name], []).append(name)
    texts = (f"{' and '.join(names)} lie{'s' * (len(names) == 1)} under {top}" for top, names in below.items())
    return text(f"{{any}} {'; '.join(texts)}: less than {{}} % apart.{{any}}", 3)


def _zones(run: Path, match: re.Match[str]) -> Expected:
    """Return the number of zones and their size; a zone has whole blocks, so one may have some more than another."""
    names = [row["point"].partition(", zone ")[2] for row in rows(run, "points")]
    count = max(int(number) for number in names if number)
    capacity = values(facts(run), "dut.capacity_bytes")[0]
    if math.isnan(capacity):
        return text("{} zones of unknown size{any}", count)
    unit, factor = next(
        (unit, factor) for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if capacity / count >= factor
    )
    return text(f"{{}} zones of {{}} {unit}{{any}}", count, capacity / count / factor)


def _slowed(run: Path, match: re.Match[str]) -> Expected:
    """Return how many points of the table of points have an average above their 99 % response time."""
    return text("{any} In {} of {} point{any} the average is above {any}", *map(float, profiles.slowed_by_few(run)))


SENTENCES: dict[str, Sentence] = {
    r".* In \d+ of \d+ points? the average is above the 99 % response time: .*": _slowed,
    r"Confidence Level Plot \(CLP\)\. (.*?): IOPS = .*": _caption_of_histogram,
    r"(.*, before the response time histogram of the (M\w\w IOPS) point\.)(.*?)( No plot: .*)?": _pre_write,
    r"(P\d+ (M\w\w IOPS) Response Time Histogram, MRT = ).*": _title_of_histogram,
    r"A run chooses the first point in the order of Total OIO .*": _noise,
    r"The noise is \S+ % of the IOPS, the tolerance .*": _alternatives,
    r"The table is of the loop. The histograms .*": _times_of_histograms,
    r"(?:\S+ Limited by the host.* )?Max IOPS: .* Mid IOPS: the target is .*": _selection,
    r"(M\w\w IOPS) cannot be distinguished .*": _uncertain,
    r"(IOPS of histograms that differ from the loop by more than 5 %: ).*": _rates_of_histograms,
    r"Histogram of .*: .* IOPS, .*": _summary_of_histogram,
    r".*Written in rounds 1 to .*": _written,
    r"(?:.* |.*\()?(\d+) of (\d+) points?(?: is| are|,) not steady in the window.*": _unsteady,
    r".* lies? under .*: less than 3 % apart\..*": _covered,
    r".* Baseline: \d.*": _baseline,
    r".*(determined|within the limits) after .* fills of the ActiveRange.*": _early,
    r"(.*/s\)(?:, log scale)?), .* after the transition from (AG \d) \(.*\) to (AG \d) \(.*\)\..*": _transition,
    r"Single samples of .*": _shown_samples,
    r"Samples in which an I/O took more than .*": _stalled,
    r"IOPS and response times, each sample .*": _end,
    r"NOT PTS conformant: .*": _deviations,
    r"\d+ zones? of .*, from the start of the target\. .*": _zones,
}

#: How many sentences of each test must be found, so that a changed wording does not leave one unchecked.
FOUND = {
    "hir": 2,
    "xsr": 4,
    "wsat": 2,
    "dirth": 12,
    "composite": 12,
    "latency": 1,
    "iops": 1,
    "throughput": 1,
    "profile": 0,
}


def required_sentences(run: Path) -> int:
    """Return how many sentences with measured figures the report must have; each histogram of one point has a caption.

    Of latency, the summary has a sentence on it, too.  The captions of several operating points are in ``FOUND``.  A
    window before the range was written twice is named on the summary, and one before it was full also on its page.
    Points that are not steady are named on the summary, below the matrix, in the captions of its figures, and on the
    page of all block sizes.
    Each page of a window of rounds says what they wrote, and so does the summary if random writes filled less than the
    range.
    """
    test, alone = facts(run)["test"], len(measurements(run, "histogram")) == 1
    steady = [name for name in windows(run) if is_sampled(run, name) and _is_steady(run, name)]
    early = sum(_fills(run, name) < 2 for name in steady) + sum(not achieved(run, name) for name in steady)
    alternatives = test in ("composite", "dirth") and any(
        choice.alternatives for choice in demand.choices(run).values()
    )
    histograms = (2 if test == "latency" else 1) * alone
    loops = {name: amount for name in windows(run) if (amount := rounds_written(run, name))}
    written = sum(len(series(run)[name]) for name in loops)
    written += test != "throughput" and any(loops[name][2] < 1 and achieved(run, name) for name in loops)
    figures = {"iops": 3, "latency": 3, "throughput": 1}
    written += (2 + figures[test]) * bool(unsteady_points(run)) if test in figures else 0
    written += bool(covered_lines(run))
    uncertain = 2 * bool(_rate_differences(run)) + len(_hidden_choices(run)) + bool(_alternative_choices(run))
    return FOUND[test] + histograms + early + alternatives + uncertain + written


def _is_steady(run: Path, name: str) -> bool:
    """Return whether the last window of a series is within the limits of the rule, however little was written."""
    window = window_rounds(run)
    return all(
        determination(one_series, max(one_series), window)["steady"] for one_series in series(run)[name].values()
    )


def check_sentences(run: Path) -> int:
    """Compare every sentence that has measured figures; return how many there are."""
    count = 0
    for line in lines(run):
        for pattern, sentence in SENTENCES.items():
            if match := re.fullmatch(pattern, line):
                check(line, sentence(run, match))
                count += 1
    return count


def check_spans(run: Path) -> None:
    """Compare each span of rounds in lines and titles of tables with the windows."""
    for line in (*lines(run), *(table.name for table in printed_tables(run))):
        for shown, numbers in spans(line):
            assert any(numbers == [float(f"{number:.4g}") for number in window] for window in windows(run).values()), (
                shown
            )


# -- host limits ------------------------------------------------------------------------------------------------------

_NOTE = re.compile(
    r"(\d+) (point|pre-write|histogram)s?: (\d+) host-limited( \(the drive may be faster; not marked here\))?, "
    r"(\d+) undetermined(?: \((.*?)(?: and (\d+) more)?\))?, (\d+) "
    r"(not host-limited|without a sign of a host limit)\.( No mark: (.*?)\.)?"
)


def check_host_notes(run: Path) -> int:
    """Compare each note on the host limits of a figure or table with the verdicts; return how many notes there are.

    The points are those of the loop, those with the most threads, or the operating points.
    """
    notes = [match for line in lines(run) for match in _NOTE.finditer(line)]
    possible = list(_judged_groups(run)) if notes else []
    for match in notes:
        noun, named = match[2], match[6].split(", ") if match[6] else []
        shown = [int(match[at]) for at in (1, 3, 5, 8)]
        groups = [group for kind, group in possible if kind == noun]
        assert any(_is_note(group, shown, named, int(match[7] or 0)) for group in groups), match[0]
        assert match[9] == host.not_limited(run)
        unmarked = ["undetermined"] * (shown[2] > 0) + [match[9]] * (shown[3] > 0)
        assert match[11] in (None, " or ".join(unmarked))
        assert bool(match[4]) + bool(match[10]) == (shown[1] > 0 and bool(match[4] or unmarked))
    return len(notes)


def required_host_notes(run: Path) -> int:
    """Return how many notes on all points a report of a TC x QD loop must have: below figures and tables of them."""
    if facts(run)["test"] not in ("composite", "dirth"):
        return 0
    _, verdicts = next(iter(_judged_groups(run)))
    noted = facts(run)["dut.kind"] != "simulated" and not all(verdict is False for verdict in verdicts.values())
    return 5 * noted


def _is_note(verdicts: dict[str, host.Verdict], shown: list[int], named: list[str], more: int) -> bool:
    undetermined = {name for name, verdict in verdicts.items() if verdict is None}
    counts = [list(verdicts.values()).count(verdict) for verdict in (True, None, False)]
    return (
        shown == [len(verdicts), *counts]
        and set(named) <= undetermined
        and len(set(named)) + more == len(undetermined)
        and (len(named) == 10 or not more)
    )


def _judged_groups(run: Path) -> Iterator[tuple[str, dict[str, host.Verdict]]]:
    """Yield the verdicts that a note may be about: those of points, pre-writes and histograms, by name."""
    found = rows(run, "points")
    demands = {(row["thread_count"], row["queue_depth"]) for row in found}
    name = (
        (lambda row: f"T{row['thread_count']}Q{row['queue_depth']}") if len(demands) > 1 else (lambda row: row["point"])
    )
    verdicts = {name(row): host.limited(run, window_of(run, row)) for row in found}
    yield "point", verdicts
    if facts(run)["test"] in ("composite", "dirth"):
        most = max(int(row["thread_count"]) for row in found)
        yield "point", {label: verdict for label, verdict in verdicts.items() if label.startswith(f"T{most}Q")}
        yield "point", {name: verdicts[choice.candidates[0].label] for name, choice in demand.choices(run).items()}
    for noun, phase in (("pre-write", "pre-write"), ("histogram", "histogram")):
        parts: dict[str, list[Row]] = {}
        for row in measurements(run, phase):
            if noun == "histogram" or row["part"].startswith("Round "):
                parts.setdefault(row["part"], []).append(row)
        yield noun, {part: host.limited(run, measured) for part, measured in parts.items()}


# -- header -----------------------------------------------------------------------------------------------------------


def header(run: Path) -> list[tuple[str, str]]:
    """Return the names and values of the setup and test parameters in the header."""
    before = (run / "report.rst").read_text(encoding="utf-8").partition("\nSummary\n")[0]
    cells = [line.strip() for line in before.splitlines() if line.strip().startswith('"')]
    found = [[plain(cell) for cell in row] for row in csv.reader(cells, skipinitialspace=True)]
    return [(row[at], row[at + 1]) for row in found if len(row) == 8 for at in (4, 6)]


def check_header(run: Path) -> int:
    """Compare the windows and operating points in the header; return how many there are."""
    count = 0
    spans = [[f"{number:.4g}" for number in numbers] for numbers in windows(run).values()]
    for name, value in header(run):
        if name in ("SS Rounds", "Steady State") and value != "n/a":
            for part in re.split("; | / ", value):
                assert re.findall(r"[0-9.]+", part) in spans, f"{name}: {value}"
                count += 1
        if match := re.fullmatch("(M.. IOPS) Point", name):
            point = demand.choices(run)[match[1]].candidates[0]
            check(value, f"{point.threads * point.depth} (TC {point.threads}/QD {point.depth})")
            count += 1
    return count
