"""Comparison of runs: differences of context and of figures, and their pages and texts."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from scipy import stats

from snia_pts import load
from snia_pts.cli.commands.compare import _table
from snia_pts.cli.main import main
from snia_pts.errors import NotComparable, RecordError, UsageError
from snia_pts.model.test_platform import HostSetting, TestPlatform
from snia_pts.profiles.spec import Axis, ProfileSpec
from snia_pts.report.comparison import _missing, _tables, build_comparison
from snia_pts.report.comparison_summary import Entry, cause, overall_lines, run_names
from snia_pts.report.figures.figure import legend_text
from snia_pts.report.figures.render import settings
from snia_pts.report.figures.style import COLOURS
from snia_pts.report.formats import rst
from snia_pts.report.pages import Figure, Prose
from snia_pts.report.sections.summary import statements
from snia_pts.report.tables import Table
from snia_pts.report.writing import render
from snia_pts.results.comparison import (
    ComparedFigure,
    Difference,
    compare_figures,
    context_differences,
    difference,
    possible_causes,
    welch,
)
from snia_pts.results.key_figures import KeyFigure, key_figures
from snia_pts.results.result import TestResult
from snia_pts.results.warnings import run_warnings
from snia_pts.spec import SPEC_TYPES, Deviation
from snia_pts.text import printable
from snia_pts.units import capacity, signed
from tests import profiles, samples

values = st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True)


def figure(rounds: Sequence[float]) -> KeyFigure:
    return KeyFigure(
        metric="iops", at="x", unit="IOPS", value=sum(rounds) / len(rounds), better="more", rounds=tuple(rounds)
    )


def entries(*results: TestResult) -> list[Entry]:
    return [Entry(label="ABC"[place], path=f"runs/{place}", result=result) for place, result in enumerate(results)]


def changed(result: TestResult, **facts: Any) -> TestResult:
    return dataclasses.replace(result, facts=dataclasses.replace(result.facts, **facts))


# -- numbers ----------------------------------------------------------------------------------------------------------


@given(one=values, other=values)
def test_the_interval_is_welchs(one: list[int], other: list[int]) -> None:
    """Half the interval is that of SciPy's own t test with unequal variances; without any variance it is nothing."""
    assert welch([7, 7], [7, 7]) == 0
    interval = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.95)
    assert welch(one, other) == pytest.approx((interval.high - interval.low) / 2, rel=1e-6)


def test_a_difference_is_certain_where_the_rounds_say_so() -> None:
    """Two percent is more than chance where the rounds lie close, and is not where they scatter."""
    close, scattered = [100, 100.1, 99.9, 100, 100], [100, 110, 90, 105, 95]
    for rounds, certain in ((close, True), (scattered, False)):
        change = difference(figure(rounds), figure([1.02 * measured_round for measured_round in rounds]))
        assert change is not None
        assert change.percent == pytest.approx(2)
        assert change.significant is certain
    assert difference(figure([0, 0]), figure([1, 1])) is None


def test_two_rounds_have_no_interval() -> None:
    """Student's t of one degree of freedom is 12.7: the interval of two repeats would be -693 % to +571 %."""
    for first, other in (([100, 180], [90, 40]), ([100, 101, 99], [100, 101]), ([100], [101])):
        change = difference(figure(first), figure(other))
        assert change is not None
        assert (change.low, change.high, change.significant) == (None, None, None)
        count = min(len(first), len(other))
        assert change.interval_text("repeat") == f"{count} repeat{'s' * (count > 1)}: no interval"


def test_confidence_intervals_cover_the_true_difference() -> None:
    """For windows whose rounds differ in I/Os and response time, 95 % of the intervals contain the true ratio."""
    random = numpy.random.default_rng(20261123)
    trials, covered = 2000, 0
    for _ in range(trials):
        figures = []
        for true_ms in (1.0, 1.1):
            ios = random.uniform(500, 1500, size=5)
            rounds = true_ms * (1 + 0.05 * random.standard_normal(5))
            value = float((ios * rounds).sum() / ios.sum())
            figures.append(dataclasses.replace(figure(rounds.tolist()), value=value, weights=tuple(ios)))
        change = difference(*figures)
        assert change is not None
        assert change.low is not None
        assert change.high is not None
        covered += change.low <= 10 <= change.high
    assert 0.93 <= covered / trials <= 0.97


def test_the_first_run_adds_to_the_uncertainty() -> None:
    """Where only the first run's rounds scatter, the percentage is uncertain in their relative width."""
    calm, scattered = figure([200, 200, 200, 200, 200]), figure([100, 110, 90, 105, 95])
    change = difference(scattered, calm)
    assert change is not None
    assert change.low is not None
    assert change.percent - change.low == pytest.approx(200 * welch([1.0, 1.1, 0.9, 1.05, 0.95], [1.0] * 5))


@pytest.mark.parametrize("test", SPEC_TYPES)
def test_every_test_has_key_figures_by_names_of_their_own(test: str) -> None:
    """Each number of a result has a name that no other has; the same run compared with itself differs in nothing."""
    result = samples.result_of(test)
    names = [item.name for item in key_figures(result)]
    rows = compare_figures([result, result, result])

    assert len(names) == len(set(names)) > 10
    assert sorted(f"{row.metric} at {row.at}" for row in rows) == sorted(names)
    for row in rows:
        for found in row.differences[1:]:
            assert found is None or (found.percent == 0 and not found.significant)
        assert row.spread_percent in (0, None)
    assert [item.what for item in context_differences([result, result])] == (
        ["steady state"] if result.steady is False else []
    )


def test_key_figures_are_those_of_the_report() -> None:
    """A tracked variable's key figure is the average that steady state was determined with."""
    result = samples.iops_result()
    (loop,) = result.loops
    assert loop.window is not None
    by_name = {(item.metric, item.at): item for item in key_figures(result)}
    for tracked, state in loop.window.determinations:
        point = loop.window_rounds[0].point(tracked)
        assert by_name[tracked.metric, point.stimulus.label].value == pytest.approx(state.average)
        assert by_name[tracked.metric, point.stimulus.label].rounds == state.values


# -- what is not the same ---------------------------------------------------------------------------------------------


def test_context_differences_have_their_weight() -> None:
    """Another class is an error; another window, end or deviation is flagged; another drive or host is listed."""
    first = samples.iops_result()
    dut, platform = samples.dut(firmware="NEW", capacity_bytes=10**12), samples.platform(kernel="6.12")
    second = samples.result_of("iops", steady=False, device=dut, host=platform, found=samples.deviations(1))
    third = samples.result_of("iops", test_class="client", overrides=[("setup.queue_depth", 16)])
    by_name = {item.what: (item.weight, item.values) for item in context_differences([first, second])}
    others = {item.what: item.weight for item in context_differences([first, third])}

    assert by_name["firmware"] == ("context", ("JXTC304Q", "NEW"))
    assert by_name["capacity"] == (
        "context",
        ("960.2 GB (960\u202f197\u202f124\u202f096 bytes)", "1 TB (1\u202f000\u202f000\u202f000\u202f000 bytes)"),
    )
    assert by_name["kernel"] == ("context", ("6.1.0-28-amd64", "6.12"))
    assert by_name["steady state"] == ("flagged", ("achieved", "NOT ACHIEVED"))
    assert any(what.startswith("deviation: ") for what in by_name)
    assert {weight for weight, _ in by_name.values()} == {"flagged", "context"}
    assert others["class"] == "other"
    assert others["setup.queue_depth"] == "flagged"


def test_all_deviations_of_one_kind_are_compared() -> None:
    """A run that was interrupted twice differs from one that was interrupted once, at the same time as its second."""
    first, second = (
        Deviation(what="interruption", actual=f"at {hour} h", standard="no interruption", clause="5.1")
        for hour in (3, 7)
    )
    twice, once = (samples.result_of("iops", found=found) for found in ((second, first), (second,)))
    by_name = {item.what: item.values for item in context_differences([twice, once])}

    assert by_name["deviation: interruption"] == ("at 3 h; at 7 h", "at 7 h")
    assert "deviation: interruption" not in {item.what for item in context_differences([twice, twice])}


def test_a_finding_that_exists_only_if_it_is_bad_is_none_elsewhere() -> None:
    """The finding on buffered direct I/O is missing in a run without it, and unknown in a run without findings."""
    bad = {"scheduler": "none", "direct I/O": "buffered by loop0", "file system": "ext4"}
    hosts = [host_with(**bad), host_with(scheduler="none"), samples.platform(settings=())]
    by_name = {
        item.what: item.values for item in context_differences([samples.result_of("iops", host=host) for host in hosts])
    }

    assert by_name["direct I/O"] == ("buffered by loop0", "none", "not recorded")
    assert by_name["file system"] == ("ext4", "not recorded", "not recorded")


def test_a_run_that_is_not_steady_is_flagged_even_beside_its_like() -> None:
    """That both did not reach steady state is no reason to say nothing of it."""
    result = samples.result_of("iops", steady=False)
    assert [item.what for item in context_differences([result, result])] == ["steady state"]


# -- pages ------------------------------------------------------------------------------------------------------------


def test_all_overlays_of_a_matrix_are_on_one_scale() -> None:
    """A reader may lay the figures of two R/W mixes on each other."""
    report = build_comparison(entries(samples.iops_result(), samples.result_of("iops", scale=2.0)))
    drawn = [item for item in report.figures if item.name.startswith("matrix-")]
    with settings():
        limits = {item.draw().axes[0].get_ylim() for item in drawn}
    assert len(drawn) == 7
    assert len(limits) == 1


def test_all_times_of_a_comparison_have_one_unit() -> None:
    """Stimuli of 4 and of 20 minutes are in minutes, those of 4 and 5 in seconds."""
    group = {"access": "SEQ", "read_percent": 0, "block_size_kib": 128, "thread_count": 1, "queue_depth": 32}
    for minutes, unit in ((20, "minutes"), (5, "seconds")):
        groups = [{**group, "name": f"AG {seconds}", "seconds": seconds} for seconds in (240, 60 * minutes)]
        overrides = [("groups.sequence", groups)]
        report = build_comparison(
            entries(*(samples.result_of("xsr", scale=scale, overrides=overrides) for scale in (1.0, 2.0)))
        )
        with settings():
            drawn = [item.draw().axes[0].get_xlabel() for item in report.figures if item.name.startswith("time-")]
        assert drawn == [f"Time since the start of the stimulus ({unit})"] * 2


@pytest.mark.long
@pytest.mark.parametrize("test", ["throughput", "wsat"])
def test_a_comparison_is_a_report(test: str) -> None:
    """Its pages are made and checked as those of every report, in all their formats."""
    results = [samples.result_of(test), samples.result_of(test, scale=1.5, operator="=1+1 `x`__ <b>")]
    report = build_comparison(entries(*results))
    files = render(report, stem="comparison")

    assert {name for name in files if name.startswith("comparison")} == {
        f"comparison.{item}" for item in ("rst", "pdf", "html")
    }
    assert any(isinstance(block, Figure) for page in report.pages for block in page.blocks)


def test_texts_of_devices_stay_texts_in_a_comparison() -> None:
    """A model or folder that is markup is text on the page."""
    hostile = samples.dut(model="`x`__ |y| <script>", firmware=".. raw:: html")
    report = build_comparison(
        [
            Entry(label="A", path="runs/`a`_", result=samples.iops_result()),
            Entry(label="B", path="*b*", result=samples.result_of("iops", device=hostile)),
        ]
    )
    text = rst.parse(rst.render(report)).astext()
    for item in ("runs/`a`_", "*b*", "|y| <script>", ".. raw:: html"):
        assert item in text


# -- the verb ---------------------------------------------------------------------------------------------------------


def test_asterisks_are_next_to_the_numbers() -> None:
    """Where there is none there is no room for one, and what is compared stands below each other all the same."""
    sure, chance = ((100, 101, 102), (147, 148, 149)), ((100, 120, 140), (101, 121, 141))
    rows = [
        ComparedFigure(metric="iops", at=at, unit="IOPS", better="more", figures=tuple(map(figure, both)))
        for at, both in (("x", sure), ("y", chance))
    ]
    pair = entries(samples.iops_result(), samples.iops_result())
    head, *lines = [line for line in _table(pair, rows) if line]
    assert [line.split("  ")[-1].strip() for line in lines] == ["148.0 (+46.5)*", "121.0 (+0.8)"]
    assert {line.index(")") for line in lines} == {len(head) - 1}
    (shown,) = _tables(pair, rows)
    assert [row[3] for row in shown.rows] == ["* +46.5", "+0.8"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three stored runs: two of one test, one of another."""
    folder = tmp_path_factory.mktemp("runs")
    made_runs = []
    for name, test, scale in (("one", "latency", 1.0), ("two", "latency", 1.2), ("other", "throughput", 1.0)):
        made_runs.append(samples.store_run(folder / name, test, scale=scale).path)
    return made_runs


@pytest.mark.long
def test_compare_tells_and_writes(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has every point with its difference; the pages are at the printed paths; JSON has all numbers."""
    first, second, _ = map(str, runs)
    assert main(["compare", first, second, "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    printed = [line.strip() for line in output.splitlines()]
    for result in (load(path).result for path in (first, second)):
        stated = [statement.text for statement in statements(result)]
        assert len(stated) >= 2
        assert any(printed[line : line + len(stated)] == stated for line in range(len(printed)))
    assert f"A  {first}" in output
    assert [line.split()[0] for line in printed if line.endswith(" B") and "A" in line] == [
        "IOPS",
        "Throughput",
        "Average",
    ]
    assert "(+20.0" in output
    assert "\ufffd" not in output
    assert str(tmp_path / "out" / "comparison.pdf") in output
    assert (tmp_path / "out" / "comparison.pdf").read_bytes().startswith(b"%PDF-")

    before = (tmp_path / "out/comparison.html").read_bytes()
    assert main(["compare", second, first, "--out", str(tmp_path / "out")]) == 15
    output = capsys.readouterr().err
    assert "out: comparison." in output
    assert "already exists (and " in output
    assert "Name another folder with --out, remove what is in the way, or make room on the disk." in output
    assert (tmp_path / "out/comparison.html").read_bytes() == before

    assert main(["compare", first, second, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rates = [item for item in document["figures"] if item["metric"] == "iops" and item["rounds"][0]]
    assert rates
    assert all(item["differences"][1]["percent"] == pytest.approx(20, abs=0.1) for item in rates)


def test_the_terminal_gets_thin_spaces_but_no_control_characters() -> None:
    """The thin space is printed although Python calls it unprintable; control characters become U+FFFD."""
    assert printable("3\u202f841\x1b[2J\u2028") == "3\u202f841\ufffd[2J\ufffd"


def test_what_cannot_be_compared_is_refused(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another test, a folder without a run and a single run are errors with an exit code, and write nothing."""
    first, _, other = map(str, runs)
    assert main(["compare", first, other, "--out", str(tmp_path / "out")]) == NotComparable.exit_code
    assert "test: Latency, Throughput" in capsys.readouterr().err
    assert main(["compare", first]) == UsageError.exit_code
    assert "2 to 26 runs, not 1" in capsys.readouterr().err
    assert main(["compare", first, str(tmp_path)]) == RecordError.exit_code
    assert not (tmp_path / "out").exists()


def test_runs_that_tracked_other_variables_have_their_pages() -> None:
    """A run without the first one's tracked variable is omitted from that figure, and flagged."""
    tracked = [{"metric": "iops", "block_size_kib": 4, "read_percent": 0}]
    changes = [
        ("rounds.read_percents", [100, 0]),
        ("rounds.block_sizes_kib", [8, 4]),
        ("steady_state.tracked", tracked),
    ]
    other = samples.result_of("iops", overrides=changes)
    report = build_comparison(entries(samples.iops_result(), other))
    with settings():
        lines = {item.name: len(item.draw().axes[0].get_lines()) for item in report.figures if "rounds-" in item.name}
    assert lines["rounds-rnd-4-kib-0-100"] == 2
    assert lines["rounds-rnd-64-kib-65-35"] == 1
    assert "steady_state.tracked" in [item.what for item in context_differences([samples.iops_result(), other])]


def test_access_groups_whose_names_differ_in_an_umlaut_have_their_figures() -> None:
    """Names of figures are names of files, in which little of a group's name is left."""
    result = samples.result_of("xsr")
    names = iter(("AG ä", "AG ö", "ag-1", "AG 1", "AG 2", "AG 3"))
    renamed = replace(result, time_lines=tuple(replace(line, part=next(names)) for line in result.time_lines[:4]))
    report = build_comparison(entries(renamed, renamed))
    assert len({item.name for item in report.figures if item.name.startswith("time-")}) == 3


# -- profiles ---------------------------------------------------------------------------------------------------------


def profiled(*axes: Axis, slow: float = 1.0, host: Any = None, **changes: Any) -> TestResult:
    """Return a run of a profile of random reads at some queue depths; ``slow`` is its speed."""
    depths = Axis(key="queue_depth", values=(1, 8))
    profile = profiles.spec(profiles.workload(), axes=axes or (depths,), **{"repeats": 3, **changes})
    return profiles.result(profile, lambda point, number: 1000 * slow * point.workload.queue_depth + number, host=host)


def host_with(**settings: str) -> TestPlatform:
    """Return a host of these settings."""
    stored = (HostSetting(name=name, value=value, judgement="noted", reason="x") for name, value in settings.items())
    return samples.platform(settings=tuple(stored))


def test_the_only_recorded_difference_is_named() -> None:
    """If only the governor differs, the comparison names it as the cause, with its confidence."""
    slow, fast = host_with(governor="ondemand", swap="none"), host_with(governor="performance", swap="1 GB in use")
    both = entries(profiled(host=slow), profiled(slow=2.0, host=fast))
    results = [entry.result for entry in both]
    (line,) = overall_lines("AB", compare_figures(results), "repeat")

    assert cause(both, context_differences(results)) == (
        "The only difference in the compared properties: governor (A: ondemand; B: performance)."
    )
    assert "median IOPS difference +99.9 % over 2 points" in line
    assert "2 of 2 significant at 95 %" in line
    mounted = [host_with(governor="x", **{"file system": kind}) for kind in ("ext4", "xfs")]
    outcome = entries(*(profiled(host=host) for host in mounted))
    assert "file system (A: ext4; B: xfs)" in cause(outcome, context_differences([entry.result for entry in outcome]))


def test_a_cause_is_named_only_if_one_setting_differs() -> None:
    """If the kernel differs too, neither is named as the cause; with equal hosts nothing compared is."""
    one = profiled(host=host_with(governor="ondemand"))
    other = profiled(host=dataclasses.replace(host_with(governor="performance"), kernel="6.12"))
    assert cause(entries(one, other), context_differences([one, other])).endswith(
        "2 properties differ, listed above: these runs cannot show which of them affected the results."
    )
    again = changed(one, seed=2, command_line=("snia-pts", "iops"))
    assert cause(entries(one, again), context_differences([one, again])).endswith(
        "None differs: a difference may be noise, or come from factors not compared."
    )


def test_comparing_a_run_with_itself_is_reported() -> None:
    """A folder given twice, or its copy, differs by nothing; with a third run the others are compared."""
    one, other = profiled(), profiled(host=host_with(governor="ondemand"))
    assert cause(entries(one, profiled()), []) == "A and B are the same run. There is no difference."
    mixed = cause(entries(one, other, profiled()), context_differences([one, other, one]))
    assert mixed.startswith("A and C are the same run. Compared: drive, host, ")
    assert " 3 properties differ, listed above: " in mixed


def test_an_axis_is_a_cause_if_each_run_has_one_value_of_it() -> None:
    """A host setting is reported as such; fewer points are flagged without changing points; other sizes change them."""
    governors = [Axis(key="host.governor", values=(value,)) for value in ("performance", "powersave")]
    staged = [profiled(axis) for axis in governors]
    shorter = [profiled(), profiled(Axis(key="queue_depth", values=(8, 1, 64)))]
    sizes = [profiled(Axis(key="block_size", values=(size,))) for size in ("4 KiB", "8 KiB")]

    assert [(item.what, item.values) for item in context_differences(staged)] == [
        ("governor", ("performance", "powersave"))
    ]
    assert [item.what for item in context_differences(shorter)] == ["axis queue_depth"]
    assert possible_causes(context_differences(shorter)) == ()
    assert [item.what for item in possible_causes(context_differences(sizes))] == ["axis block_size"]


def test_profiles_without_a_point_in_common_are_not_compared() -> None:
    """Other names are other questions; so is another profile's title."""
    named = profiles.result(profiles.spec(profiles.workload("another")))
    other = profiles.result(profiles.spec(profiles.workload(), title="Other"))
    first = profiles.result(profiles.spec(profiles.workload()))
    assert ("points", "other") in {(item.what, item.weight) for item in context_differences([first, named])}
    assert ("test", "other") in {(item.what, item.weight) for item in context_differences([first, other])}


def test_surfaces_of_all_runs_have_one_scale() -> None:
    """A run of a tenth of the speed is plotted on the other's scale, and its matrix is in percent."""
    sides = Axis(key="range", values=("1 MiB", "4 MiB")), Axis(key="block_size", values=("4 KiB", "8 KiB"))
    report = build_comparison(entries(profiled(*sides, repeats=1), profiled(*sides, slow=0.1, repeats=1)))
    drawn = [figure for figure in report.figures if "matrix" in figure.name]
    with settings():
        first, second = ([text.get_text() for axes in item.draw().axes for text in axes.texts] for item in drawn)
    tables = [
        block
        for page in report.pages
        for block in page.blocks
        if isinstance(block, Table) and block.title.endswith("percent")
    ]

    assert first == second
    assert "1\u202f250" in first
    assert tables[0].rows[0][1:] == ("-89.9", "-89.9")


@pytest.mark.long
@pytest.mark.parametrize(
    "profile",
    [
        profiles.shipped("page-cache", repeats=1),
        profiles.spec(profiles.workload(zones=4)),
        profiles.shipped("sequential-and-random"),
    ],
    ids=["bars", "zones", "lines"],
)
def test_every_kind_of_figure_shows_all_runs(profile: ProfileSpec) -> None:
    """Bars, curves over zones and lines have all runs in them, and can be drawn."""
    report = build_comparison(entries(profiles.result(profile), profiles.result(profile)))
    with settings():
        legends = [figure.draw() for figure in report.figures][:2]
    assert legends
    assert len(report.pages) < 20


# -- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_equal_runs_are_all_visible_in_the_order_of_their_letters() -> None:
    """Lines that coincide have gaps, but the lowest, and hollow markers; the legend has the letters in order."""
    runs = entries(*[samples.iops_result()] * 3)
    report = build_comparison(runs)
    drawn = [item for item in report.figures if item.name.startswith(("rounds-", "matrix-"))]
    assert drawn
    with settings():
        for item in drawn:
            (axes,) = item.draw().axes
            legend = axes.get_legend()
            assert legend is not None
            assert [text.get_text() for text in legend.get_texts()][:3] == ["A: 0", "B: 1", "C: 2"]
            assert [line.get_linestyle() for line in axes.get_lines()] == ["-", "--", "--"]
            assert {line.get_markerfacecolor() for line in axes.get_lines()} == {"none"}
            assert [line.get_color() for line in axes.get_lines()] == list(COLOURS[:3])


def test_runs_are_named_by_the_properties_that_differ() -> None:
    """The name of a run is what tells its drive from the others; runs of one drive have the names of their folders."""
    first, other = samples.iops_result(), samples.result_of("iops", device=samples.dut(firmware="NEW"))
    assert list(run_names(entries(first, other)).values()) == ["A: JXTC304Q", "B: NEW"]
    names = ["A: JXTC304Q, 0", "B: NEW, 1", "C: JXTC304Q, 2"]
    assert list(run_names(entries(first, other, first)).values()) == names


def test_rows_are_in_the_order_of_the_axes_with_four_digits() -> None:
    """As in the matrices of a report: 0/100 first, small blocks first; differences follow from the printed values."""
    runs = entries(samples.iops_result(), samples.result_of("iops", scale=1.013))
    rows = [row for row in compare_figures([entry.result for entry in runs]) if row.metric == "iops"]
    (table,) = _tables(runs, rows)
    assert [column.heading for column in table.columns] == ["IOPS", "A", "B", "B against A (%)", "Interval (%)"]
    points = [row[0] for row in table.rows]
    assert points[:2] == ["RND 0.5 KiB 0/100", "RND 4 KiB 0/100"]
    assert points[-1] == "RND 1024 KiB 100/0"
    for row in table.rows:
        first, other, percent = (float(cell.replace("\u202f", "").removeprefix("* ")) for cell in row[1:4])
        assert 100 * (other / first - 1) == pytest.approx(percent, abs=0.15)


def test_a_comparison_has_the_dates_of_each_run() -> None:
    """The header has no time that spans runs; the table of runs has the times of each."""
    first = samples.iops_result()
    second = replace(changed(first, started="2026-12-01T08:00:00+00:00"), finished="2026-12-01T09:30:00+00:00")
    report = build_comparison(entries(first, second))
    assert report.header.dates.rows[0][1:4:2] == ("see Runs", "see Runs")
    (table,) = (block for block in report.pages[0].blocks if isinstance(block, Table) and block.title == "Runs")
    assert table.rows[1][3:5] == ("2026-12-01 08:00:00 UTC", "2026-12-01 09:30:00 UTC")


def test_a_comparison_identifies_its_runs() -> None:
    """Folder, report id, seed and command line of each run; simulated times are marked; model and serial are apart."""
    first = changed(samples.iops_result(), seed=7, command_line=("snia-pts", "iops", "a b"))
    first = replace(first, journal_sha256=64 * "a")
    second = changed(samples.result_of("iops", scale=2.0, device=samples.dut(kind="simulated")), seed=None)
    tables = [block for block in build_comparison(entries(first, second)).pages[0].blocks if isinstance(block, Table)]
    runs, origins = (table for table in tables if table.title in ("Runs", "Provenance of the runs"))
    assert [row[1:] for row in origins.rows] == [
        ("runs/0", 16 * "a", "7", "snia-pts iops 'a b'"),
        ("runs/1", "\N{EN DASH}", "\N{EN DASH}", shlex.join(second.facts.command_line)),
    ]
    dut = first.facts.dut
    assert runs.rows[0][1:3] == (dut.model, dut.serial)
    assert [[text.endswith(" UTC (virtual)") for text in row[3:5]] for row in runs.rows] == [[False] * 2, [True] * 2]


def test_a_comparison_names_the_warnings_of_each_run() -> None:
    """Each warning has its detail, as in the report on the run; a run without any has ``none``."""
    one, other = samples.iops_result(), samples.result_of("wsat", overrides=[("saturation.capacities", 0.5)])
    for result in (one, other):
        blocks = build_comparison(entries(result, result)).pages[0].blocks
        (table,) = (block for block in blocks if isinstance(block, Table) and block.title == "Warnings")
        warned = [(warning.title, warning.detail) for warning in run_warnings(result)] or [("none", "")]
        assert table.rows == tuple((label, *row) for label in "AB" for row in warned)
    assert "end of the stimulus" in {what for _, what, _ in table.rows}


def test_the_header_of_a_comparison_has_the_values_of_all_runs() -> None:
    """Those that do not fit refer to the table that has them."""
    large = samples.dut(serial="a-serial-number-of-many-letters", capacity_bytes=1_920_383_410_176)
    report = build_comparison(entries(samples.iops_result(), samples.result_of("iops", device=large)))
    fields = {name: value for row in report.header.blocks.rows for name, value in zip(row[::2], row[1::2], strict=True)}
    first = samples.iops_result().facts.dut
    assert fields["Capacity"] == f"A: {capacity(first.capacity_bytes)}; B: 1.920 TB"
    assert fields["AR & Amount"] == f"A: 100 %, {capacity(first.capacity_bytes)}; B: 100 %, 1.920 TB"
    assert fields["S/N"] == "see Runs"
    assert fields["Firmware ver"] == first.firmware


def test_windows_that_differ_are_bars_and_equal_ones_are_shaded() -> None:
    """Each bar has the rounds of its run's window, and so does the caption."""
    one, other = samples.iops_result(rounds=7), samples.result_of("iops", rounds=9, scale=2.0)
    for result, ends in ((one, []), (other, [(4.7, 9.3), (2.7, 7.3)])):
        report = build_comparison(entries(one, result))
        drawn = next(item for item in report.figures if item.name.startswith("rounds-"))
        with settings():
            axes = drawn.draw().axes[0]
        bars = [found for found in axes.collections if isinstance(found, LineCollection)]
        assert [tuple(bar.get_segments()[0][:, 0]) for bar in bars] == ends
        colours = [to_rgb(line.get_color()) for line in axes.get_lines()]
        assert [tuple(numpy.asarray(bar.get_colors())[0, :3]) for bar in bars] == colours[::-1][: len(ends)]
        assert len(axes.patches) == (not ends), "the shaded window"
        assert ("(A: rounds 3 - 7; B: rounds 5 - 9)" in drawn.caption) == bool(ends)


def test_seven_figures_are_four_and_three_on_two_pages() -> None:
    """None of them is alone on a page; six are on two pages, too."""
    report = build_comparison(entries(samples.iops_result(), samples.result_of("iops", scale=2.0)))
    heights = {item.name.split("-")[0]: item.height for item in report.figures}
    assert (heights["matrix"], heights["rounds"]) == (2.25, 2.75)


def test_the_scale_of_a_heat_map_has_its_shades() -> None:
    """The legend has the colour of the greatest difference, of half of it, and of none."""
    report = build_comparison(entries(samples.iops_result(), samples.result_of("iops", scale=2.0)))
    heat_map = next(item for item in report.figures if item.name.startswith("difference-"))
    with settings():
        axes = heat_map.draw().axes[0]
    legend = axes.get_legend()
    assert legend
    greatest = max((text.get_text() for text in axes.texts), key=float)
    full, half, none = (text.get_text().removeprefix("better by ") for text in legend.get_texts())
    assert [float(full), float(half)] == pytest.approx([float(greatest), float(greatest) / 2], abs=0.6)
    assert none == "0"
    colours = [patch.get_facecolor() for patch in legend.get_patches()]
    assert len(set(colours)) == 3
    cells = {text.get_text(): patch for text, patch in zip(axes.texts, axes.patches, strict=True)}
    assert cells[greatest].get_facecolor() == colours[0]


def test_the_caption_of_a_heat_map_explains_only_its_colours() -> None:
    """Two steady runs have no cell without an interval; a run that is not steady has no other."""
    first, faster, unsteady = (
        samples.result_of("iops"),
        samples.result_of("iops", scale=2.0),
        samples.result_of("iops", steady=False),
    )
    for other, colours in ((faster, ["Coloured"]), (unsteady, ["No colour"])):
        report = build_comparison(entries(first, other))
        (heat_map,) = (item for item in report.figures if item.name.startswith("difference-"))
        assert heat_map.caption.startswith("IOPS: (B - A) / A, in percent. A: ")
        assert re.findall("(Coloured|Grey|No colour): ", heat_map.caption) == colours


def test_runs_that_are_not_conformant_are_named_in_red() -> None:
    """As in the report on one run; without one there is no such line."""
    deviation = Deviation(what="extra", standard="a", actual="b", clause="c")
    clean, changed_run = samples.iops_result(), samples.iops_result(found=[deviation])
    for other, expected in ((changed_run, ["NOT PTS conformant: A: no deviation; B: 1 deviation"]), (clean, [])):
        blocks = build_comparison(entries(clean, other)).pages[0].blocks
        red = [block.text for block in blocks if isinstance(block, Prose) and block.kind == "bad"]
        assert [text for text in red if "conformant" in text] == expected


@pytest.mark.parametrize(
    ("percent", "text"), [(5247.66, "+5\u202f248"), (-91.849, "-91.8"), (0.04, "+0.0"), (-0.04, "+0.0")]
)
def test_differences_have_at_most_four_digits(percent: float, text: str) -> None:
    """One decimal, and none from 1000 % on."""
    assert signed(percent) == text


def test_only_words_that_are_longer_than_a_line_of_a_legend_end_at_a_hyphen() -> None:
    """A serial number stays in one piece if it can."""
    assert legend_text("B: SSD, SIM-SATA-0000001") == "B: SSD,\nSIM-SATA-0000001"
    assert legend_text("SIM-ENTERPRISE-SATA-0001") == "SIM-ENTERPRISE-\nSATA-0001"


def test_each_table_of_differences_says_how_to_read_it() -> None:
    """What is better, and the meaning of asterisks and intervals if it has any."""
    report = build_comparison(entries(samples.iops_result(), samples.result_of("iops", scale=2.0)))
    notes = {
        page.title: page.blocks[-1].text
        for page in report.pages
        if page.title.endswith(" by Run")
        if isinstance(page.blocks[-1], Prose)
    }
    assert notes["IOPS by Run"] == (
        "B against A (%): (B - A) / A. Higher is better. Interval: the 95 % confidence interval of the difference. An "
        "asterisk marks those that exclude 0."
    )
    assert notes["Maximum response time (ms) by Run"] == "B against A (%): (B - A) / A. Lower is better."


def test_a_comparison_names_the_deviations_of_all_runs() -> None:
    """Those that only some runs have are among the issues instead."""
    cache, extra = (Deviation(what=what, standard="a", actual="b", clause="c") for what in ("write cache", "extra"))
    one = samples.iops_result(found=[cache])
    other = samples.iops_result(found=[replace(cache, actual="unknown"), extra])
    for runs, expected in (
        ((one, one), ("write cache", "b")),
        ((one, other), ("write cache", "A: b; B: unknown")),
    ):
        blocks = build_comparison(entries(*runs)).pages[0].blocks
        tables = {block.title: block.rows for block in blocks if isinstance(block, Table)}
        assert tables["Deviations of all runs from the standard"] == (expected,)
    issues = [row[0] for row in tables["Issues that may affect the comparison"]]
    assert "deviation: extra" in issues


def test_a_missing_percentile_has_a_legend() -> None:
    """It says how many I/Os the percentile needs; a table without n/a has none."""
    known = KeyFigure(metric="response_99.999_percent_ms", at="x", unit="ms", value=1.0, better="less")
    row = ComparedFigure(metric=known.metric, at="x", unit="ms", better="less", figures=(known, known))
    assert not list(_missing([row]))
    (note,) = _missing([row, replace(row, figures=(known, None))])
    assert note.text == "n/a: fewer than 100\u202f000 I/Os, or the run does not have the point."


def test_percentiles_have_no_column_for_intervals() -> None:
    """They are single values of a window; the explanation says so once.  Their differences have separators."""
    runs = entries(samples.iops_result(), samples.result_of("iops", scale=100.0))
    rows = compare_figures([entry.result for entry in runs])
    iops, maxima = (
        next(_tables(runs, [row for row in rows if row.metric == metric])) for metric in ("iops", "maximum_response_ms")
    )
    assert [column.heading for column in iops.columns][2:] == ["B", "B against A (%)", "Interval (%)"]
    assert [column.heading for column in maxima.columns][2:] == ["B", "B against A (%)"]
    assert all(row[3].startswith("* +9\u202f") for row in iops.rows)
    explanation = " ".join(block.text for block in build_comparison(runs).pages[0].blocks if isinstance(block, Prose))
    assert (
        "at least 3 rounds of each run, in a steady measurement window. Percentiles, maximum response times and"
        in explanation
    )


def test_response_times_have_four_digits() -> None:
    """A value of 10 s beside one of 60 us has no thousandths of a millisecond."""
    values_ms = KeyFigure(metric="maximum_response_ms", at="x", unit="ms", value=10_536.092, better="less")
    row = ComparedFigure(
        metric=values_ms.metric,
        at="x",
        unit="ms",
        better="less",
        figures=(values_ms, replace(values_ms, value=0.0612)),
    )
    (table,) = _tables(entries(samples.iops_result(), samples.iops_result()), [row])
    assert table.rows[0][1:3] == ("10\u202f536", "0.06120")


def test_an_interval_with_close_ends_has_more_digits() -> None:
    """``-91.8 to -91.8`` hides that there is a range."""
    assert (
        Difference(percent=-91.8, low=-91.82, high=-91.78, round_count=5).interval_text("round") == "-91.82 to -91.78"
    )


def test_the_short_header_of_a_comparison_has_no_field_that_differs() -> None:
    """A bare ``differs`` identifies nothing."""
    one, other = samples.iops_result(), samples.result_of("iops", scale=2.0, device=samples.dut(model="Other"))
    other = replace(other, journal_sha256=64 * "a")
    title, model, serial, report = build_comparison(entries(one, other)).header.identity
    assert title == "PTS-E 2.0.2 - IOPS Test - Comparison of 2 Runs"
    assert (model, serial, report) == ("", one.facts.dut.serial, "")


@pytest.mark.long
def test_every_printed_page_names_the_runs() -> None:
    """Each page of the PDF on which a table continues, and each printed page of the HTML, says which drive is A."""
    axes = (Axis(key="queue_depth", values=tuple(range(1, 61))),)
    profile = profiles.spec(profiles.workload(" ".join(["a name of two lines"] * 3)), axes=axes)
    runs = [profiles.result(profile, device=samples.dut(model=model)) for model in ("First", "Second")]
    report = build_comparison(entries(*runs))
    files = render(report, ("pdf", "html"), stem="comparison")
    pages = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(files["comparison.pdf"])).pages]
    continued = [text for text in pages if "by Run (continued)" in text]
    assert continued
    assert all("A: First; B: Second" in text for text in continued)
    (content,) = re.findall(r'@page \{ @bottom-left \{ content: "(.*?)"; \} \}', files["comparison.html"].decode())
    shown = re.sub(r"\\([0-9a-f]+) ", lambda code: chr(int(code[1], 16)), content)
    assert shown.splitlines()[1:] == ["A: First; B: Second"]


def test_only_figures_of_response_times_are_better_if_lower() -> None:
    """The caption of the bars says so only if it shows any."""
    captions = []
    for test in ("iops", "latency"):
        report = build_comparison(entries(samples.result_of(test), samples.result_of(test, scale=2.0)))
        captions += [figure.caption for figure in report.figures if figure.name == "key-figures"]
    assert ["Lower is better" in caption for caption in captions] == [False, True]


@pytest.mark.long
def test_every_form_says_that_two_repeats_have_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Terminal, JSON and report have the same phrase; no form has a number."""
    for name in "AB":
        options = ("--repeats", "2", "--seconds", "1", "--axis", "queue_depth=1,4")
        run = ("--run-dir", str(tmp_path / name), "--to", "none", "--progress", "none")
        assert main(["profile", "run", "queue-depth", "sim:hdd", *options, *run]) == 0
    runs = [str(tmp_path / name) for name in "AB"]
    capsys.readouterr()
    assert main(["compare", *runs, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("2 repeats: no interval)") == 2, "over all points, and below the tables"
    assert main(["compare", *runs, "--json"]) == 0
    changes = [change for row in json.loads(capsys.readouterr().out)["figures"] for change in row["differences"][1:]]
    of_repeats = [change for change in changes if change and change["interval"] != "no interval"]
    assert {(change["low"], change["interval"]) for change in of_repeats} == {(None, "2 repeats: no interval")}
    assert '"2 repeats: no interval"' in (tmp_path / "out" / "comparison.rst").read_text()
