"""Several tests in one folder: the request is stored, and the outcomes are summarised, whatever stopped the suite."""

import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader

from snia_pts.analysis.operating_points import demand_means, operating_points
from snia_pts.cli.main import main
from snia_pts.errors import RecordError, ReportError, RunFolderError
from snia_pts.model.annotations import SignOff
from snia_pts.model.run_options import RunOptions
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.suite import SuiteFolder
from snia_pts.report import registry as building
from snia_pts.report.formats import rst
from snia_pts.report.pages import Figure, Prose
from snia_pts.report.sections.summary import conditions, window_spans
from snia_pts.report.suite import build, overview, write
from snia_pts.report.suite_key_figures import explained_terms, key_figures
from snia_pts.report.tables import Link, Table
from snia_pts.results.key_figures import key_figures as numbers
from snia_pts.results.result import TestResult
from snia_pts.results.tracked_series import convergence, shown_series
from snia_pts.results.warnings import run_warnings
from snia_pts.runner.options import derive_seed
from snia_pts.spec import SPEC_TYPES, DemandSpec, Deviation
from snia_pts.spec.limits import Limit
from snia_pts.units import duration, number
from tests import samples
from tests.drives import special
from tests.samples import SEED, cut_journal, store_run
from tests.test_run_folders import unpacked

TESTS = tuple(SPEC_TYPES)


def results(**endings: TestResult | None) -> list[tuple[str, TestResult | None]]:
    """Return results of all tests; those named have the given arguments."""
    return [(test, endings[test] if test in endings else samples.result_of(test)) for test in TESTS]


# -- the folder ------------------------------------------------------------------------------------------------------


def test_a_suite_folder_is_recognised(tmp_path: Path) -> None:
    """The requested tests are read back; a test without a journal was not run."""
    made = SuiteFolder.create(tmp_path / "all", ("iops", "wsat"))
    (made.run_path("wsat")).mkdir()
    (made.run_path("wsat") / "journal.jsonl").write_text("begun\n")

    found = SuiteFolder.existing(tmp_path / "all")

    assert found is not None
    assert found.tests == ("iops", "wsat")
    assert found.run_folder("iops") is None
    assert found.run_folder("wsat") is not None


@pytest.mark.long_but_first
@pytest.mark.parametrize("damage", ["truncated", "empty", "removed"])
def test_a_test_whose_journal_lost_its_first_line_is_damaged(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not mistaken for a test that never started: nothing is removed, and every command reports it."""
    suite = SuiteFolder.create(tmp_path / "all", ("iops", "throughput"), [RunOptions(test="iops", target="x")] * 2)
    store_run(suite.run_path("throughput"), "throughput")
    folder = store_run(suite.run_path("iops"))
    (folder.evidence / "00000-fio-version.process.json").write_text("{}")
    if damage == "removed":
        folder.journal.unlink()
    else:
        os.truncate(folder.journal, 500 if damage == "truncated" else 0)
    before = {path: path.read_bytes() for path in suite.path.rglob("*") if path.is_file()}

    for command in ("assess", "report", "status", "resume"):
        assert main([command, str(suite.path)]) == RecordError.exit_code
        assert "no journal.jsonl with a complete first line" in "".join(capsys.readouterr())
    assert {path: path.read_bytes() for path in suite.path.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """No run overwrites another, and the message names what is in the way."""
    (tmp_path / "precious").write_text("precious")

    for place in (tmp_path, tmp_path / "precious", tmp_path / "precious" / "all"):
        with pytest.raises(RunFolderError):
            SuiteFolder.create(place, ("iops",))
    assert (tmp_path / "precious").read_text() == "precious"


def test_other_folders_are_no_suite_folder(tmp_path: Path) -> None:
    """A folder without suite.json, a file, and a missing path are refused."""
    (tmp_path / "file").touch()

    for place in (tmp_path, tmp_path / "file", tmp_path / "none"):
        assert SuiteFolder.existing(place) is None


def test_a_suite_folder_without_a_started_test_is_discarded(tmp_path: Path) -> None:
    """A new folder is removed again, an existing one stays; one with a run is unchanged."""
    made, there = SuiteFolder.create(tmp_path / "made", ("iops",)), tmp_path / "there"
    there.mkdir()
    found = SuiteFolder.create(there, ("iops",))
    started = SuiteFolder.create(tmp_path / "begun", ("iops",))
    started.run_path("iops").mkdir()
    (started.run_path("iops") / "journal.jsonl").write_text("begun\n")

    for folder in (made, found, started):
        folder.discard()

    assert not made.path.exists()
    assert list(there.iterdir()) == []
    assert SuiteFolder.existing(started.path) is not None


NO_SUITES = (b'{"format":1,"tests":["fly"]}', b'{"format":2,"tests":["iops"]}', b'{"format":1,"tests":[[]]}')


@given(junk=st.binary(max_size=60) | st.sampled_from(NO_SUITES))
def test_an_invalid_list_of_tests_is_refused(junk: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A suite.json without the requested tests is refused."""
    folder = tmp_path_factory.mktemp("junk")
    (folder / "suite.json").write_bytes(junk)

    with pytest.raises(RecordError, match=r"suite\.json"):
        SuiteFolder.existing(folder)


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "sparse"])
def test_a_special_file_is_no_suite(target: str, tmp_path: Path) -> None:
    """A file that cannot be read to its end in limited time and memory is refused at once."""
    special(tmp_path / "suite.json", target)

    with pytest.raises(RecordError, match=r"suite\.json: it is (not a regular file|larger than 1 MiB)"):
        SuiteFolder.existing(tmp_path)


@given(st.integers(0, 2**63 - 1))
def test_each_test_has_its_own_seed(seed: int) -> None:
    """The seeds of tests differ, depend only on the seed of the suite, and are valid seeds themselves."""
    seeds = [derive_seed(seed, test) for test in TESTS]

    assert len(set(seeds)) == len(TESTS)
    assert seeds == [derive_seed(seed, test) for test in TESTS]
    assert all(0 <= item < 2**63 for item in seeds)


# -- the summary -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_test_has_key_figures() -> None:
    """Each test's line in the summary has the figure for which the test is run, in its unit."""
    wanted = {
        "iops": ("RND 4 KiB 0/100", "RND 4 KiB 100/0", "IOPS"),
        "throughput": ("SEQ 1024 KiB 0/100", "SEQ 1024 KiB 100/0", "MB/s"),
        "latency": ("RND 4 KiB 0/100", "ms"),
        "wsat": ("IOPS", "not steady", "histogram after it"),
        "hir": ("Wait State 10, 50 s idle: A ", "return to baseline", "steady state"),
        "xsr": ("AG 3: back at 90 % of it after", "MB/s"),
        "composite": ("RND composite 40/60, Max IOPS point T", " (target "),
        "dirth": ("RND 8 KiB 65/35, Min IOPS point T1Q1", " (target "),
    }
    for test, texts in wanted.items():
        output = "; ".join(key_figures(samples.result_of(test)))
        assert all(text in output for text in texts), output


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_a_stopped_test_has_its_figures_so_far(test: str, count: int) -> None:
    """With any number of outcomes a test has a line, which says that it is incomplete."""
    result = samples.result_of(test, ending="device failed", stop_after=count)

    (line,) = overview([(test, result)]).lines

    assert line.verdict == "INCOMPLETE (device failed)"
    assert not line.achieved


@pytest.mark.long
def test_the_verdict_is_one_sentence() -> None:
    """It has how many tests finished, what stopped, what was not steady, and what was not run."""
    result_overview = overview(
        results(
            latency=samples.result_of("latency", steady=False),
            wsat=samples.result_of("wsat", ending="device failed", stop_after=30),
            hir=None,
            xsr=None,
            composite=None,
            dirth=None,
        )
    )

    assert result_overview.verdict == (
        "3 of 8 tests finished; Write Saturation device failed; steady state NOT ACHIEVED: Latency; NOT RUN: Host Idle "
        "Recovery, Cross Stimulus Recovery, Composite Block Size Workload, Demand Intensity"
    )
    assert not result_overview.finished
    everything = overview(results())
    assert everything.verdict == "8 of 8 tests finished; steady state NOT ACHIEVED: Write Saturation"
    assert build(everything).pages[0].blocks[0] == Prose(text=everything.verdict, kind="neutral")


def test_the_header_has_results_and_conformance() -> None:
    """A test that was not run is neither conformant nor not."""
    found = [Deviation(what="purge", standard="a", actual="b", clause="c")]
    deviating, conformant = samples.iops_result(found=found), samples.result_of("latency")
    for results, text in (
        ([("iops", deviating), ("latency", conformant), ("hir", None)], "NOT PTS conformant: 1 of 3 tests"),
        ([("latency", conformant), ("hir", None)], "PTS conformant: 1 of 2 tests"),
    ):
        report = build(overview(results))
        assert report.header.heads.rows[0][-1] == "Results"
        assert text in [row[5] for row in report.header.blocks.rows]
        assert Prose(text=text, kind="bad") in report.pages[0].blocks


def test_a_saturation_that_ended_by_time_is_achieved() -> None:
    """Write saturation need not be steady, and cross stimulus recovery has no rule: both are achieved."""
    result_overview = overview([(test, samples.result_of(test)) for test in ("wsat", "xsr")])

    assert all(line.achieved for line in result_overview.lines)
    assert not result_overview.lines[0].verdict.startswith("STEADY")


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("test", "steady"), [("latency", True), ("latency", False), ("hir", False), ("wsat", True), ("xsr", True)]
)
def test_the_header_has_the_steady_state_of_each_report(test: str, steady: bool) -> None:
    """NOT ACHIEVED in a report is NOT ACHIEVED here, also for a write saturation, which need not be steady."""
    result = samples.result_of(test, steady=steady)
    own = building.build(result).header.blocks.rows
    stated = any("NOT ACHIEVED" in cell for row in own for cell in row)
    rows = build(overview([(test, result)])).header.blocks.rows
    (state,) = (row[-1] for row in rows if row[-2] == test.upper())

    assert state == ("NOT ACHIEVED" if stated else "complete" if test == "xsr" else "steady state")


def test_a_saturation_without_steady_state_has_the_figure_of_its_end() -> None:
    """No figure in the summary is the mean of a window that includes the fresh drive."""
    result = samples.result_of("wsat", overrides=[("saturation.seconds", 121 * 60), ("histogram.seconds", 60)])
    line, after = result.time_line("stimulus"), result.time_line("histogram")
    assert line is not None
    assert after is not None

    end = sum(line.write_ios[-31:]) / (31 * 60)
    assert list(key_figures(result)) == [
        f"RND 4 KiB 0/100, end of the stimulus: {number(end)} IOPS, last 31 min 00 s, not steady",
        f"RND 4 KiB 0/100, histogram after it: {number(after.iops[0])} IOPS",
    ]


@pytest.mark.long
@pytest.mark.parametrize("maximum_art_ms", [5.0, 1e-6])
def test_the_operating_points_have_the_rule_of_their_choice(maximum_art_ms: float) -> None:
    """The Max IOPS point is not the highest IOPS; without a point below the limit of the ART, there is no best one."""
    result = samples.result_of("dirth", overrides=[("operating_points.maximum_art_ms", maximum_art_ms)])
    loop, spec = result.loop(), result.facts.spec
    assert loop is not None
    assert isinstance(spec, DemandSpec)
    first, *_ = operating_points(demand_means(loop.window_rounds), spec.operating_points)
    figures = tuple(key_figures(result))
    rule = next(explained_terms(result, ("Max IOPS point",)))

    exceeding = " (no point has an ART below 1e-06 ms)" if maximum_art_ms < 1 else ""
    best = "" if exceeding or first.iops == first.target_iops else f" (best {number(first.target_iops)})"
    assert figures[0].startswith(
        f"RND 8 KiB 65/35, Max IOPS point{exceeding} {first.demand.label}: {number(first.iops)} IOPS{best}, ART "
    )
    assert f"within 2 % of the best; best: the highest IOPS with an ART below {maximum_art_ms:g} ms." in rule


def test_the_summary_explains_the_terms_of_its_key_figures() -> None:
    """Each explanation appears once, and names the groups of the test and the share that is of this suite."""
    text = rst.render(build(overview([(test, samples.result_of(test)) for test in ("wsat", "xsr")])))

    assert text.count("the last 25 % of the stimulus, at most 1 h 00 min") == 1
    assert "AG 3 repeats the stimulus of AG 1 after AG 2; the threshold of 90 % is of this suite" in text


def test_an_unsteady_baseline_is_marked_at_its_figure() -> None:
    """The preconditioning's last window is marked where it is shown."""
    result_overview = next(iter(key_figures(samples.result_of("hir", steady=False))))

    assert result_overview.endswith("IOPS, last window, NOT ACHIEVED")


def test_limits_are_in_the_summary() -> None:
    """Each has its test, bound, measured value and result; so has a limit on a test that was not run."""
    wanted = Limit(test="iops", metric="iops", at="RND 4 KiB 0/100", unit="IOPS", minimum=1.0)
    result = samples.result_of("iops")
    limits = (wanted, replace(wanted, minimum=1e7), replace(wanted, test="hir"))
    given = replace(result, facts=replace(result.facts, limits=limits))
    (page,) = build(overview([("iops", given), ("hir", None)])).pages
    table = next(block for block in page.blocks if isinstance(block, Table) and block.title == "Limits")

    assert "Limits: 2 of 3 NOT MET" in [block.text for block in page.blocks if isinstance(block, Prose)]
    assert [row[0] for row in table.rows] == ["iops", "iops", "hir"]
    below = f"NOT MET: below {number(1e7)} IOPS"
    assert [row[-1] for row in table.rows] == ["met", below, "NOT MET: hir was not run"]
    (page,) = build(overview([("iops", result)])).pages
    assert "Limits" not in [block.title for block in page.blocks if isinstance(block, Table)]


def test_an_unsteady_test_prevents_success() -> None:
    """Without deviations, a test that was never steady leaves nothing green on the summary."""
    (page,) = build(overview([("latency", samples.result_of("latency", steady=False))])).pages
    result_overview = [block for block in page.blocks if isinstance(block, Prose)]

    assert "No deviation in any test, but steady state was not achieved in all" in [
        block.text for block in result_overview
    ]
    assert [block.text for block in result_overview if block.kind == "good"] == []


def test_a_stopped_test_without_deviations_says_why_it_is_not_conformant() -> None:
    """The summary gives the actual reason, not a number of deviations, of which there are none."""
    result = samples.result_of("latency", ending="interrupted", stop_after=3)

    assert [line.conformance for line in overview([("latency", result)]).lines] == ["NO, the run did not finish"]


def test_a_missing_report_is_not_listed() -> None:
    """The summary lists exactly the reports in the folder."""
    result_overview = overview(
        [("latency", samples.result_of("latency")), ("xsr", samples.result_of("xsr"))], {"xsr": ["report.html"]}
    )

    assert [line.report for line in result_overview.lines] == ["\N{EN DASH}", "xsr/report.html"]


def test_the_summary_has_lower_bounds_and_a_sum() -> None:
    """A stopped test's written bytes are a lower bound, a finished one's are exact; the durations have a sum."""
    stopped = samples.result_of("latency", ending="interrupted", stop_after=30)
    result_overview = overview([("throughput", samples.result_of("throughput")), ("latency", stopped)])
    tests, *_, together = (block for block in build(result_overview).pages[0].blocks if isinstance(block, Table))

    facts = {row[0]: row[1] for row in together.rows}
    assert [row[4].startswith("at least ") for row in tests.rows] == [False, True]
    assert facts["Data written, all tests"].startswith("at least ")
    seconds = [line.seconds for line in result_overview.lines if line.seconds is not None]
    assert facts["Duration"] == duration(sum(seconds))


def test_the_header_has_the_id_of_the_suite() -> None:
    """The id of a test in a suite begins with it; a run of one test keeps its own."""
    for run_id, shown in (("e202/latency", "e202"), ("e202", "e202")):
        result = samples.result_of("latency")
        rows = build(overview([("latency", replace(result, facts=replace(result.facts, run_id=run_id)))])).header.blocks
        assert next(row[1] for row in rows.rows if row[0] == "Test S/N") == shown


def test_the_durations_of_simulated_tests_are_virtual() -> None:
    """A simulated day takes a minute: both the tests and their sum say so."""
    result = samples.result_of("latency", device=samples.dut(kind="simulated"))
    blocks = [block for block in build(overview([("latency", result)])).pages[0].blocks if isinstance(block, Table)]
    assert "Duration (virtual)" in [column.heading for column in blocks[0].columns]
    assert {row[0]: row[1] for row in blocks[-1].rows}["Duration"].endswith(" (virtual)")


def test_a_test_without_steady_state_is_complete() -> None:
    """The header does not say steady state for a test without one."""
    text = rst.render(build(overview([(test, samples.result_of(test)) for test in ("latency", "xsr")])))

    for test, state in (("LATENCY", "steady state"), ("XSR", "complete")):
        assert any(test in line and state in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("pts", "title"), [("2.0.2", "Composite Block Size Workload"), ("1.1", "Enterprise Composite Workload")]
)
def test_a_test_that_was_not_run_has_its_title(pts: str, title: str) -> None:
    """A test without a result is named as its version of the standard names it."""
    result_overview = overview([("latency", samples.result_of("latency", pts=pts)), ("composite", None)])

    assert [line.title for line in result_overview.lines] == ["Latency", title]
    assert result_overview.verdict.endswith(f"NOT RUN: {title}")


@pytest.mark.long
def test_the_summary_links_to_the_reports(tmp_path: Path) -> None:
    """Each test has relative links to its reports as HTML, PDF and XLSX; the PDF opens a PDF itself."""
    result_overview = overview(
        [("latency", samples.result_of("latency")), ("wsat", samples.result_of("wsat")), ("hir", None)],
        {"latency": ["report.xlsx", "report.html", "report.pdf"], "wsat": ["report.pdf"]},
    )
    paths = write(result_overview, tmp_path)

    assert re.findall(r'href="([^"]*)"', paths["html"].read_text()) == [
        "latency/report.html",
        "latency/report.pdf",
        "latency/report.xlsx",
        "wsat/report.pdf",
    ]
    actions = [note.get_object()["/A"] for page in PdfReader(paths["pdf"]).pages for note in page.get("/Annots", ())]
    assert [(action["/S"], action.get("/F", action.get("/URI"))) for action in actions] == [
        ("/URI", "latency/report.html"),
        ("/GoToR", "latency/report.pdf"),
        ("/URI", "latency/report.xlsx"),
        ("/GoToR", "wsat/report.pdf"),
    ]


@pytest.mark.parametrize(
    "place", ["", "report", "/etc/x.pdf", "../x.pdf", "http://x.pdf", "a b.pdf", "a`_.pdf", "a.pdf\n"]
)
def test_a_link_is_a_relative_path(place: str) -> None:
    """Only a plain relative path becomes a link."""
    with pytest.raises(ValueError, match="not a simple relative path"):
        Link(place)


def test_the_summary_has_the_conditions_convergence_and_signatures_of_all_tests() -> None:
    """It has each test's temperature and host verdict, a figure of its tracked variables, and the sign-off block."""
    result = samples.result_of("latency")
    about = replace(result.facts.about, sign_off=SignOff(approved_by="B. Approver", auditor="C. Auditor"))
    signed = replace(result, facts=replace(result.facts, about=about))
    blocks = build(overview([("latency", signed), ("hir", None)])).pages[0].blocks
    tables = {block.title: block for block in blocks if isinstance(block, Table)}
    assert [column.heading for column in tables["Conditions, warnings and reports"].columns] == [
        "Test",
        "Drive temperature during measurements",
        "Host or drive?",
        "Warnings",
    ]
    assert [row[1:] for row in tables["Conditions, warnings and reports"].rows] == [
        (*(text for _, text in conditions(result)), "none"),
        ("\N{EN DASH}", "\N{EN DASH}", "\N{EN DASH}"),
    ]
    assert [row[1] for row in tables["Sign-off"].rows] == [about.operator, "B. Approver", "C. Auditor"]
    assert blocks[-1] == Prose(
        text="Signed: the report. 1 of 2 tests finished; NOT RUN: Host Idle Recovery. PTS conformant: 1 of 2 tests."
    )
    (figure,) = (block for block in blocks if isinstance(block, Figure))
    assert figure.caption.endswith(
        "Dashed: 110 %, dotted: 90 %, for orientation. Shaded: the measurement window. Each plot has its own scale, "
        "which need not start at zero."
    )
    (axes,) = figure.draw().axes
    assert axes.get_title() == f"{result.facts.spec.title}\nRND 4 KiB 0/100"
    tracked = convergence(shown_series(result))
    assert tracked is not None
    (percents,) = tracked.series.values()
    assert np.array_equal(axes.lines[0].get_ydata(), list(percents.values()))


def test_the_summary_names_each_deviation_with_its_tests() -> None:
    """A deviation of all tests is not repeated for each; without deviations there is no sentence."""
    found = [Deviation(what=what, standard="a", actual="b", clause="c") for what in ("write cache", "purge")]
    shared, alone = samples.iops_result(found=found[:1]), samples.iops_result(found=found)
    for results, expected in (
        ([shared, alone], "write cache (all tests); purge (Latency)."),
        ([alone], "write cache (IOPS); purge (IOPS)."),
        ([samples.iops_result()], ""),
    ):
        lines = [
            replace(line, title=title)
            for line, title in zip(
                overview([("iops", one) for one in results]).lines, ("IOPS", "Latency"), strict=False
            )
        ]
        blocks = build(replace(overview([("iops", results[0])]), lines=tuple(lines))).pages[0].blocks
        texts = [block.text for block in blocks if isinstance(block, Prose) and block.text.startswith("Deviations")]
        assert [expected in text for text in texts] == ([True] if expected else [])


def test_the_summary_names_the_warnings_of_each_test() -> None:
    """A reader of the summary alone learns which reports have warnings."""
    result = samples.result_of("wsat", overrides=[("saturation.capacities", 0.5)])
    expected = ", ".join(dict.fromkeys(warning.title for warning in run_warnings(result)))
    (line,) = overview([("wsat", result)]).lines
    assert "end of the stimulus" in expected
    assert line.conditions["Warnings"] == expected


def test_windows_and_long_times_are_in_the_summary() -> None:
    """A test with several windows has them beside its verdict; times above 100 hours remain hours and minutes."""
    result = samples.result_of("throughput")
    long = replace(result, facts=replace(result.facts, started="2026-11-01T00:00:00+00:00"))
    long = replace(long, finished="2026-11-05T15:50:00+00:00")
    (page,) = build(overview([("throughput", long)])).pages
    (row,) = next(block.rows for block in page.blocks if isinstance(block, Table) and block.title == "Tests")
    assert row[1] == f"{result.verdict} ({window_spans(result)})"
    assert "128 KiB: rounds " in row[1]
    assert row[3] == "111 h 50 min"


def test_the_figure_of_an_unsteady_test_says_that_its_last_window_is_shaded() -> None:
    """The caption names the test, with the part of it, that was not steady in its last window."""
    (figure,) = build(overview([("hir", samples.result_of("hir", steady=False))])).figures
    last = "or the last window where it is not steady (Host Idle Recovery Preconditioning)."
    assert f"Shaded: the measurement window, {last}" in figure.caption
    assert figure.caption.endswith("Log scale: Host Idle Recovery Preconditioning.")


def test_the_summary_has_an_id_of_all_journals() -> None:
    """It starts the digest of a list of the digests of the tests' journals, in the order of the summary."""
    ran = {test: replace(samples.result_of(test), journal_sha256=test) for test in ("wsat", "latency")}
    shown = overview([("wsat", ran["wsat"]), ("hir", None), ("latency", ran["latency"])]).header.identity[-1]
    listed = b"wsat  wsat/journal.jsonl\nlatency  latency/journal.jsonl\n"
    assert shown == hashlib.sha256(listed).hexdigest()[:16]


def test_without_a_test_there_is_no_summary() -> None:
    """The message says so."""
    with pytest.raises(ReportError, match="no test was run"):
        overview([("iops", None)])


@pytest.mark.long
def test_the_summary_is_a_report(tmp_path: Path) -> None:
    """The summary exists in every format, from valid RST, links each report, and is reproducible."""
    result_overview = overview(
        results(hir=None, wsat=samples.result_of("wsat", ending="interrupted", stop_after=30)),
        dict.fromkeys(TESTS, ("report.pdf",)),
    )

    paths = write(result_overview, tmp_path)
    first = {name: path.read_bytes() for name, path in paths.items()}
    write(result_overview, tmp_path)

    assert {name: path.name for name, path in paths.items()} == {
        "rst": "summary.rst",
        "pdf": "summary.pdf",
        "html": "summary.html",
    }
    assert {name: path.read_bytes() for name, path in paths.items()} == first
    text = first["rst"].decode()
    rst.parse(text)
    for test in TESTS:
        assert (f"{test}/report.pdf" in text) == (test != "hir")
    assert "NOT RUN" in text
    assert "INCOMPLETE" in text
    assert first["pdf"].startswith(b"%PDF-")
    assert len(build(result_overview).pages) == 1


# -- stored runs of all ----------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> SuiteFolder:
    """Return a stored run of three tests, the second of which was stopped."""
    tests = ("throughput", "latency", "wsat")
    options = [RunOptions(test=test, target="sim:enterprise-sata", seed=SEED) for test in tests]
    folder = SuiteFolder.create(tmp_path / "all", tests, options)
    store_run(folder.run_path("throughput"), "throughput")
    cut_journal(store_run(folder.run_path("latency"), "latency"), 30)
    return folder


@pytest.mark.long
def test_assess_evaluates_all_tests(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """assess prints each test that was run, and the outcome of the suite."""
    assert main(["assess", str(stored.path)]) == 0
    out = capsys.readouterr().out
    assert main(["assess", str(stored.path), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)

    for text in (
        "Throughput test",
        "Latency test",
        "1 of 3 tests finished; Latency unfinished; NOT RUN: Write Saturation",
    ):
        assert text in out
    assert [test["test"] for test in output["tests"]] == ["throughput", "latency"]
    assert [item["ending"] for item in output["summary"]] == ["finished", "unfinished", "NOT RUN"]


@pytest.mark.long
def test_report_makes_all_reports_and_the_summary(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """report makes and names each run's report, and the summary."""
    assert main(["report", str(stored.path)]) == 0

    named = capsys.readouterr().out.split()
    assert len(named) == 2 * 4 + 3
    assert all(Path(name).is_file() for name in named)
    assert "Latency unfinished" in (stored.path / "summary.rst").read_text()

    about = stored.path.parent / "about.toml"
    about.write_text("format = 1\nvendor = 'Example Storage'")
    assert main(["report", str(stored.path), "--to", "rst", "--about", str(about)]) == 0
    for place in (stored.path / "summary.rst", stored.run_path("throughput") / "report.rst"):
        assert "Example Storage" in place.read_text()
    message = capsys.readouterr().err
    assert f"report.pdf, report.html, report.xlsx in {stored.run_path('throughput')};" in message
    assert f"summary.pdf, summary.html in {stored.path};" in message
    assert "throughput/report.rst" in (stored.path / "summary.rst").read_text(), "the summary names an older report"


def test_forged_evidence_in_one_run_is_reported(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code of the suite is that of an untrusted record if one run has it."""
    next((stored.run_path("throughput") / "evidence").glob("*.json")).write_text("forged")

    assert main(["assess", str(stored.path)]) == 14
    assert "Stored files differ" in capsys.readouterr().out


def test_a_symlinked_folder_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A test's folder that is a symlink to another run is reported, and nothing is written there."""
    elsewhere = store_run(stored.path.parent / "elsewhere", "wsat")
    stored.run_path("wsat").symlink_to(elsewhere.path)

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "it is a symlink" in capsys.readouterr().err
    assert not (elsewhere.path / "report.pdf").exists()


def test_the_run_of_another_test_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder whose journal is that of another test is refused."""
    stored.run_path("latency").rename(stored.run_path("wsat"))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "its journal is of the test latency" in capsys.readouterr().err


def test_a_test_that_was_removed_from_the_list_is_refused(
    stored: SuiteFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """A summary omits no existing run."""
    listed = stored.path / "suite.json"
    document = json.loads(listed.read_text())
    document["tests"].remove("latency")
    listed.write_text(json.dumps(document))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "does not list the test latency, but its run is in the folder" in capsys.readouterr().err


def test_the_run_of_another_drive_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary is that of one drive."""
    unpacked("wsat", stored.path)
    seed = JournalReader(RunFolder(path=stored.run_path("wsat")).journal).facts.seed
    document = json.loads((stored.path / "suite.json").read_text())
    document["options"][2]["seed"] = seed
    (stored.path / "suite.json").write_text(json.dumps(document))

    for words in (("assess",), ("report", "--to", "none")):
        assert main([*words, str(stored.path)]) == 14
        assert "that of the test before is EXAMPLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seeds", "expected"), [([1, 1, 1], "seed 1"), ([None, None, None], "no seed"), ([], "no seed")]
)
def test_a_run_with_another_seed_is_refused(
    seeds: list[int | None], expected: str, stored: SuiteFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """suite.json has the seed of each of its runs; a run with another seed does not belong to the suite."""
    document = json.loads((stored.path / "suite.json").read_text())
    document["options"] = [{**options, "seed": seed} for options, seed in zip(document["options"], seeds, strict=False)]
    (stored.path / "suite.json").write_text(json.dumps(document))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert f"its journal is of another run: expected {expected}, got seed {SEED}" in capsys.readouterr().err


def test_an_empty_suite_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A suite folder in which no test started is refused by assess and report."""
    SuiteFolder.create(tmp_path / "all", ("iops",))

    for verb in ("assess", "report"):
        assert main([verb, str(tmp_path / "all")]) == 14
        assert "none of its tests was run" in capsys.readouterr().err


def test_a_point_has_one_response_time() -> None:
    """The summary of all tests, the limits and the comparison print the same ART: that of all I/Os of the window."""
    result = samples.result_of("latency")
    printed = {line for line in key_figures(result) if "ART" in line}
    known = {
        f"{item.at}: ART {number(item.value)} ms" for item in numbers(result) if item.metric == "average_response_ms"
    }

    assert printed
    assert printed <= known
