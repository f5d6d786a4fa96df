"""The command line on a simulated drive: whole tests in seconds, and every page says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import SpecError, UsageError
from snia_pts.lab.simulated.preset import PRESETS
from snia_pts.model.measurement import Measurement
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.report import registry as building
from snia_pts.report import suite
from snia_pts.report.formats import rst
from snia_pts.spec import SPEC_TYPES

SAMPLES = Path(__file__).parent.parent / "reports" / "samples"
MARK = "SIMULATED, NO DRIVE WAS TESTED"


def pages(pdf: Path) -> list[str]:
    """Return the text of each page."""
    from pypdf import PdfReader

    return [page.extract_text() for page in PdfReader(pdf).pages]


def run(folder: Path, *arguments: str) -> int:
    return main([*arguments, "--run-dir", str(folder), "--progress", "none"])


def numbers(measurement: Measurement) -> tuple[object, ...]:
    """Return what was measured, without the clock's own time."""
    return measurement.stimulus, measurement.seed, measurement.read, measurement.write


@pytest.mark.parametrize("test_class", ["enterprise", "client"])
def test_a_whole_test_is_rehearsed(test_class: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test of full length ends with a report whose every page says SIMULATED, the cache as the class wants it."""
    assert run(tmp_path / "run", "latency", "sim:enterprise-sata", "--class", test_class, "--seed", "7") == 0

    output = capsys.readouterr().out
    result = assess(RunFolder.existing(tmp_path / "run"))
    assert "STEADY STATE" in output
    assert "; all times are virtual\n" in output
    assert result.facts.dut.write_cache == result.facts.spec.setup.write_cache
    assert [deviation.what for deviation in result.deviations] == ["device under test"]
    found = pages(tmp_path / "run" / "report.pdf")
    assert len(found) > 5
    assert all(MARK in page for page in found)
    for form in ("rst", "html"):
        assert MARK in (tmp_path / "run" / f"report.{form}").read_text(encoding="utf-8")


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    """Two rehearsals of one seed agree in every measurement."""
    for name in ("one", "two"):
        assert run(tmp_path / name, "latency", "sim:client-qlc", "--seed", "11", "--to", "none") == 0
    one, two = (assess(RunFolder.existing(tmp_path / name)) for name in ("one", "two"))
    assert list(map(numbers, one.measurements)) == list(map(numbers, two.measurements))


def test_a_preset_may_be_the_users_own(tmp_path: Path) -> None:
    """A copied preset with another capacity is another drive."""
    text = (PRESETS / "optane.toml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace("375_083_606_016", "102_400_000_000"), encoding="utf-8")
    assert run(tmp_path / "run", "throughput", f"sim:{mine}", "--to", "none") == 0
    assert assess(RunFolder.existing(tmp_path / "run")).facts.dut.capacity_bytes == 102_400_000_000


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["iops", "sim:no-such"], UsageError.exit_code, "enterprise-nvme"),
        (["iops", "sim:"], UsageError.exit_code, "enterprise-nvme"),
        (["iops", "sim:/no/such.toml"], SpecError.exit_code, "no such file"),
        (["iops", "sim:/dev/zero"], SpecError.exit_code, "it is not a regular file"),
        (["iops", "sim:optane", "--size", "1G"], UsageError.exit_code, "--size is for real targets"),
        (["iops", "sim:optane", "--purge", "none"], UsageError.exit_code, "--purge is for real targets"),
        (["wsat", "sim:optane", "--refill-buffers"], UsageError.exit_code, "--refill-buffers is for real targets"),
        (["all", "sim:optane", "--serial", "X"], UsageError.exit_code, "--serial is for real targets"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown drives, and options that a simulated drive has no use for, are told in a sentence; nothing is made."""
    assert run(tmp_path / "run", *arguments) == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_plan_needs_no_drive(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of all tests on a simulated drive knows its capacity."""
    assert main(["all", "sim:enterprise-nvme", "--advanced", "--plan"]) == 0
    assert "3.841 TB" in capsys.readouterr().out


@pytest.mark.long
def test_all_eight_tests_are_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All tests of the standard, at full length but for a tenth of HIR's cycles; reports and summary say what they are.

    Each ends; evidence and result.xml are what the journal tells.
    """
    place, tenth = tmp_path / "all", "hir.wait_states.cycles=36"
    assert run(place, "all", "sim:enterprise-nvme", "--advanced", "--set", tenth, "--to", "none") == 0
    results = {test: assess(RunFolder.existing(place / test)) for test in SPEC_TYPES}
    for test, result in results.items():
        assert result.ending == "finished"
        assert result.achieved or test == "xsr"
        assert MARK in rst.render(building.build(result))
    assert MARK in rst.render(suite.build(suite.overview(results.items())))
    assert main(["assess", str(place)]) == 0


@pytest.mark.parametrize("test", SPEC_TYPES)
def test_a_sample_of_each_report_is_there(test: str) -> None:
    """A sample report of each test lies beside the templates, below a megabyte, and says that it is simulated."""
    sample = SAMPLES / f"{test}.pdf"
    assert sample.stat().st_size < 10**6
    assert all(MARK in page for page in pages(sample))
