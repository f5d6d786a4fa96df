"""Several tests in one folder: what was asked for is kept, what became of it summed up, whatever stopped it."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader

from snia_pts.cli.main import main
from snia_pts.errors import RecordError, ReportError, RunFolderError
from snia_pts.model.run_options import RunOptions
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.suite import SuiteFolder
from snia_pts.report import registry as building
from snia_pts.report.formats import rst
from snia_pts.report.pages import Prose
from snia_pts.report.suite import build, key_figures, overview, write
from snia_pts.report.tables import Link, Table
from snia_pts.results.key_figures import key_figures as numbers
from snia_pts.results.result import TestResult
from snia_pts.runner.suite import derive_seed
from snia_pts.spec import SPEC_TYPES
from snia_pts.spec.limits import Limit
from snia_pts.units import duration, number
from tests import killing, samples
from tests.drives import special
from tests.samples import SEED, cut_journal, store_run

TESTS = tuple(SPEC_TYPES)


def results(**endings: TestResult | None) -> list[tuple[str, TestResult | None]]:
    """Return results of all tests, those named as told."""
    return [(test, endings[test] if test in endings else samples.result_of(test)) for test in TESTS]


# -- the folder ------------------------------------------------------------------------------------------------------


def test_a_folder_of_all_is_known_again(tmp_path: Path) -> None:
    """What was asked for is read back; a test without a journal was not run."""
    made = SuiteFolder.create(tmp_path / "all", ("iops", "wsat"))
    (made.run_path("wsat")).mkdir()
    (made.run_path("wsat") / "journal.jsonl").write_text("begun\n")

    found = SuiteFolder.existing(tmp_path / "all")

    assert found is not None
    assert found.tests == ("iops", "wsat")
    assert found.run_folder("iops") is None
    assert found.run_folder("wsat") is not None


@pytest.mark.parametrize("damage", ["truncated", "empty", "removed"])
def test_a_test_whose_journal_lost_its_first_line_is_damaged(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not pass for a test that was not started: nothing is removed, and every command reports it."""
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
    """No run overwrites another, and what stands in the way gives a sentence."""
    (tmp_path / "precious").write_text("precious")

    for place in (tmp_path, tmp_path / "precious", tmp_path / "precious" / "all"):
        with pytest.raises(RunFolderError):
            SuiteFolder.create(place, ("iops",))
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_run_folder_is_no_folder_of_all(tmp_path: Path) -> None:
    """A folder without suite.json, a file, and nothing at all are something else."""
    (tmp_path / "file").touch()

    for place in (tmp_path, tmp_path / "file", tmp_path / "none"):
        assert SuiteFolder.existing(place) is None


def test_a_folder_in_which_nothing_began_is_discarded(tmp_path: Path) -> None:
    """A folder that was made is removed again, one that was there stays; one with a run stays as it is."""
    made, there = SuiteFolder.create(tmp_path / "made", ("iops",)), tmp_path / "there"
    there.mkdir()
    found = SuiteFolder.create(there, ("iops",))
    begun = SuiteFolder.create(tmp_path / "begun", ("iops",))
    begun.run_path("iops").mkdir()
    (begun.run_path("iops") / "journal.jsonl").write_text("begun\n")

    for folder in (made, found, begun):
        folder.discard()

    assert not made.path.exists()
    assert list(there.iterdir()) == []
    assert SuiteFolder.existing(begun.path) is not None


NO_SUITES = (b'{"format":1,"tests":["fly"]}', b'{"format":2,"tests":["iops"]}', b'{"format":1,"tests":[[]]}')


@given(junk=st.binary(max_size=60) | st.sampled_from(NO_SUITES))
def test_junk_gives_a_sentence(junk: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A suite.json that does not say which tests were asked for is refused."""
    folder = tmp_path_factory.mktemp("junk")
    (folder / "suite.json").write_bytes(junk)

    with pytest.raises(RecordError, match=r"suite\.json"):
        SuiteFolder.existing(folder)


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "sparse"])
def test_a_special_file_is_no_suite(target: str, tmp_path: Path) -> None:
    """What could not be read to its end in time and memory is refused at once."""
    special(tmp_path / "suite.json", target)

    with pytest.raises(RecordError, match=r"suite\.json: it is (not a regular file|larger than 1 MiB)"):
        SuiteFolder.existing(tmp_path)


@given(st.integers(0, 2**63 - 1))
def test_each_test_has_its_own_seed(seed: int) -> None:
    """Seeds of tests differ, are the same for the same seed of all, and are valid seeds themselves."""
    seeds = [derive_seed(seed, test) for test in TESTS]

    assert len(set(seeds)) == len(TESTS)
    assert seeds == [derive_seed(seed, test) for test in TESTS]
    assert all(0 <= item < 2**63 for item in seeds)


# -- the summary -----------------------------------------------------------------------------------------------------


def test_every_test_has_key_figures() -> None:
    """Each test's summary line tells what the test is run for, in its own unit."""
    wanted = {
        "iops": ("RND 4 KiB 0/100", "IOPS"),
        "throughput": ("SEQ 1024 KiB 0/100", "MB/s"),
        "latency": ("RND 4 KiB 0/100", "ms"),
        "wsat": ("IOPS", "not steady", "histogram after it"),
        "hir": ("Wait State 10", "steady state"),
        "xsr": ("AG 3: recovered after", "MB/s"),
        "composite": ("Max IOPS", "T"),
        "dirth": ("Min IOPS", "T1Q1"),
    }
    for test, texts in wanted.items():
        output = "; ".join(key_figures(samples.result_of(test)))
        assert all(text in output for text in texts), output


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_a_stopped_test_has_the_figures_it_came_to(test: str, count: int) -> None:
    """However few outcomes came, a test has a line, which says that it is incomplete."""
    result = samples.result_of(test, ending="device failed", stop_after=count)

    (line,) = overview([(test, result)]).lines

    assert line.verdict == "INCOMPLETE (device failed)"
    assert not line.achieved


def test_the_verdict_counts_and_names() -> None:
    """All of it is one sentence: how many finished, what stopped, what was not steady, what was not run."""
    told = overview(
        results(
            latency=samples.result_of("latency", steady=False),
            wsat=samples.result_of("wsat", ending="device failed", stop_after=30),
            hir=None,
            xsr=None,
            composite=None,
            dirth=None,
        )
    )

    assert told.verdict == (
        "3 of 8 tests finished; Write Saturation device failed; not steady: Latency; NOT RUN: Host Idle Recovery, "
        "Cross Stimulus Recovery, Composite Block Size Workload, Demand Intensity"
    )
    assert not told.finished
    assert overview(results()).verdict == "8 of 8 tests finished"


def test_a_saturation_that_time_ended_is_no_fault() -> None:
    """Write saturation need not be steady, and cross stimulus recovery asks for nothing: both are achieved."""
    told = overview([(test, samples.result_of(test)) for test in ("wsat", "xsr")])

    assert all(line.achieved for line in told.lines)
    assert not told.lines[0].verdict.startswith("STEADY")


@pytest.mark.parametrize(
    ("test", "steady"), [("latency", True), ("latency", False), ("hir", False), ("wsat", True), ("xsr", True)]
)
def test_the_header_says_of_steady_state_what_each_report_says(test: str, steady: bool) -> None:
    """NOT ACHIEVED there is NOT ACHIEVED here, also of a write saturation that need not achieve it."""
    result = samples.result_of(test, steady=steady)
    own = building.build(result).header.blocks.rows
    said = any("NOT ACHIEVED" in cell for row in own for cell in row)
    rows = build(overview([(test, result)])).header.blocks.rows
    (state,) = (row[-1] for row in rows if row[-2] == test.upper())

    assert state == ("NOT ACHIEVED" if said else "complete" if test == "xsr" else "achieved")


def test_a_saturation_without_steady_state_is_told_by_its_end() -> None:
    """No figure on the summary is the mean of a window that the fresh drive is in."""
    result = samples.result_of("wsat", overrides=[("saturation.seconds", 121 * 60), ("histogram.seconds", 60)])
    line, after = result.time_line("stimulus"), result.time_line("histogram")
    assert line is not None
    assert after is not None

    end = sum(line.write_ios[-31:]) / (31 * 60)
    assert list(key_figures(result)) == [
        f"{number(end)} IOPS, last 31 min 00 s of the stimulus, not steady",
        f"{number(after.iops[0])} IOPS, histogram after it (RND 4 KiB 0/100)",
    ]


def test_an_unsteady_baseline_is_told_with_its_figure() -> None:
    """The preconditioning's last window is marked where it is told."""
    told = next(iter(key_figures(samples.result_of("hir", steady=False))))

    assert told.endswith("IOPS, last window, NOT ACHIEVED")


def test_limits_stand_on_the_summary() -> None:
    """Each with its test, what was asked, measured and became of it; of a test that was not run too."""
    wanted = Limit(test="iops", metric="iops", at="RND 4 KiB 0/100", unit="IOPS", minimum=1.0)
    result = samples.result_of("iops")
    limits = (wanted, replace(wanted, minimum=1e7), replace(wanted, test="hir"))
    given = replace(result, facts=replace(result.facts, limits=limits))
    (page,) = build(overview([("iops", given), ("hir", None)])).pages
    table = next(block for block in page.blocks if isinstance(block, Table) and block.title == "Limits")

    assert "Limits: 2 of 3 NOT MET" in [block.text for block in page.blocks if isinstance(block, Prose)]
    assert [row[0] for row in table.rows] == ["iops", "iops", "hir"]
    assert [row[-1] for row in table.rows] == ["met", "NOT MET: less than the minimum", "NOT MET: hir was not run"]
    (page,) = build(overview([("iops", result)])).pages
    assert "Limits" not in [block.title for block in page.blocks if isinstance(block, Table)]


def test_an_unsteady_test_is_no_success_of_all() -> None:
    """Without deviations, a test that never got steady leaves nothing green on the summary."""
    (page,) = build(overview([("latency", samples.result_of("latency", steady=False))])).pages
    told = [block for block in page.blocks if isinstance(block, Prose)]

    assert "No deviation in any test, but steady state was not achieved in all" in [block.text for block in told]
    assert [block.text for block in told if block.kind == "good"] == []


def test_a_stopped_test_without_deviations_says_why_it_is_not_conformant() -> None:
    """The summary gives the reason that counts, not a number of deviations that is none."""
    result = samples.result_of("latency", ending="interrupted", stop_after=3)

    assert [line.conformance for line in overview([("latency", result)]).lines] == ["NO, the run did not finish"]


def test_a_report_that_is_not_there_is_not_named() -> None:
    """The summary names the reports that lie in the folder, and no other."""
    told = overview(
        [("latency", samples.result_of("latency")), ("xsr", samples.result_of("xsr"))], {"xsr": "report.html"}
    )

    assert [line.report for line in told.lines] == ["\N{EN DASH}", "xsr/report.html"]


def test_the_summary_says_least_and_sum() -> None:
    """What a stopped test wrote is the least, a finished one's is exact; the durations are told together."""
    stopped = samples.result_of("latency", ending="interrupted", stop_after=30)
    told = overview([("throughput", samples.result_of("throughput")), ("latency", stopped)])
    tests, together = (block for block in build(told).pages[0].blocks if isinstance(block, Table))

    facts = {row[0]: row[1] for row in together.rows}
    assert [row[5].startswith("at least ") for row in tests.rows] == [False, True]
    assert facts["Data written, all tests"].startswith("at least ")
    seconds = [line.seconds for line in told.lines if line.seconds is not None]
    assert facts["Duration"] == duration(sum(seconds))


def test_a_test_without_steady_state_is_complete() -> None:
    """The header says achieved of no test that asks for no steady state."""
    text = rst.render(build(overview([(test, samples.result_of(test)) for test in ("latency", "xsr")])))

    for test, state in (("LATENCY", "achieved"), ("XSR", "complete")):
        assert any(test in line and state in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("pts", "title"), [("2.0.2", "Composite Block Size Workload"), ("1.1", "Enterprise Composite Workload")]
)
def test_a_test_that_was_not_run_has_its_title(pts: str, title: str) -> None:
    """A test without a result is named as its version of the standard names it."""
    told = overview([("latency", samples.result_of("latency", pts=pts)), ("composite", None)])

    assert [line.title for line in told.lines] == ["Latency", title]
    assert told.verdict.endswith(f"NOT RUN: {title}")


def test_the_summary_leads_to_the_reports(tmp_path: Path) -> None:
    """Each report that is there is a link, relative to the summary: in HTML an address, in PDF a file to open."""
    told = overview(
        [("latency", samples.result_of("latency")), ("wsat", samples.result_of("wsat")), ("hir", None)],
        {"latency": "report.pdf"},
    )
    paths = write(told, tmp_path)

    assert re.findall(r'href="([^"]*)"', paths["html"].read_text()) == ["latency/report.pdf"]
    actions = [note.get_object()["/A"] for page in PdfReader(paths["pdf"]).pages for note in page.get("/Annots", ())]
    assert [(action["/S"], action["/F"]) for action in actions] == [("/GoToR", "latency/report.pdf")]


@pytest.mark.parametrize(
    "place", ["", "report", "/etc/x.pdf", "../x.pdf", "http://x.pdf", "a b.pdf", "a`_.pdf", "a.pdf\n"]
)
def test_a_link_is_a_plain_place(place: str) -> None:
    """Nothing but a plain relative path becomes a link."""
    with pytest.raises(ValueError, match="not a simple relative path"):
        Link(place)


def test_nothing_to_sum_up_is_said() -> None:
    """Where no test was run there is no summary."""
    with pytest.raises(ReportError, match="no test was run"):
        overview([("iops", None)])


def test_the_summary_is_a_report(tmp_path: Path) -> None:
    """The summary is made in every form, from valid RST, links each report, and comes out the same again."""
    told = overview(
        results(hir=None, wsat=samples.result_of("wsat", ending="interrupted", stop_after=30)),
        dict.fromkeys(TESTS, "report.pdf"),
    )

    paths = write(told, tmp_path)
    first = {name: path.read_bytes() for name, path in paths.items()}
    write(told, tmp_path)

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
    assert len(build(told).pages) == 1


# -- stored runs of all ----------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SuiteFolder:
    """A stored run of three tests, the second of which was stopped."""
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    tests = ("throughput", "latency", "wsat")
    asked = [RunOptions(test=test, target="sim:enterprise-sata", seed=SEED) for test in tests]
    folder = SuiteFolder.create(tmp_path / "all", tests, asked)
    store_run(folder.run_path("throughput"), "throughput")
    cut_journal(store_run(folder.run_path("latency"), "latency"), 30)
    return folder


def test_assess_judges_all_that_was_run(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """assess tells each test that was run, and of all of them what became of it."""
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


def test_report_makes_all_reports_and_the_summary(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """report makes each run's report, and the summary, and names them."""
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


def test_forged_evidence_in_one_run_is_told(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code of all is that of a record that cannot be trusted when one run's is."""
    next((stored.run_path("throughput") / "evidence").glob("*.json")).write_text("forged")

    assert main(["assess", str(stored.path)]) == 14
    assert "Stored files differ" in capsys.readouterr().out


def test_a_linked_folder_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A test's folder that is a link to another run is told, and nothing is written there."""
    elsewhere = store_run(stored.path.parent / "elsewhere", "wsat")
    stored.run_path("wsat").symlink_to(elsewhere.path)

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "it is a symlink" in capsys.readouterr().err
    assert not (elsewhere.path / "report.pdf").exists()


def test_the_run_of_another_test_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder whose journal is that of another test stands for no test."""
    stored.run_path("latency").rename(stored.run_path("wsat"))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "its journal is of the test latency" in capsys.readouterr().err


def test_a_test_that_was_taken_off_the_list_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary leaves out no run that is there."""
    listed = stored.path / "suite.json"
    document = json.loads(listed.read_text())
    document["tests"].remove("latency")
    listed.write_text(json.dumps(document))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "does not list the test latency, but its run is in the folder" in capsys.readouterr().err


def test_the_run_of_another_drive_is_refused(stored: SuiteFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary is that of one drive."""
    killing.reference("wsat", stored.run_path("wsat"))
    seed = JournalReader(RunFolder(path=stored.run_path("wsat")).journal).facts.seed
    document = json.loads((stored.path / "suite.json").read_text())
    document["options"][2]["seed"] = seed
    (stored.path / "suite.json").write_text(json.dumps(document))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert "that of the test before is EXAMPLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seeds", "expected"), [([1, 1, 1], "seed 1"), ([None, None, None], "no seed"), ([], "no seed")]
)
def test_a_run_with_another_seed_is_refused(
    seeds: list[int | None], expected: str, stored: SuiteFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """suite.json holds the seed of each of its runs; a run with another seed comes from elsewhere."""
    document = json.loads((stored.path / "suite.json").read_text())
    document["options"] = [{**asked, "seed": seed} for asked, seed in zip(document["options"], seeds, strict=False)]
    (stored.path / "suite.json").write_text(json.dumps(document))

    for verb in ("assess", "report"):
        assert main([verb, str(stored.path)]) == 14
        assert f"its journal is of another run: expected {expected}, got seed {SEED}" in capsys.readouterr().err


def test_a_folder_of_nothing_gives_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of all in which no test began is refused by assess and report."""
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
