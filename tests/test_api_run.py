"""Stored runs as values: loading, tables, histograms, evidence, a page for notebooks; and hostile journals."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import snia_pts
from snia_pts.errors import NotComparable, RecordError, ReportError, SniaPtsError, SpecError, TargetUnfit, UsageError
from snia_pts.record.suite import SuiteFolder
from tests import samples
from tests.fuzzing import corpora
from tests.fuzzing.chain import chained
from tests.fuzzing.targets import TARGETS
from tests.simulated_runs import BriefRun

LATENCY = BriefRun("latency", "2.0.2", "enterprise", "finished")


@pytest.fixture(scope="module")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished run of the latency test."""
    path = tmp_path_factory.mktemp("runs") / "latency"
    LATENCY.make(path)
    return path


@pytest.fixture
def folder(stored_run: Path, tmp_path: Path) -> Path:
    """Return the folder of a copy of the run, which a test may change."""
    return Path(shutil.copytree(stored_run, tmp_path / "latency"))


@pytest.fixture
def run(stored_run: Path) -> snia_pts.Run:
    return snia_pts.load(stored_run)


# -- load -------------------------------------------------------------------------------------------------------------


def test_a_run_has_its_facts(run: snia_pts.Run, stored_run: Path) -> None:
    """Test, class, device, specification and times are those of the result; a text names the run."""
    facts = run.result.facts

    assert (run.path, run.id, run.test, run.test_class) == (stored_run, facts.run_id, "latency", "enterprise")
    assert (run.device, run.host, run.spec) == (facts.dut, facts.platform, facts.spec)
    assert run.started < run.finished
    assert "latency on Simulated enterprise NVMe SSD" in repr(run)
    assert run.window is not None
    assert run.windows == {"Latency": run.window}
    assert run.steady is run.window.steady


def test_a_run_can_be_pickled(run: snia_pts.Run) -> None:
    """So that processes share the work on many runs."""
    copy = pickle.loads(pickle.dumps(run))  # noqa: S301

    assert copy == run
    assert {copy: 1}[run] == 1


def test_many_runs_are_loaded_by_name(stored_run: Path, tmp_path: Path) -> None:
    """A folder has runs and folders of several tests; other files are no runs."""
    for name in ("b", "a"):
        shutil.copytree(stored_run, tmp_path / name)
    (tmp_path / "notes.txt").write_text("no run")
    (tmp_path / "empty").mkdir()
    suite = SuiteFolder.create(tmp_path / "c", ["latency", "wsat"], [LATENCY.options])
    shutil.copytree(stored_run, suite.run_path("latency"))

    runs = snia_pts.load_many(tmp_path)
    assert [loaded.path.relative_to(tmp_path) for loaded in runs] == [Path("a"), Path("b"), Path("c/latency")]
    assert [loaded.path for loaded in snia_pts.load_many(tmp_path / "c")] == [tmp_path / "c/latency"]
    assert [loaded.path for loaded in snia_pts.load_many(tmp_path / "a")] == [tmp_path / "a"]


def test_several_tests_are_not_one_run(tmp_path: Path) -> None:
    """The error names one of them."""
    SuiteFolder.create(tmp_path / "suite", ["iops", "wsat"])

    with pytest.raises(RecordError, match="folder of several tests"):
        snia_pts.load(tmp_path / "suite")


@pytest.mark.parametrize("load", [snia_pts.load, snia_pts.load_many])
def test_other_files_and_folders_are_refused(load: Callable[[Path], object], tmp_path: Path) -> None:
    """A missing folder, an empty one, and a file."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("missing", "empty", "file"):
        with pytest.raises(RecordError):
            load(tmp_path / name)


def test_a_damaged_run_is_named(folder: Path) -> None:
    """Among many, the error says which run cannot be read."""
    (folder / "journal.jsonl").write_bytes(b"garbage\n")

    with pytest.raises(RecordError, match=str(folder)):
        snia_pts.load_many(folder.parent)


# -- figures ----------------------------------------------------------------------------------------------------------


def test_percentiles_of_a_point_are_those_of_the_table(run: snia_pts.Run) -> None:
    """Average, maximum and nines of a histogram are the figures over the window."""
    points = run.table("points")
    for row in points.values:
        times = run.histogram(str(row["point"]))
        assert times.percentile_us(99.9) == row["three_nines_response_us"]
        assert (times.average_us, times.maximum_us) == (row["average_response_us"], row["maximum_response_us"])


def test_a_phase_has_a_histogram(run: snia_pts.Run) -> None:
    """All I/Os of the histogram phase are counted."""
    series = run.series("histogram")

    assert run.histogram("histogram").count == series["read_ios"].sum() + series["write_ios"].sum()


def test_a_figure_is_found_by_its_name(run: snia_pts.Run) -> None:
    """Metric and point are those of limits and comparisons."""
    figure = run.figure("iops", at="RND 4 KiB 0/100")

    assert (figure.unit, figure.steady) == ("IOPS", run.steady)
    assert figure.value == run.window_matrix("iops").at(block_size_bytes=4096, read_percent=0)


def test_every_table_has_all_its_columns(run: snia_pts.Run) -> None:
    """Also columns without values, so that a program reads many runs without questions; units are known."""
    assert run.table("deviations").title.startswith("Deviations")
    assert {"five_nines_response_us", "skew", "seconds"} <= run.table("points").columns.keys()
    assert run.table("measurements").units["average_response_us"] == "us"
    assert len(run.table("prepared")) == 0
    assert "prepared" not in run.tables
    for name in run.tables:
        table = run.table(name)
        assert len(table.values) == len(table) > 0


def test_several_loops_have_no_common_window(tmp_path: Path) -> None:
    """The throughput test has a window for each block size."""
    BriefRun("throughput", "2.0.2", "enterprise", "finished").make(tmp_path / "run")
    run = snia_pts.load(tmp_path / "run")

    assert set(run.windows) == {"1024 KiB", "128 KiB"}
    with pytest.raises(UsageError, match="2 loops"):
        _ = run.window


@pytest.mark.parametrize(
    "use",
    [
        lambda run: run.table("point"),
        lambda run: run.figure("iops", "RND 4 KiB"),
        lambda run: run.histogram("RND 4 KiB"),
        lambda run: run.series("stimulus"),
        lambda run: run.matrix("iop"),
        lambda run: run.window_matrix("part"),
        lambda run: run.matrix("point"),
        lambda run: run.evidence("../journal"),
    ],
)
def test_a_wrong_name_is_a_usage_error(use: Callable[[snia_pts.Run], object], run: snia_pts.Run) -> None:
    """It lists the existing names."""
    with pytest.raises(UsageError) as raised:
        use(run)

    assert raised.value.hint


# -- evidence ---------------------------------------------------------------------------------------------------------


def test_evidence_is_the_answer_of_a_measurement(run: snia_pts.Run) -> None:
    """Its counts are those of the measurement; a change to it does not reach a later reader."""
    table = run.table("measurements")
    name = str(table["evidence"][0])
    answer = run.evidence(name)

    assert answer["jobs"][0]["write"]["total_ios"] == table["write_ios"][0]
    answer.clear()
    assert run.evidence(name)["jobs"]


@pytest.mark.parametrize("damage", ["changed", "missing", "folder"])
def test_damaged_evidence_is_refused(damage: str, folder: Path) -> None:
    """Only the file of which the journal has the checksum is read."""
    run = snia_pts.load(folder)
    name = str(run.table("measurements")["evidence"][0])
    path = folder / "evidence" / f"{name}.json"
    content = path.read_bytes()
    path.unlink()
    if damage == "changed":
        path.write_bytes(content.replace(b"1", b"2", 1))
    elif damage == "folder":
        path.mkdir()

    with pytest.raises(RecordError):
        run.evidence(name)
    assert snia_pts.assess(folder).differences


# -- assess, report, compare ------------------------------------------------------------------------------------------


def test_assess_checks_other_limits(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Limits of a file replace those of the run; limits on another test are listed, because none is checked."""
    text = 'format = 1\n[[limit]]\ntest = "{}"\nmetric = "iops"\nat = "RND 4 KiB 0/100"\nunit = "IOPS"\nminimum = {}\n'
    limits = tmp_path / "limits.toml"
    limits.write_text(text.format("latency", 1))
    assessment = snia_pts.assess(folder, limits=limits)
    assert (assessment.differences, assessment.limits_met, len(assessment.run.limits)) == ((), True, 1)
    limits.write_text(text.format("latency", 10**9))
    assert not snia_pts.assess(folder, limits=limits).limits_met
    limits.write_text(text.format("iops", 10**9))
    assert snia_pts.assess(folder, limits=limits).run.limits == ()
    assert "no limits for latency" in caplog.text
    limits.write_text("nonsense")
    with pytest.raises(SpecError):
        snia_pts.assess(folder, limits=limits)


@pytest.mark.long
def test_a_report_is_written(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the run's folder, with a new result.xml; or in another folder, without a change to the run."""
    (folder / "result.xml").write_text("<nothing/>")
    before = sorted(folder.iterdir())
    files = snia_pts.write_report(folder, formats=["rst", "csv"], folder=tmp_path / "out")
    assert files == {"rst": tmp_path / "out/report.rst", "csv": tmp_path / "out/tables"}
    assert sorted(folder.iterdir()) == before

    assert snia_pts.write_report(snia_pts.load(folder), formats=["json"]) == {"json": folder / "report.json"}
    assert json.loads((folder / "report.json").read_text())
    assert "result.xml is recreated" in caplog.text
    assert not snia_pts.assess(folder).differences


def test_a_report_is_refused(folder: Path) -> None:
    """For an unknown format, and for a run whose evidence was changed."""
    with pytest.raises(UsageError, match="unknown format"):
        snia_pts.write_report(folder, formats=["doc"])
    next(iter(sorted((folder / "evidence").iterdir()))).write_text("changed")
    with pytest.raises(RecordError, match="differs from its journal"):
        snia_pts.write_report(folder, formats=[], folder=folder.parent / "out")


@pytest.mark.long
def test_runs_are_compared(folder: Path, stored_run: Path, tmp_path: Path) -> None:
    """Equal runs have no differences; a table has a row for each figure and run."""
    comparison = snia_pts.compare([stored_run, snia_pts.load(folder)])
    table = comparison.table()

    assert comparison.possible_causes == ()
    assert len(table) == 2 * len(comparison.figures)
    others = table.values[table["run"] == "B"]
    assert set(others["difference_percent"]) == {0.0}
    assert set(table["significant"]) == {None, False}
    assert set(comparison.write_report(tmp_path / "out")) == {"rst", "pdf", "html"}
    with pytest.raises(ReportError):
        comparison.write_report(tmp_path / "out")


@pytest.mark.long
def test_runs_of_different_tests_are_not_compared(stored_run: Path, tmp_path: Path) -> None:
    """Runs of two tests, and a single run."""
    samples.store_run(tmp_path / "iops")
    with pytest.raises(NotComparable):
        snia_pts.compare([stored_run, tmp_path / "iops"])
    with pytest.raises(UsageError, match="takes 2 to 26 runs"):
        snia_pts.compare([stored_run])


def test_this_host_has_devices_and_settings(tmp_path: Path) -> None:
    """Without a target only the settings of the host; with a file or a folder also those of its file system."""
    assert all(device.path.startswith("/dev/") for device in snia_pts.devices())
    assert {setting.judgement for setting in snia_pts.host()}
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        assert {"file system", "mount options", "direct I/O"} <= {setting.name for setting in snia_pts.host(path)}
    with pytest.raises(TargetUnfit):
        snia_pts.host("/dev/null")


# -- notebooks --------------------------------------------------------------------------------------------------------


class _Elements(HTMLParser):
    """Collects the elements of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_a_notebook_shows_the_first_page(run: snia_pts.Run) -> None:
    """One frame has the page; it runs no script, loads nothing, and has the verdict."""
    ((tag, attributes),) = _Elements(run._repr_html_()).elements
    page = attributes["srcdoc"] or ""
    elements = _Elements(page).elements

    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-same-origin"
    assert [name for name, _ in elements if name in ("script", "link", "iframe", "object", "embed")] == []
    assert [src for _, values in elements if (src := values.get("src")) and not src.startswith("data:")] == []
    assert page.count("<h2") == 1
    assert "Latency Test - Report Page - SIMULATED" in page


# -- hostile journals -------------------------------------------------------------------------------------------------


def uses(run: snia_pts.Run) -> Iterator[object]:
    """Yield everything that a run has."""
    for name in ("verdict", "windows", "determinations", "figures", "limits", "warnings", "deviations", "device"):
        yield getattr(run, name)
    yield repr(run)
    for name in run.tables:
        yield run.table(name).values
        yield run.table(name).units
    for figure in run.figures[:3]:
        yield run.figure(figure.metric, figure.at)
    for use in (run.matrix, run.window_matrix):
        try:
            yield use("iops")
        except UsageError as refusal:
            yield refusal


@pytest.mark.long
@settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck), deadline=None)
@given(rng=st.randoms(use_true_random=True))
def test_a_hostile_journal_is_a_record_error(rng: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    """For any entries of a journal with valid checksums, load returns a run whose properties can all be used.

    Or it raises RecordError, and no other exception.
    """
    path = tmp_path_factory.getbasetemp() / "hostile"
    path.mkdir(exist_ok=True)
    form = TARGETS["entries"].form
    (path / "journal.jsonl").write_bytes(chained(form.hostile(rng, corpora.entries())))
    try:
        run = snia_pts.load(path)
    except RecordError as refusal:
        event(type(refusal).__name__)
        return
    event("loaded")
    assert all(use is not None for use in uses(run))


def test_errors_are_of_the_suite() -> None:
    """A caller needs one class to catch them all."""
    assert issubclass(RecordError, SniaPtsError)
