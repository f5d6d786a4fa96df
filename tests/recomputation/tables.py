"""What each printed table must show, recomputed from the record of the run: a function for each kind of table."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.recomputation import (
    demand,
    drive_logs,
    host,
    matrices,
    percentiles,
    power,
    profiles,
    provenance,
    recoveries,
    saturation,
    warnings,
)
from tests.recomputation.printed import (
    Expected,
    PrintedTable,
    check,
    check_number,
    in_decimal_unit,
    labelled,
    printed_tables,
    text,
)
from tests.recomputation.record import (
    Row,
    achieved,
    answers,
    column,
    determination,
    discarded,
    facts,
    has_window,
    in_seconds,
    interruptions,
    is_imported,
    is_profile,
    is_sampled,
    journal,
    measurements,
    parameter,
    performed,
    response_times,
    rounds_written,
    rows,
    sample_time,
    samples,
    series,
    total,
    values,
    window_rounds,
)

#: Cells in the order of the printed table.
Cells = list[list[Expected]]
Recompute = Callable[[Path, PrintedTable], Cells]


# -- steady state -----------------------------------------------------------------------------------------------------


def _span(run: Path, name: str) -> tuple[str, list[float]]:
    """Return the rounds of the last window of a series as text, with its times if the rounds are samples.

    The text of the times has them in minutes or, if the last sample ended within five, in seconds.
    """
    last = max(next(iter(series(run)[name].values())))
    first = last - window_rounds(run) + 1
    if not is_sampled(run, name):
        return "{} - {}", [first, last]
    unit = "seconds" if in_seconds(run, last) else "minutes"
    times = (sample_time(run, number, last) for number in (first, last))
    return f"{{}} - {{}} ({unit} {{}} - {{}})", [first, last, *times]


def _series_of(run: Path, table: PrintedTable) -> tuple[str, str]:
    """Return the series and the variable of a page on a measurement window, by its title and its rounds."""
    code = re.search(r"Measurement Window - (\w+)/(\S+) RW(\d+)( T\d+Q\d+)?", table.page)
    assert code
    access, size, read_percent, at = code.groups()
    sizes = "composite" if "-" in size else size.replace("KiB", " KiB")
    label = f"{access} {sizes} {read_percent}/{100 - int(read_percent)}{at or ''}"
    found = [
        (name, variable)
        for name, variables in series(run).items()
        for variable in variables
        if variable == label and is_sampled(run, name) == bool(re.search("minutes|seconds", table.body[0][1]))
    ]
    assert len(found) == 1, f"{label}: {found}"
    return found[0]


def determination_data(run: Path, table: PrintedTable) -> Cells:
    name, variable = _series_of(run, table)
    rounds = series(run)[name][variable]
    figures = determination(rounds, max(rounds), window_rounds(run))
    average, data, fit = (figures[key] for key in ("average", "data_excursion", "slope_excursion"))
    span, numbers = _span(run, name)
    if not average > 0:
        unevaluable = "NOT ACHIEVED (not evaluable: the average is not a positive number)"
        return [["Measurement window (rounds)", text(span, *numbers)], ["Verdict", unevaluable]]
    verdict = "STEADY" if figures["steady"] else "NOT ACHIEVED"
    sign = "-" if figures["intercept"] < 0 else "+"
    fitted = text(f"{{}} x R {sign} {{}}", figures["slope"], abs(figures["intercept"]))
    return [
        ["Measurement window (rounds)", text(span, *numbers), "", ""],
        ["Average", average, 100, ""],
        ["Allowed maximum data excursion", figures["allowed_data_excursion"], 20, ""],
        ["Measured data excursion", data, 100 * data / average, _passes(data <= 0.2 * average)],
        ["Allowed maximum slope excursion", figures["allowed_slope_excursion"], 10, ""],
        ["Measured slope excursion", fit, 100 * fit / average, _passes(fit <= 0.1 * average)],
        [text("Least squares line (R: round, {} to {})", *numbers[:2]), fitted, "", ""],
        ["Verdict", "", "", verdict],
    ]


def excursions(run: Path, table: PrintedTable) -> Cells:
    """Return average and excursions of every block size of the mix with the most writes, in the window."""
    points = rows(run, "points")
    share = min(int(row["read_percent"]) for row in points)
    assert table.title.startswith(f"R/W {share}/{100 - share}: ")
    assert f"All Block Sizes, R/W {share}/{100 - share}" in table.page
    by_label = {
        f"{int(row['block_size_bytes']) / 1024:g} KiB": matrices.by_round(run, row)
        for row in points
        if int(row["read_percent"]) == share
    }
    (variables,) = series(run).values()
    figure = "iops" if "IOPS" in table.heading[1] else "average_ms"
    cells: Cells = []
    for label in (row[0] for row in table.body):
        figures = by_label.pop(label)
        found = determination({at: row[figure] for at, row in enumerate(figures, 1)}, len(figures), len(figures))
        percents = [100 * found[key] / found["average"] for key in ("data_excursion", "slope_excursion")]
        tracked = f"RND {label} {share}/{100 - share}" in variables
        cells.append(
            [
                label,
                found["average"],
                *percents,
                *("yes" if is_true else "no" for is_true in (found["steady"], tracked)),
            ]
        )
    assert not by_label, "a block size is missing"
    return cells


def _passes(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def tracked_by_round(run: Path, table: PrintedTable) -> Cells:
    sampled = bool({"Minute", "Second"} & {*table.heading})
    ((name, variables),) = (
        (name, one_series)
        for name, one_series in series(run).items()
        if is_sampled(run, name) == sampled and table.title in ("", name)
    )
    shown = [re.sub(r" \([^()]*\)$", "", name) for name in table.heading if name.endswith(("(IOPS)", "(MB/s)", "(ms)"))]
    assert shown == list(variables)
    rounds = list(next(iter(variables.values())))
    return [
        [
            text("* {}" if _is_interrupted(run, name, number) else "{}", float(number)),
            *([sample_time(run, number, rounds[-1])] if sampled else []),
            *(cell for variable in variables.values() for cell in _round_cells(run, name, variable, number)),
        ]
        for number in rounds
    ]


def _is_interrupted(run: Path, name: str, number: int) -> bool:
    """Return whether the run was interrupted in a round, or right before it."""
    counts, before = (interruptions(run, name, place) for place in (number, number - 1))
    return len(counts) > 1 or (bool(before) and counts[:1] != before[-1:])


def _round_cells(run: Path, name: str, variable: dict[int, float], number: int) -> list[Expected]:
    window = window_rounds(run)
    spanned = {count for place in range(number - window + 1, number + 1) for count in interruptions(run, name, place)}
    if not has_window(variable, number, window) or len(spanned) > 1:
        return [variable[number], "", "", ""]
    figures = determination(variable, number, window)
    percents = [100 * figures[key] / figures["average"] for key in ("data_excursion", "slope_excursion")]
    return [variable[number], *percents, "yes" if figures["steady"] else "no"]


def deviations(run: Path, table: PrintedTable) -> Cells:
    """Return the deviations; of those, an interruption has measured figures."""
    stops = [entry for entry in journal(run) if entry["kind"] == "resume"]
    cells: Cells = []
    for name, *_ in table.body:
        cells.append([name, None, _interruption(run, stops.pop(0)) if name == "interruption" else None, None])
    assert not stops
    return cells


def _interruption(run: Path, entry: dict[str, Any]) -> Expected:
    """Return the times of an interruption, and what it discarded; the run of a test has only one."""
    outcomes, written = discarded(run)
    stopped, resumed = (entry[key][:19].replace("T", " ") for key in ("stopped", "at"))
    times = f"stopped {stopped}, resumed {resumed}, {{time}} without I/O of the test ({entry['reason']}); "
    if not outcomes:
        rounds = [
            int(row["round"]) for row in rows(run, "measurements") if row["round"] and row["interruptions"] == "0"
        ]
        point = rounds.count(max(rounds)) + 1
        return text(
            times + "it continued with Round {}, point {} of {}; {any}",
            entry["idle_seconds"],
            max(rounds),
            point,
            rounds.count(1),
        )
    amount, unit = in_decimal_unit(written)
    size = f"discarded: {{}} outcomes before it ({{}} {unit} written)"
    return text(times + "it continued with Purge; " + size + "{any}", entry["idle_seconds"], outcomes, amount)


# -- points and the summary page --------------------------------------------------------------------------------------


def tracked_figures(run: Path, table: PrintedTable) -> Cells:
    """Return the key figures of tests with tracked points, and of the reads of the block sizes of tracked writes."""
    cells: Cells = []
    metrics = {"iops": "IOPS", "throughput": "MB/s", "latency": "ART"}
    assert table.heading[-1] == f"Steady ({metrics[facts(run)['test']]})"
    for name, variables in series(run).items():
        of_loop = {row["point"]: row for row in rows(run, "points") if row["part"] in ("", name)}
        verdicts = {
            variable: "yes" if determination(rounds, max(rounds), window_rounds(run))["steady"] else "NO"
            for variable, rounds in variables.items()
        }
        for variable in variables:
            pattern, _, read_write = variable.rpartition(" ")
            if read_write == "0/100" and (read := f"{pattern} 100/0") in of_loop:
                verdicts.setdefault(read, "n/a")
        for variable, verdict in verdicts.items():
            point = of_loop[variable]
            assert table.marks.get((len(cells), 0), "") == matrices.mark_of(run, point)
            figures = matrices.over_window(run, point)
            span, numbers = _span(run, name)
            keys = ("iops", "mb_per_second", "average_ms", "five_nines_ms", "maximum_ms")
            window = text(span + ("" if achieved(run, name) else ", NOT ACHIEVED"), *numbers)
            cells.append([variable, window, *(figures[key] for key in keys), verdict])
    return cells


def run_facts(run: Path, table: PrintedTable) -> Cells:
    """Return the facts of the run: windows, rounds, its duration, and all data that its answers add up to."""
    about = facts(run)
    capacity = float(about["dut.capacity_bytes"] or "nan")
    expected: dict[str, Expected] = {
        "Profile" if is_profile(run) else "Standard": None,
        "User capacity": "\N{EN DASH}" if math.isnan(capacity) else partial(_check_capacity, capacity),
    }
    expected |= _reported_amounts(run, capacity) if is_imported(run) else _amounts(run, capacity)
    if repeated := len(performed(run)) - len(rows(run, "measurements")):
        expected["Repeated with more passes"] = text("{} measurement{any}, too short before; {any}", float(repeated))
    if not is_imported(run):
        real = about["dut.kind"] != "simulated"
        if real or _sensed(run, "celsius"):
            expected["Drive temperature during measurements"] = partial(_check_temperature, run)
        if watts := _sensed(run, "watts"):
            expected["Power during measurements"] = text("{} to {} W", min(watts), max(watts))
        if real:
            expected["Host or drive?"] = provenance.verdicts(run)
    if stops := [entry for entry in journal(run) if entry["kind"] == "resume"]:
        idle = float(sum(entry["idle_seconds"] for entry in stops))
        expected["Interrupted"] = text("{} interruption{any}, {time} of the duration", float(len(stops)), idle)
    for name, variables in series(run).items():
        kind = "Preconditioning" if "Preconditioning" in name else name if len(series(run)) > 1 else ""
        suffix = f", {kind if kind == 'Preconditioning' or kind.endswith(' KiB') else 'Test loop'}" if kind else ""
        suffix = "" if len(series(run)) == 1 else suffix
        span, numbers = _span(run, name)
        window = text(span + ("" if achieved(run, name) else ", NOT ACHIEVED"), *numbers)
        expected[f"{'Window' if suffix else 'Measurement window'} (rounds){suffix}"] = window
        count = float(len(next(iter(variables.values()))))
        if is_sampled(run, name):
            sample, stride = (parameter(run, f"settling.{key}") for key in ("sample_seconds", "stride_samples"))
            spacing = "one sample of {time} every {time}"
            expected[f"Rounds evaluated{suffix}"] = text(f"{{}} ({spacing})", count, sample, stride * sample)
        else:
            expected[f"Rounds run{suffix}"] = text("{} complete (at most {any})", count)
        if written := rounds_written(run, name):
            last, (amount, unit) = written[0], in_decimal_unit(written[1])
            least = "at least " if stops else ""
            figures = text(f"{least}{{}} {unit}, {{}} fills of the ActiveRange", amount, written[2])
            expected[f"Data written, rounds 1 to {last}{suffix}"] = figures
    return labelled(table, expected)


def _sensed(run: Path, name: str) -> list[float]:
    """Return a quantity of the telemetry of all measurements and samples that have it."""
    tables = ("measurements", *(path.stem for path in (run / "tables").glob("samples-*.csv")))
    kept = [row for table in tables for row in rows(run, table)]
    return [float(row[name]) for row in kept if row.get(name)]


def _check_temperature(run: Path, cell: str) -> None:
    """Compare the lowest and the highest temperature of all measurements and samples."""
    found = _sensed(run, "celsius")
    assert cell == (f"{min(found):.0f} to {max(found):.0f} \N{DEGREE SIGN}C" if found else "not reported")


def _amounts(run: Path, capacity: float) -> dict[str, Expected]:
    """Return the duration of a run, and all data that its answers add up to."""
    about = facts(run)
    started, finished = (datetime.datetime.fromisoformat(about[key]) for key in ("started", "finished"))
    virtual = " (virtual)" if about["dut.kind"] == "simulated" else ""
    written, read = (float(column(performed(run), f"{side}_bytes").sum()) for side in ("write", "read"))
    (amount, unit), (amount_read, read_unit) = in_decimal_unit(written), in_decimal_unit(read)
    amount_discarded, discarded_unit = in_decimal_unit(discarded(run)[1])
    least = "at least " if any(entry["kind"] == "resume" for entry in journal(run)) else ""
    more = f"; plus {{}} {discarded_unit} in discarded measurements" if amount_discarded else ""
    return {
        "Duration": text("{time}" + virtual, (finished - started).total_seconds()),
        "Data written, whole run": text(
            f"{least}{{}} {unit}, {{}} x user capacity{more}",
            amount,
            written / capacity,
            *([amount_discarded] if amount_discarded else []),
        ),
        "Data read": text(f"{least}{{}} {read_unit}", amount_read),
    }


def _reported_amounts(run: Path, capacity: float) -> dict[str, Expected]:
    """Return what follows from the IOPS and the time of another tool's samples; a file of points has no amounts."""
    if not (kept := samples(run, "", "stimulus")):
        return {"Duration": "\N{EN DASH}", "Data written, whole run": "not reported", "Data read": "not reported"}
    written = float(column(kept, "write_bytes").sum())
    amount, unit = in_decimal_unit(written)
    cell = text(f"{{}} {unit}, {{}} x user capacity", amount, written / capacity)
    return {"Duration": "\N{EN DASH}", "Data written, whole run": cell, "Data read": text("{} B", 0)}


_UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}


def _check_capacity(capacity: float, cell: str) -> None:
    match = re.fullmatch(r"([0-9.]+) (\w+) \((\d+) bytes\)", cell)
    assert match, cell
    assert float(match[3]) == capacity
    amount = capacity / _UNITS[match[2]]
    check_number(match[1], amount)
    assert len(match[1].replace(".", "")) == 4 or amount.is_integer()


# -- response time histograms -----------------------------------------------------------------------------------------


def histogram_figures(measured: Iterable[Row], run: Path) -> list[Expected]:
    """Return I/Os, IOPS, MB/s, ART, percentiles and MRT of a histogram's answers together."""
    kept = list(measured)
    parts = answers(run, kept)
    seconds = sum(max(values(row, "read_runtime_ms", "write_runtime_ms")) for row in kept) / 1000
    ios, moved = (float(total(kept, what).sum()) for what in ("ios", "bytes"))
    times = response_times(parts)
    names = ("average", "three_nines", "four_nines", "five_nines", "maximum")
    return [ios, ios / seconds, moved / seconds / 1e6, *(times[f"{name}_response_us"] / 1000 for name in names)]


def histogram(run: Path, table: PrintedTable) -> Cells:
    """Return the figures below a histogram: that of the operating point in the page's title, if it has one."""
    point = re.search(r"(Max|Mid|Min) IOPS", table.page)
    measured = measurements(run, "histogram", point[0] if point else "")
    return [[f"{measured[0]['point']}, {_demand(measured[0])}", *histogram_figures(measured, run)]]


def histograms(run: Path, table: PrintedTable) -> Cells:
    """Return the figures of the histograms of all operating points."""
    cells: Cells = []
    for name in ("Max IOPS", "Mid IOPS", "Min IOPS"):
        measured = measurements(run, "histogram", name)
        cells.append([f"{name} {_demand(measured[0])}", *histogram_figures(measured, run)])
        assert ((len(cells) - 1, 0) in table.marks) == (host.limited(run, measured) is True)
    return cells


def _demand(row: Row) -> str:
    return f"T{row['thread_count']}Q{row['queue_depth']}"


# -- which function recomputes which table ----------------------------------------------------------------------------

RECOMPUTED: dict[str, Recompute] = {
    "Deviations from the (standard|profile)": deviations,
    "Steady State Determination Data": determination_data,
    "R/W .*: excursions in percent of the average": excursions,
    "Key figures of the measurement window": tracked_figures,
    "The run": run_facts,
    "Readings": drive_logs.readings,
    "Drive health counters": drive_logs.counters,
    r"Per watt \((power meter|simulated power of the drive|CPU packages)\)": power.per_watt,
    "Response times": histogram,
    "Response time histograms": histograms,
    matrices.NAMES: matrices.matrix,
    percentiles.NAMES: percentiles.matrix,
    "Wait states": recoveries.wait_states,
    "Response times of Access A and C": recoveries.response_times_of_states,
    "Access groups": recoveries.access_groups,
    "Recovery of .*": recoveries.recovery,
    "Stimulus": saturation.stimulus,
    "Key figures": saturation.key_figures,
    "Consistency": saturation.consistency,
    "WSAT - .* - Tabular Data": saturation.data,
    "Operating points, .*": demand.operating_points,
    "Operating points that another run may choose instead": demand.selection,
    "Warnings": warnings.warnings,
    "Procedure": provenance.procedure,
    "Host or drive\\?": provenance.host_or_drive,
    r"Host ceiling \(null device\)": provenance.host_ceilings,
    **profiles.RECOMPUTED,
}

#: Tables without measured figures: texts, the test set-up, and identities.
NOT_MEASURED = (
    "Operator settings",
    "Profile",
    "Access pattern: .*",
    "Run",
    "Source of the imported run",
    "Device under test",
    "Host settings",
    "Steps to repeat",
)


def unknown_tables(run: Path) -> list[tuple[str, str]]:
    """Return page and name of each table with measured figures that no function recomputes."""
    return [
        (table.page, table.name)
        for table in printed_tables(run)
        if _recomputation(table) is None and not any(re.fullmatch(name, table.name) for name in NOT_MEASURED)
    ]


def check_cells(run: Path) -> None:
    """Compare each cell of each table with its recomputed figure; no row may be missing."""
    for table in printed_tables(run):
        recompute = _recomputation(table)
        if recompute is None:
            continue
        expected = recompute(run, table)
        assert [len(row) for row in table.body] == [len(row) for row in expected], table.name
        for printed, recomputed in zip(table.body, expected, strict=True):
            for cell, value in zip(printed, recomputed, strict=True):
                try:
                    check(cell, value)
                except AssertionError as failure:
                    failure.add_note(f"table {table.name!r} on page {table.page!r}, row {printed[0]!r}")
                    raise


def _recomputation(table: PrintedTable) -> Recompute | None:
    """Return the function that recomputes a table; None if there is none."""
    if table.page.endswith("Tracked Variables by Round"):
        return tracked_by_round
    return next((found for name, found in RECOMPUTED.items() if re.fullmatch(name, table.name)), None)
