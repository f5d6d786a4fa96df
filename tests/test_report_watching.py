"""Telemetry during a test: temperature, queue and CPU on the time axis of the IOPS; the drive's log."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from snia_pts.model.health import Health, HealthText, changes
from snia_pts.model.health import HealthValue as Told
from snia_pts.model.measurement import NO_TRANSFERS, Measurement
from snia_pts.model.telemetry import PowerReadings
from snia_pts.model.time_series import TELEMETRY_COLUMNS, TimeLine
from snia_pts.report.figures import render as drawing
from snia_pts.report.formats import xlsx
from snia_pts.report.pages import Figure, Page, Prose
from snia_pts.report.registry import build
from snia_pts.report.tables import Table
from snia_pts.results.attributes import window_points
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from tests import profiles, samples
from tests.strategies import block_statistics, vitals
from tests.test_report_data import Book
from tests.test_report_figures import check

COURSE, HEALTH = "Drive and Host Telemetry vs Time", "Drive Health"


def heating_drive(seconds: float) -> float:
    """Return a drive that heats up to 68 degrees in some minutes."""
    return 68 - 30 * math.exp(-seconds / 600)


def _warm_point(measurement: Measurement) -> Measurement:
    queue = 0.9 * measurement.stimulus.total_oio
    outcome = vitals(
        seconds=60.5,
        cpu_percent=12.0,
        busiest_cpu_percent=61.0,
        block=block_statistics(queue=queue),
        celsius=heating_drive(measurement.timing.ended_monotonic_ns / 1e9 - 1000),
        power=PowerReadings(source="Bench meter", watts=11.5, readings=60),
        host_watts=96.5,
    )
    return replace(measurement, telemetry=outcome)


def _warm_line(line: TimeLine) -> TimeLine:
    began = (line.start_ns or 0) / 1e9 - 1000
    columns: dict[str, list[float]] = {
        "celsius": [heating_drive(began + second) for second in line.ended_seconds],
        "cpu_percent": [9 + 3 * math.sin(place) for place in range(len(line))],
        "busiest_cpu_percent": [55 + 9 * math.sin(place / 7) for place in range(len(line))],
        "queue": [0.9 * line.stimulus.total_oio - abs(math.sin(place / 9)) for place in range(len(line))],
        "busy_percent": [99.0] * len(line),
        "host_watts": [95 + math.sin(place) for place in range(len(line))],
        "watts": [11 + math.sin(place / 5) for place in range(len(line))],
    }
    values: dict[str, Any] = {name: array("d", columns[name]) for name in TELEMETRY_COLUMNS}
    return replace(line, **values)


def watched(result: TestResult) -> TestResult:
    """Return a result with telemetry of drive and host for the whole run."""
    loops = tuple(
        replace(
            loop,
            rounds=tuple(
                replace(turn, measurements=tuple(map(_warm_point, turn.measurements))) for turn in loop.rounds
            ),
        )
        for loop in result.loops
    )
    return replace(result, loops=loops, time_lines=tuple(map(_warm_line, result.time_lines)))


def health(*values: tuple[str, float, str, str, str], **changes: Any) -> Health:
    """Return a reading of a drive's log: name, value, unit, source and role of each figure."""
    figures = tuple(
        Told(name=name, value=value, unit=unit, source=source, role=role)  # type: ignore[arg-type]
        for name, value, unit, source, role in values
    )
    facts: dict[str, Any] = {"read_at": "2026-11-03T01:45:00+00:00", "figures": figures, "unread": (), "evidence": ()}
    return Health(**{**facts, **changes})


def _log(host: float, media: float, errors: int, celsius: float, hot_min: int) -> Health:
    smart, ocp = "NVMe SMART log", "OCP log C0h"
    return health(
        ("Critical Warning", 0, "", smart, "state"),
        ("Composite Temperature", celsius, "°C", smart, ""),
        ("Available Spare", 100, "%", smart, ""),
        ("Percentage Used", 3, "%", smart, ""),
        ("Data Units Written", host, "bytes", smart, "host written"),
        ("Power On Hours", 1234, "h", smart, ""),
        ("Media and Data Integrity Errors", errors, "", smart, "fault"),
        ("Warning Composite Temperature Time", hot_min, "min", smart, "heat"),
        ("Physical Media Units Written", media, "bytes", ocp, "media written"),
        evidence=(f"{errors:05d}-health-smart-log.process.json", f"{errors:05d}-health-ocp.process.json"),
    )


BEFORE, AFTER = _log(10e12, 12e12, 0, 35.0, 0), _log(13.84e12, 22.6e12, 2, 71.5, 41)


def page(result: TestResult, title: str) -> Page | None:
    return next((item for item in build(result).pages if item.title == title), None)


def cells(found: Page | None) -> dict[str, tuple[str, ...]]:
    """Return the rows of a page's tables by their first cell."""
    assert found
    return {row[0]: row[1:] for block in found.blocks if isinstance(block, Table) for row in block.rows}


def words(found: Page | None) -> Sequence[str]:
    """Draw a page's figure; return its texts."""
    assert found
    (figure,) = (block for block in found.blocks if isinstance(block, Figure))
    with drawing.settings():
        return check(figure.draw())


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("test", "changes"),
    [
        ("iops", {"rounds": 7}),
        ("iops", {"stop_after": 2, "ending": "interrupted"}),
        ("throughput", {}),
        ("wsat", {}),
        ("wsat", {"stop_after": 30, "ending": "interrupted"}),
        ("hir", {}),
        ("xsr", {}),
        ("dirth", {"scale": 1000.0}),
    ],
)
def test_telemetry_is_plotted_over_the_time_of_the_run(test: str, changes: dict[str, Any]) -> None:
    """Every test has one page with IOPS, temperature, queue and CPU above one another; no texts overlap."""
    text = words(page(watched(samples.result_of(test, **changes)), COURSE))

    axes = {"Temperature\n(°C)", "I/Os\nin flight", "CPU (%)", "Power\n(W)"}
    assert axes | {"all CPUs", "busiest CPU", "power meter", "CPU packages"} <= set(text)
    assert any(word.startswith("IOPS") for word in text)


def test_the_rates_per_watt_are_shown_for_each_source() -> None:
    """A table for the meter, with its name, and one for the CPU packages: means over the window, divided."""
    result = watched(samples.result_of("iops", rounds=7))
    shown = page(result, "IOPS per Watt")
    assert shown
    prose = [block.text for block in shown.blocks if isinstance(block, Prose)]
    tables = {block.title: block for block in shown.blocks if isinstance(block, Table)}

    assert prose[:2] == ["Source: Bench meter.", "Source: RAPL, the energy counters of the host's CPU packages."]
    for title, watts in (("Per watt (power meter)", 11.5), ("Per watt (CPU packages)", 96.5)):
        lines = {row[0]: [float(re.sub(r"\s", "", cell)) for cell in row[1:]] for row in tables[title].rows}
        window = result.loops[0].window_rounds
        points = [item for turn in window for item in turn.measurements if item.stimulus.label == "RND 4 KiB 0/100"]
        iops = sum(point.iops for point in points) / len(points)
        shown_iops, _, shown_watts, per_watt, _ = lines[f"RND 4 KiB 0/100 {points[0].stimulus.demand.label}"]
        assert shown_iops == pytest.approx(iops, abs=1)
        assert shown_watts == watts
        assert per_watt == pytest.approx(iops / watts, rel=1e-2)


def test_a_workbook_has_power_and_drive_health() -> None:
    """They have the numbers of the pages: watts of each point, and counters with their difference."""
    result = watched(samples.result_of("iops", rounds=7))
    result = replace(result, facts=replace(result.facts, health=AFTER), health_after=BEFORE)
    book = Book(xlsx.make(result))
    power, counters = book.texts("Power"), book.texts("Drive health")
    figures = {stimulus: values for loop in result.loops for stimulus, values in window_points(result, loop)}
    columns = {text: place[:-1] for place, text in power.items() if place.endswith("2") and len(place) == 2}
    for row, values in enumerate(figures.values(), start=3):
        for name in ("watts", "iops_per_watt", "host_watts"):
            assert book.value("Power", f"{columns[name]}{row}") == pytest.approx(values[name])
    for row, change in enumerate(changes(AFTER, BEFORE), start=3):
        assert counters[f"A{row}"] == change.name
        assert book.value("Drive health", f"E{row}") == pytest.approx(change.difference or 0)
    assert book.numbers("Drive health")["E4"][1].startswith("-")
    assert "Power" not in Book(xlsx.make(samples.result_of("iops", rounds=7))).names


def test_a_continuous_stimulus_counts_each_engine_start_by_its_time() -> None:
    """Two hours at 450 000 IOPS and 20 minutes at 240 000 are 420 000 IOPS, and their power is weighted alike."""
    result = watched(samples.result_of("wsat"))
    line = result.time_lines[0]
    assert line.measurements[0].telemetry

    def started(seconds: int, iops: int, watts: float) -> Measurement:
        power = PowerReadings(source="Bench meter", watts=watts, readings=60)
        write = replace(NO_TRANSFERS, ios=seconds * iops, transferred_bytes=4096 * iops * seconds)
        return replace(
            line.measurements[0],
            stimulus=replace(line.stimulus, seconds=seconds),
            write=replace(write, runtime_ms=1000 * seconds),
            telemetry=vitals(power=power),
        )

    starts = [started(7200, 450_000, 11.0), started(1200, 240_000, 7.0)]
    shown = page(replace(result, time_lines=(replace(line, measurements=starts),)), "IOPS per Watt")
    assert shown
    (row,) = next(block for block in shown.blocks if isinstance(block, Table)).rows

    watts = (7200 * 11 + 1200 * 7) / 8400
    figures = [float(re.sub(r"\s", "", cell)) for cell in row[1:]]
    assert figures == [420_000, 1_720, pytest.approx(watts, abs=0.005), float(f"{420_000 / watts:.4g}"), 165.0]


def test_a_point_without_power_in_a_round_has_none() -> None:
    """A mean over a part of the window is not that of the window; without any power there is no page."""
    result = watched(samples.result_of("iops", rounds=7))
    (loop,) = result.loops
    (*others, last) = loop.rounds
    first, *more = last.measurements
    assert first.telemetry
    silent = replace(first, telemetry=replace(first.telemetry, power=None))
    changed = replace(result, loops=(replace(loop, rounds=(*others, replace(last, measurements=(silent, *more)))),))
    figures = dict(window_points(changed, changed.loops[0]))
    watts = {stimulus.label: values["watts"] for stimulus, values in figures.items()}

    assert watts[first.stimulus.label] is None
    assert {value for label, value in watts.items() if label != first.stimulus.label} == {11.5}
    assert page(samples.result_of("iops", rounds=7), "IOPS per Watt") is None


def test_without_telemetry_there_is_no_page() -> None:
    """A simulated drive, or a file, has no temperature and no queue: there are no empty plots."""
    result = samples.result_of("wsat")

    assert page(result, COURSE) is None
    assert page(result, HEALTH) is None


def test_a_plot_without_data_is_omitted() -> None:
    """A drive without a thermometer has plots of queue and CPU, and no empty plot of its temperature."""
    result = watched(samples.result_of("wsat"))
    cold = [replace(line, celsius=array("d", [math.nan] * len(line))) for line in result.time_lines]

    assert not any("°C" in word for word in words(page(replace(result, time_lines=tuple(cold)), COURSE)))


def test_the_title_names_the_host_only_with_values_of_it() -> None:
    """A simulated drive has a temperature, and no host."""
    result = watched(samples.result_of("wsat"))
    alone = tuple(
        replace(line, cpu_percent=array("d", [math.nan] * len(line)), host_watts=array("d", [math.nan] * len(line)))
        for line in result.time_lines
    )

    assert page(result, "Drive Telemetry vs Time") is None
    assert page(replace(result, time_lines=alone), "Drive Telemetry vs Time")


def test_all_curves_share_the_time_axis() -> None:
    """All plots of the page have the same time axis, and each curve has a value where another has one."""
    shown = page(watched(samples.result_of("wsat")), COURSE)
    assert shown
    (figure,) = (block for block in shown.blocks if isinstance(block, Figure))
    with drawing.settings():
        axes = figure.draw().axes

    assert len({plot.get_xlim() for plot in axes}) == 1
    curves = [next(line for line in plot.lines if len(line.get_xdata()) > 2) for plot in axes]  # type: ignore[arg-type]
    assert len({tuple(curve.get_xdata()) for curve in curves}) == 1  # type: ignore[arg-type]


def test_a_sampled_point_is_drawn_once() -> None:
    """Each repeat is a line that does not cross other steps; a point of a profile without samples has one too.

    A single sample is a line from its start to its end.
    """
    profile = profiles.spec(
        *(profiles.workload(name, seconds=10.0, sample_seconds=item) for name, item in (("a", 1.0), ("b", 10.0))),
        profiles.workload("c", seconds=10.0),
        repeats=3,
    )
    shown = page(watched(profiles.result(profile)), COURSE)
    assert shown
    (figure,) = (block for block in shown.blocks if isinstance(block, Figure))
    with drawing.settings():
        iops, *_ = figure.draw().axes
    sampled, single, plain = ((line.get_linestyle(), line.get_xydata().tolist()) for line in iops.lines[:3])  # type: ignore[union-attr]

    assert (plain[0], len(plain[1])) == ("None", 3)
    for (style, drawn), length in ((sampled, 10), (single, 2)):
        pieces = [[*piece] for known, piece in itertools.groupby(drawn, lambda at: not math.isnan(at[1])) if known]
        assert (style, [len(piece) for piece in pieces]) == ("-", [length] * 3)
        assert all(piece[-1][0] - piece[0][0] < 10.1 for piece in pieces)


@pytest.mark.long
def test_times_of_an_interruption_are_omitted() -> None:
    """After a reboot of the host its clock starts at 0; the plot continues at the interruption."""
    result = watched(samples.result_of("iops", rounds=7))
    (loop,) = result.loops

    def later(measurement: Measurement) -> Measurement:
        clocking = measurement.timing
        timings = loop.rounds[3].measurements[0].timing.started_monotonic_ns
        return replace(
            measurement,
            timing=replace(
                clocking,
                interruptions=1,
                started_monotonic_ns=clocking.started_monotonic_ns - timings + 10**9,
                ended_monotonic_ns=clocking.ended_monotonic_ns - timings + 10**9,
            ),
        )

    rounds = [
        replace(turn, measurements=tuple(map(later, turn.measurements))) if turn.number > 3 else turn
        for turn in loop.rounds
    ]
    again = replace(result, loops=(replace(loop, rounds=tuple(rounds)),))
    ends = []
    for item in (result, again):
        shown = page(item, COURSE)
        assert shown
        (figure,) = (block for block in shown.blocks if isinstance(block, Figure))
        with drawing.settings():
            ends.append(figure.draw().axes[0].get_xlim()[1])

    assert ends[1] == pytest.approx(ends[0], abs=0.01)


def test_the_health_page_has_before_after_and_difference() -> None:
    """Each figure of the log has its unit, and the write amplification names the sources of both numbers."""
    result = samples.result_of("wsat")
    result = replace(result, facts=replace(result.facts, health=BEFORE), health_after=AFTER)
    texts = cells(page(result, HEALTH))

    assert texts["Data Units Written"] == ("10 TB", "13.84 TB", "3.840 TB", "NVMe SMART log")
    assert texts["Composite Temperature"][:3] == ("35 °C", "71.5 °C", "36.5 °C")
    assert texts["Media and Data Integrity Errors"][:3] == ("0", "2", "2")
    amplification = "2.760: 10.60 TB on the media (Physical Media Units Written, OCP log C0h) for 3.840 TB by the host"
    assert texts["Write amplification"][0].startswith(amplification)
    assert {warning.what for warning in run_warnings(result)} >= {"faults of the drive", "heat of the drive"}


def test_unchanged_log_texts_are_shown_once() -> None:
    """Firmware that was updated during the run has another label afterwards."""

    def with_texts(reading: Health, label: str) -> Health:
        texts = (("DSSD Firmware Build Label", label), ("DSSD Firmware Revision", "2.5.1"))
        return replace(
            reading, texts=tuple(HealthText(name=name, text=text, source="OCP log C0h") for name, text in texts)
        )

    result = samples.result_of("wsat")
    facts = replace(result.facts, health=with_texts(BEFORE, "a"))
    outcome = cells(page(replace(result, facts=facts, health_after=with_texts(AFTER, "b")), HEALTH))

    assert outcome["DSSD Firmware Build Label"] == ("a, then b",)
    assert outcome["DSSD Firmware Revision"] == ("2.5.1",)


@pytest.mark.parametrize(
    ("ending", "why"), [("unfinished", "not read: the run did not end"), ("interrupted", "not read")]
)
def test_a_missing_reading_is_reported(ending: Any, why: str) -> None:
    """A killed run has no reading at its end; the reason of a missing reading is shown once."""
    silent = health(unread=("nvme ocp smart-add-log: it gave no JSON", "x"))
    result = samples.result_of("wsat", stop_after=30, ending=ending)
    texts = cells(page(replace(result, facts=replace(result.facts, health=silent)), HEALTH))

    assert texts["After the test"] == (why,)
    assert texts["Not read"] == ("nvme ocp smart-add-log: it gave no JSON; x",)
    assert re.match("n/a: the drive does not report both", texts["Write amplification"][0])
