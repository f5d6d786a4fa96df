"""The log: what a run logs, where it is kept, and what -v shows."""

from __future__ import annotations

import errno
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from threading import Event as StopEvent

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import Interrupted, RunFolderError
from snia_pts.files import UnbufferedFile
from snia_pts.lab.process import program
from snia_pts.model.run_options import RunOptions
from snia_pts.record.folder import RunFolder
from snia_pts.record.log import PACKAGE, logged
from snia_pts.record.replay import assess
from snia_pts.runner.caller import Caller
from snia_pts.runner.events import Event, RoundEvaluated
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import resume
from snia_pts.runner.run import run

OPTIONS = RunOptions(
    test="iops",
    target="sim:enterprise-nvme",
    overrides=("rounds.maximum=6", "rounds.point_seconds=5", "rounds.block_sizes_kib=[1024, 64, 4]"),
    seed=4711,
    formats=(),
)
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) snia_pts[.\w]*: .+")


def lines(folder: Path) -> list[str]:
    return (folder / "log.txt").read_text(encoding="utf-8").splitlines()


def test_a_run_keeps_its_log(tmp_path: Path) -> None:
    """The log has the command, the platform, a decision for each round and the end; no level is changed after it."""
    result = run(replace(OPTIONS, run_folder=tmp_path / "run"), Caller()).result
    log = lines(tmp_path / "run")
    assert all(map(LINE.fullmatch, log))
    assert "snia-pts iops sim:enterprise-nvme" in log[0]
    decisions = [line for line in log if re.search(r"runner\.observer: Round \d", line)]
    assert len(decisions) == len(result.loops[0].rounds)
    assert log[-1].endswith("the run ends: finished")
    assert PACKAGE.level == logging.NOTSET
    assert PACKAGE.propagate
    assert [type(handler) for handler in PACKAGE.handlers] == [logging.NullHandler]


@pytest.mark.long
def test_a_resumed_run_appends_to_its_log(tmp_path: Path) -> None:
    """The stop and its reason are in the log; resuming appends where it resumes, and rounds are logged once."""
    stop, folder = StopEvent(), tmp_path / "run"

    def stop_in_round_2(event: Event) -> None:
        if isinstance(event, RoundEvaluated) and event.evaluated_round.number == 2:
            stop.set()

    with pytest.raises(Interrupted):
        run(replace(OPTIONS, run_folder=folder), Caller(on_event=stop_in_round_2, stop=stop))
    stopped = lines(folder)
    assert any(" ERROR " in line and "Stopped by the calling program" in line for line in stopped)
    resume(folder, ResumeOptions(policy="continue"), Caller())
    log = lines(folder)
    assert log[: len(stopped)] == stopped
    assert any("resume, policy continue" in line for line in log[len(stopped) :])
    assert sum("Round 1:" in line for line in log) == 1
    (folder / "log.txt").unlink()
    assert assess(RunFolder.existing(folder)).ending == "finished"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "named pipe"])
def test_a_planted_log_is_refused(tmp_path: Path, kind: str) -> None:
    """What another user put in place of the log is not written through."""
    victim = tmp_path / "victim"
    victim.write_text("before", encoding="utf-8")
    folder = RunFolder.create(tmp_path / "run")
    if kind == "named pipe":
        os.mkfifo(folder.log)
    else:
        (folder.log.symlink_to if kind == "symlink" else folder.log.hardlink_to)(victim)
    with folder.opened(), pytest.raises(RunFolderError, match=r"log\.txt"), logged(folder):
        pass
    assert victim.read_text(encoding="utf-8") == "before"


def test_a_full_disk_does_not_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that cannot be written are lost; the log states that as soon as it can be written again."""
    folder, logger, write = RunFolder.create(tmp_path / "run"), logging.getLogger("snia_pts.test"), UnbufferedFile.write

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with folder.opened(), logged(folder):
        monkeypatch.setattr(UnbufferedFile, "write", full)
        logger.warning("lost")
        monkeypatch.setattr(UnbufferedFile, "write", write)
        logger.warning("kept\nwith a line feed")
    text = folder.log.read_text(encoding="utf-8")
    assert "lost" not in text
    assert "could not be written" in text
    assert "kept\N{REPLACEMENT CHARACTER}with a line feed" in text


def test_handlers_of_the_program_get_the_same_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While a run keeps its log, the root logger still gets no INFO records that nobody enabled."""
    folder, logger = RunFolder.create(tmp_path / "run"), logging.getLogger("snia_pts.test")
    with folder.opened(), logged(folder):
        logger.info("detail")
        logger.warning("problem")
    assert [record.message for record in caplog.records] == ["problem"]
    assert "detail" in folder.log.read_text(encoding="utf-8")


def test_a_fault_of_the_suite_is_logged_with_its_traceback(tmp_path: Path) -> None:
    """Someone who looks for the fault finds where it is."""
    folder = RunFolder.create(tmp_path / "run")
    with folder.opened(), pytest.raises(ZeroDivisionError), logged(folder):
        _ = 1 / 0
    text = folder.log.read_text(encoding="utf-8")
    assert " CRITICAL " in text
    assert "ZeroDivisionError" in text


def test_a_program_is_logged_without_its_arguments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log has exit code, duration and the name of the evidence; arguments may contain a password."""
    caplog.set_level(logging.DEBUG, "snia_pts")
    program.run(["sh", "-c", "exit 3; secret"], evidence=tmp_path / "00001-x", timeout_seconds=10)
    assert re.search(r"sh ended with exit code 3 after 0\.\d{3} s, evidence 00001-x", caplog.text)
    assert "secret" not in caplog.text


@pytest.mark.long
@pytest.mark.parametrize(("option", "shown"), [("-v", {"INFO"}), ("-vv", {"INFO", "DEBUG"})])
def test_verbose_shows_the_log_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, shown: set[str]
) -> None:
    """-v shows INFO, -vv DEBUG too; standard output has the result only."""
    argv = ["iops", "sim:enterprise-nvme", "--max-rounds", "5", "--to", "none", "--progress", "none"]
    main([*argv, option, "--run-dir", str(tmp_path / "run")])
    output = capsys.readouterr()
    levels = {match[1] for match in map(LINE.fullmatch, output.err.splitlines()) if match}
    assert levels & {"INFO", "DEBUG"} == shown
    assert not any(map(LINE.match, output.out.splitlines()))
    assert [type(handler) for handler in PACKAGE.handlers] == [logging.NullHandler]


@pytest.mark.long
def test_verbose_overwrites_the_progress_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record starts at the beginning of the progress line and covers it."""
    argv = ["iops", "sim:enterprise-nvme", "--max-rounds", "5", "--to", "none", "--progress", "line", "-v"]
    main([*argv, "--run-dir", str(tmp_path / "run")])
    records = re.findall(r"(.)(\d{4}-[^\r\n]* snia_pts\.[^\r\n]*)\n", capsys.readouterr().err, re.DOTALL)
    assert records
    assert all(before == "\r" and len(text) >= 79 for before, text in records)
