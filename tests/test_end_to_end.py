"""End-to-end runs of the command line with real fio on a file and a loop device, also stopped and killed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from tests.command_line import ENVIRONMENT, ROOT, assessed, checked, command, fio_of, snia_pts
from tests.drives import loop_device, make_ext4, need_program
from tests.test_end_to_end_of_all import SHORT

pytestmark = pytest.mark.usefixtures("without_figures")

#: The shortest possible run: version 1.1 tracks one point.
SMALL = (
    "--pts",
    "1.1",
    "--point-seconds",
    "0.1",
    "--set",
    "steady_state.window_rounds=2",
    "--max-rounds",
    "2",
    "--set",
    "rounds.read_percents=[100, 0]",
    "--set",
    "rounds.block_sizes_kib=[64, 4]",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of all tracked cells and those beside them on a file, in its subfolder ``run``."""
    folder = tmp_path_factory.mktemp("whole")
    settings = [word for setting in SHORT["iops"] for word in ("--set", setting)]
    done = snia_pts(folder, "iops", "drive.img", "--size", "64M", *settings, "--run-dir", "run", "--seed", "4711")
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


@pytest.mark.long
def test_all_cells_equal_the_output_of_fio(place: Path) -> None:
    """An independent script confirms that WIPC, 2 x 9 measurements and all cells equal fio's JSON in evidence/."""
    done = checked(place / "run")

    assert done.stdout == "19 measurements and 9 points agree\n"
    assert done.returncode == 0


def test_the_independent_script_rejects_a_forged_number(place: Path, tmp_path: Path) -> None:
    """With a forged IOPS value in result.xml the script exits with 1."""
    (tmp_path / "evidence").symlink_to(place / "run" / "evidence")
    forged = (place / "run" / "result.xml").read_text().replace(' iops="', ' iops="1', 1)
    forged = forged[: forged.rindex(' iops="')] + forged[forged.rindex(' iops="') :].replace(' iops="', ' iops="1')
    (tmp_path / "result.xml").write_text(forged)

    done = checked(tmp_path)

    assert done.returncode == 1
    assert "stored" in done.stdout


def test_xmllint_accepts_the_result(place: Path) -> None:
    """xmllint finds result.xml valid against specs/result.xsd."""
    schema = str(ROOT / "specs" / "result.xsd")
    need_program("xmllint", "libxml2-utils")
    done = subprocess.run(
        ["xmllint", "--noout", "--schema", schema, str(place / "run" / "result.xml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_assess_gives_identical_numbers(place: Path) -> None:
    """assess gives the same numbers as the run and as result.xml."""
    assessment = assessed(place / "run")
    stored = (place / "run" / "result.xml").read_text()

    assert assessment["differs_from_journal"] == []
    (loop,) = assessment["loops"]
    assert len(loop["points"]) == 9
    for point in loop["points"]:
        assert f' iops="{repr(point["iops"]).removesuffix(".0")}"' in stored
    assert snia_pts(place, "assess", "run").stdout.splitlines()[:8] == (place / "stdout").read_text().splitlines()[:8]


@pytest.mark.long
def test_a_regenerated_report_is_identical(place: Path) -> None:
    """`report` writes the same bytes as the run did, in all formats."""
    names = ("report.rst", "report.pdf", "report.html", "report.xlsx", "result.xml")
    before = {name: (place / "run" / name).read_bytes() for name in names}

    snia_pts(place, "report", "run")

    assert {name: (place / "run" / name).read_bytes() for name in names} == before
    assert before["report.pdf"].startswith(b"%PDF-")


def test_a_shortened_run_lists_its_deviations(place: Path) -> None:
    """A shortened run on a file lists each of its deviations on stdout and in the report."""
    for text in ((place / "stdout").read_text(), (place / "run" / "report.rst").read_text()):
        for deviation in (
            "rounds.point_seconds",
            "rounds.maximum",
            "steady_state.window_rounds",
            "device under test",
            "purge",
        ):
            assert deviation in text


def test_progress_in_a_pipe_is_lines(place: Path) -> None:
    """If stderr is not a terminal, progress is written to it as lines without carriage returns."""
    text = (place / "stderr").read_text()

    assert "\r" not in text
    assert "Purge: punch-hole (proven on 64 blocks)" in text
    assert "round 2 of at most 2" in text


def test_preconditioning_is_exact_and_every_point_has_its_seed(place: Path) -> None:
    """WIPC wrote exactly twice the capacity; every stimulus has its own seed, which its stored job file contains."""
    journal = [json.loads(line)["entry"] for line in (place / "run" / "journal.jsonl").read_text().splitlines()]
    measured = [entry["outcome"] for entry in journal if entry["kind"] == "outcome" and "seed" in entry["outcome"]]

    assert measured[0]["write"]["transferred_bytes"] == 2 * 64 * 1024 * 1024
    assert len({point["seed"] for point in measured}) == len(measured) == 1 + 2 * 9
    assert min(point["seed"] for point in measured) > 1 << 60
    for point in measured:
        job = (place / "run" / "evidence" / f"{point['evidence']}.fio").read_text()
        assert f"randseed={point['seed']}" in job


def test_gaps_are_recorded(place: Path) -> None:
    """The journal has the suite's and the device's idle time before each point but the first."""
    journal = [json.loads(line)["entry"] for line in (place / "run" / "journal.jsonl").read_text().splitlines()]
    points = [e["outcome"] for e in journal if e["kind"] == "outcome" and "seed" in e["outcome"]]

    assert points[0]["timing"]["suite_gap_us"] is points[0]["timing"]["idle_gap_ms"] is None
    for previous, point in pairwise(points):
        if point["rejected"]:  # the gap began at the end of the rejected attempt
            continue
        before, after = previous["timing"], point["timing"]
        gap_ms = (after["started_monotonic_ns"] - before["ended_monotonic_ns"]) / 1e6
        assert 0 < after["suite_gap_us"] / 1000 <= gap_ms <= after["idle_gap_ms"], (before, after)


@pytest.mark.long
def test_a_file_of_the_suite_is_reused_and_others_need_overwrite(place: Path, tmp_path: Path) -> None:
    """A file that the suite created is reused; another file is refused with code 8 without --overwrite."""
    reused, refused, overwritten = (str(tmp_path / name) for name in ("reused", "refused", "overwritten"))
    own, other = str(place / "drive.img"), str(tmp_path / "other.img")
    assert main(["iops", own, *SMALL, "--to", "none", "--run-dir", reused]) == 0
    Path(other).write_bytes(b"x" * (8 << 20))

    assert main(["iops", other, *SMALL, "--run-dir", refused]) == 8
    assert main(["iops", other, *SMALL, "--overwrite", "--to", "none", "--run-dir", overwritten]) == 0
    assert (Path(overwritten) / "result.xml").exists()
    assert not Path(refused).exists()


def reset_signals() -> None:
    """Restore the default stop signals, in case the tests run with them ignored (nohup)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run on a file that has started its rounds."""
    options = ("--point-seconds", "20", "--to", "none", "--run-dir", "run")
    argv = command("iops", "drive.img", "--size", "16M", *SMALL, *options)
    with subprocess.Popen(
        argv,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=reset_signals,
    ) as child:
        deadline = time.monotonic() + 180
        while "00002-" not in " ".join(fio_of(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield child
        child.kill()


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (signal.SIGINT, "Stopped by the operator"),
        (signal.SIGTERM, "Terminated (SIGTERM)"),
        (signal.SIGHUP, "Stopped by a hang-up (SIGHUP)"),
    ],
)
def test_a_stopped_run_keeps_its_measurements(
    number: signal.Signals,
    cause: str,
    running: subprocess.Popen[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C, SIGTERM and SIGHUP end fio and the run with code 130; the message names the signal.

    The measurements are kept and can be reported; message, assessment, status and report give the same cause.
    """
    running.send_signal(number)
    _, err = running.communicate(timeout=30)

    assert running.returncode == 130
    assert f"{cause} in step Round 1" in err
    assert "Traceback" not in err
    assert fio_of(tmp_path) == []
    assert assessed(tmp_path / "run")["verdict"] == "INCOMPLETE (interrupted)"
    assert cause in assessed(tmp_path / "run")["ending_detail"]
    assert main(["status", str(tmp_path / "run")]) == 0
    assert cause in capsys.readouterr().out
    assert main(["report", str(tmp_path / "run"), "--to", "rst"]) == 0
    report = (tmp_path / "run" / "report.rst").read_text()
    assert "INCOMPLETE" in report
    assert cause in " ".join(report.split())


@pytest.mark.long
def test_a_run_whose_file_was_written_while_stopped_starts_again(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    """By the rule it would continue with round 1, but the file is no longer preconditioned: it asks first."""
    running.terminate()
    running.communicate(timeout=30)
    with (tmp_path / "drive.img").open("r+b") as file:
        file.write(bytes(1 << 20))
    done = snia_pts(tmp_path, "resume", "run", check=False)

    assert done.returncode == 9
    assert "Changed: content of the drive: it was written while the run was stopped." in done.stderr
    assert "continues with Purge" in " ".join(done.stderr.split())


@pytest.mark.long
def test_a_run_under_nohup_survives_a_hang_up(tmp_path: Path) -> None:
    """A run started by nohup ignores SIGHUP and finishes."""
    argv = command("iops", "drive.img", "--size", "16M", *SMALL, "--to", "none", "--run-dir", "run")
    with subprocess.Popen(
        ["nohup", *argv],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as child:
        while not (tmp_path / "run" / "journal.jsonl").exists():
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(signal.SIGHUP)
        child.communicate(timeout=120)

    assert child.returncode == 0


def test_a_killed_run_leaves_no_fio_and_a_readable_record(running: subprocess.Popen[str], tmp_path: Path) -> None:
    """After SIGKILL of the suite no fio process remains, and the stored run can be assessed as INCOMPLETE."""
    running.kill()
    running.wait()
    for _ in range(100):
        if not fio_of(tmp_path):
            break
        time.sleep(0.1)

    assert fio_of(tmp_path) == []
    assert assessed(tmp_path / "run")["verdict"] == "INCOMPLETE (unfinished)"


@pytest.mark.long
@pytest.mark.root
def test_a_loop_device_from_purge_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the right --serial the run is refused; with it the purge is a real blkdiscard, verified and reported."""
    with loop_device(tmp_path / "loop.img", 32 << 20) as device:
        words = ("iops", str(device), *SMALL, "--to", "rst")
        assert main([*words, "--run-dir", str(tmp_path / "no")]) == 9
        assert f"--serial {Path(device).name}" in capsys.readouterr().err
        assert main([*words, "--serial", "other", "--run-dir", str(tmp_path / "no")]) == 9
        capsys.readouterr()
        assert main([*words, "--serial", Path(device).name, "--run-dir", str(tmp_path / "run")]) == 0

    assert not (tmp_path / "no").exists()
    assert "purge: blkdiscard" in capsys.readouterr().out
    assert "verified: 64 of 64 sample blocks were erased" in (tmp_path / "run" / "report.rst").read_text()
    assert (tmp_path / "run" / "evidence" / "00000-purge.process.json").exists()


@pytest.mark.long
@pytest.mark.root
def test_a_mounted_device_is_refused_untouched(tmp_path: Path) -> None:
    """A mounted loop device is refused with its mount point, and a file on it stays unchanged."""
    with loop_device(tmp_path / "loop.img", 32 << 20) as device:
        make_ext4(device)
        (tmp_path / "mnt").mkdir()
        subprocess.run(["mount", str(device), str(tmp_path / "mnt")], check=True)
        try:
            (tmp_path / "mnt" / "data").write_text("precious")
            done = snia_pts(tmp_path, "iops", str(device), "--serial", Path(device).name, check=False)
            assert (tmp_path / "mnt" / "data").read_text() == "precious"
        finally:
            subprocess.run(["umount", str(tmp_path / "mnt")], check=True)

    assert done.returncode == 7
    assert f"mounted at {tmp_path / 'mnt'}" in done.stderr
