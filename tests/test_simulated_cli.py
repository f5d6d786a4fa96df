"""The command line on a simulated drive: complete tests in seconds, and every report page is marked as simulated."""

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
from tests.samples import cut_journal

SAMPLES = Path(__file__).parent.parent / "reports" / "samples"
MARK = "SIMULATED, NO DRIVE WAS TESTED"


def pages(pdf: Path) -> list[str]:
    """Return the text of each page, in which a line break is a space."""
    from pypdf import PdfReader

    return [" ".join(page.extract_text().split()) for page in PdfReader(pdf).pages]


def run(folder: Path, *arguments: str) -> int:
    return main([*arguments, "--run-dir", str(folder), "--progress", "none"])


def numbers(measurement: Measurement) -> tuple[object, ...]:
    """Return the measured values without the times of the clock."""
    return measurement.stimulus, measurement.seed, measurement.read, measurement.write


@pytest.mark.long_but_first
@pytest.mark.parametrize("test_class", ["enterprise", "client"])
def test_a_complete_test_runs_on_a_simulated_drive(
    test_class: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full-length test ends with a report marked SIMULATED on every page; the class sets the write cache."""
    assert run(tmp_path / "run", "latency", "sim:enterprise-sata", "--class", test_class, "--seed", "7") == 0

    output = capsys.readouterr().out
    result = assess(RunFolder.existing(tmp_path / "run"))
    assert "STEADY STATE" in output
    assert "; all times are virtual\n" in output
    assert result.facts.dut.write_cache == result.facts.spec.setup.write_cache
    assert [deviation.what for deviation in result.deviations] == ["device under test"]
    texts = pages(tmp_path / "run" / "report.pdf")
    assert len(texts) > 5
    assert all(MARK in text for text in texts)
    for form in ("rst", "html"):
        assert MARK in (tmp_path / "run" / f"report.{form}").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    """Two runs with one seed agree in every measurement."""
    for name in ("one", "two"):
        assert run(tmp_path / name, "latency", "sim:client-qlc", "--seed", "11", "--to", "none") == 0
    one, two = (assess(RunFolder.existing(tmp_path / name)) for name in ("one", "two"))
    assert list(map(numbers, one.measurements)) == list(map(numbers, two.measurements))


@pytest.mark.long
def test_a_preset_file_of_the_user_is_accepted(tmp_path: Path) -> None:
    """A copied preset with a changed capacity gives a drive of that capacity."""
    text = (PRESETS / "optane.toml").read_text(encoding="utf-8")
    preset = tmp_path / "mine.toml"
    preset.write_text(text.replace("375_083_606_016", "102_400_000_000"), encoding="utf-8")
    assert run(tmp_path / "run", "throughput", f"sim:{preset}", "--to", "none") == 0
    assert assess(RunFolder.existing(tmp_path / "run")).facts.dut.capacity_bytes == 102_400_000_000


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
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
def test_unknown_presets_and_options_for_real_targets_are_refused(
    arguments: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each ends with its exit code and message, and no run folder is created."""
    assert run(tmp_path / "run", *arguments) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_plan_needs_no_drive(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of all tests on a simulated drive prints the capacity of its preset."""
    assert main(["all", "sim:enterprise-nvme", "--advanced", "--plan"]) == 0
    assert "3.841 TB" in capsys.readouterr().out


@pytest.mark.long
def test_all_eight_tests_run_on_a_simulated_drive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All tests finish, at full length except for a tenth of HIR's cycles; reports and summary are marked SIMULATED.

    ``assess`` confirms that evidence and result.xml agree with the journal.
    """
    folder, tenth = tmp_path / "all", "hir.wait_states.cycles=36"
    assert run(folder, "all", "sim:enterprise-nvme", "--advanced", "--set", tenth, "--to", "none") == 0
    results = {test: assess(RunFolder.existing(folder / test)) for test in SPEC_TYPES}
    for test, result in results.items():
        assert result.ending == "finished"
        assert result.achieved or test == "xsr"
        assert MARK in rst.render(building.build(result))
    assert MARK in rst.render(suite.build(suite.overview(results.items())))
    assert main(["assess", str(folder)]) == 0


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", SPEC_TYPES)
def test_each_sample_report_exists_and_is_marked_simulated(test: str) -> None:
    """The sample report of each test is smaller than a megabyte and marked SIMULATED on every page."""
    sample = SAMPLES / f"{test}.pdf"
    assert sample.stat().st_size < 10**6
    assert all(MARK in page for page in pages(sample))


@pytest.mark.long
def test_the_sample_of_a_drive_with_sensors_has_its_temperature_and_its_writes() -> None:
    """It has the pages of a real drive's telemetry and log, marked SIMULATED."""
    text = pages(SAMPLES / "sensors.pdf")
    assert all(MARK in page for page in text)
    assert any("vs Time" in page and "drive temperature" in page for page in text)
    assert any("Drive Health" in page and "Physical Media Units Written" in page for page in text)


@pytest.mark.long
def test_a_resumed_run_has_the_same_log_of_the_drive(tmp_path: Path) -> None:
    """The steps before the stop are repeated, so temperature and counts go on; a drive without sensors has no log."""
    words = ("throughput", "sim:enterprise-nvme-sensors", "--seed", "3", "--to", "none")
    short = ("--set", "rounds.point_seconds=2", "--set", "rounds.maximum=5")
    assert run(tmp_path / "whole", *words, *short) == 0
    assert run(tmp_path / "stopped", *words, *short) == 0
    cut_journal(RunFolder.existing(tmp_path / "stopped"), 12)
    assert main(["resume", str(tmp_path / "stopped"), "--continue", "--progress", "none"]) == 0

    whole, stopped = (assess(RunFolder.existing(tmp_path / name)) for name in ("whole", "stopped"))
    assert whole.health_after is not None
    assert stopped.health_after is not None
    assert stopped.health_after.figures == whole.health_after.figures
    assert whole.write_amplification is not None
    assert {loop.rounds[0].measurements[0].telemetry is None for loop in whole.loops} == {False}
    assert run(tmp_path / "plain", "throughput", "sim:enterprise-nvme", *words[2:], *short) == 0
    assert assess(RunFolder.existing(tmp_path / "plain")).health_after is None
