"""The verb ``watch``: lines on a pipe, a redrawn block on a terminal, and runs that end, fail or cannot be read."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import snia_pts as pts
from snia_pts.cli.main import main
from snia_pts.errors import RecordError
from snia_pts.record.locks import lock
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.live_text import EventLines, block, cut, row, time_left
from snia_pts.web.model import RunView, WarningView
from snia_pts.web.monitoring_commands import fitted_lines
from tests.test_api_running import OPTIONS


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a simulated IOPS run of six rounds."""
    return pts.run(replace(OPTIONS, run_folder=tmp_path_factory.mktemp("watch") / "run")).path


NOW = datetime.fromisoformat("2026-11-27T12:00:00+00:00")


def view(folder: Path) -> RunView:
    """Return the values of a run."""
    (run,) = FolderSource(folder).snapshot().runs
    return run


def running(stored: Path, folder: Path) -> RunView:
    """Return the values of a run in its last round, after the sixth of its steps."""
    with growing(stored, folder) as steps:
        source = FolderSource(folder)
        for _ in range(4):
            next(steps)
            (run,) = source.snapshot().runs
    return run


@contextmanager
def growing(stored: Path, folder: Path) -> Iterator[Iterator[None]]:
    """Copy a journal into a folder in progress: each step of the iterator adds points, the last one ends the run."""
    folder.mkdir()
    shutil.copy(stored / "result.xml", folder)
    lines = (stored / "journal.jsonl").read_bytes().splitlines(keepends=True)
    with (folder / "journal.jsonl").open("ab") as file:
        lock(file.fileno())
        file.write(b"".join(lines[:3]))
        file.flush()

        def grow() -> Iterator[None]:
            for start in range(3, len(lines), 22):
                file.write(b"".join(lines[start : start + 22]))
                file.flush()
                if start + 22 >= len(lines):
                    file.close()
                yield

        yield grow()


def watched(stored: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Watch a run that grows while ``watch`` pauses; return the exit code."""
    with growing(stored, folder) as steps:
        monkeypatch.setattr("time.sleep", lambda _seconds: next(steps))
        return main(["watch", str(folder)])


def test_a_pipe_gets_a_line_for_each_event(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drive, each step, each round once with its values, the determination, and the verdict; no escape sequence."""
    assert watched(stored, tmp_path / "run", monkeypatch) == 0

    lines = capsys.readouterr().out.splitlines()
    result = pts.load(stored).result
    assert all(re.match(r"[0-9:]{8} .*/run: ", line) for line in lines)
    assert "IOPS of Simulated enterprise NVMe SSD" in lines[0]
    rounds = [int(match[1]) for line in lines if (match := re.search(r": round ([0-9]+): .*RND 4 KiB 0/100 ", line))]
    assert rounds == [measured.number for measured in result.loops[0].rounds]
    assert any(
        re.search(r"RND 4 KiB 0/100 .* IOPS: data [0-9.]+ %, slope [0-9.]+ %.*: (not )?steady in rounds", line)
        for line in lines
    )
    assert lines[-1].endswith(f"finished: {result.verdict}")
    assert "\x1b" not in "".join(lines)


class Terminal(io.TextIOWrapper):
    """A terminal that remembers what is written to it."""

    def isatty(self) -> bool:
        return True


def screen(written: str, width: int) -> list[str]:
    """Return the lines of a terminal after some text, which may only move the cursor up, and to the first column."""
    lines, current = [""], 0
    for up, line in re.findall(r"\x1b\[([0-9]+)A|\r([^\x1b\r\n]*)\n", written):
        if up:
            current -= int(up)
            assert current >= 0
            continue
        assert len(line) <= width - 1
        lines[current] = line + lines[current][len(line) :]
        current += 1
        if current == len(lines):
            lines.append("")
    assert re.sub(r"\x1b\[[0-9]+A|\r[^\x1b\r\n]*\n", "", written) == ""
    return [line.rstrip() for line in lines]


def test_a_terminal_shows_the_last_values_in_place(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines fit in 80 columns, nothing of earlier drawings remains, and a dumb terminal gets lines."""
    terminal = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((80, 24)))
    assert watched(stored, tmp_path / "run", monkeypatch) == 0
    terminal.flush()
    lines = screen(terminal.buffer.getvalue().decode(), 80)  # type: ignore[attr-defined]

    assert "1 run: 1 finished" in lines[0]
    shown = [line for line in lines[1:] if line]
    head = [cut(line, 79).rstrip() for line in block(str(tmp_path / "run"), view(tmp_path / "run"), NOW)]
    assert shown[:2] == head[:2]
    assert shown[2].startswith("  finished: ")
    assert not any("running" in line for line in lines)
    assert any(re.search("steady in rounds [0-9] - 6", line) for line in lines)


def test_many_runs_are_one_line_each_and_the_rest_is_counted(stored: Path) -> None:
    """If the blocks are higher than the terminal, each run has a line; what does not fit is a number."""
    value = view(stored)
    runs = {f"/runs/drive{number:02}": value for number in range(12)}
    assert fitted_lines(runs, 23, NOW)[1:] == [row(f"drive{number:02}", value, NOW) for number in range(12)]
    few = fitted_lines(runs, 6, NOW)
    assert len(few) == 6
    assert few[-1] == "and 8 more runs"


def test_the_bounds_of_the_time_left_have_the_time_of_the_end(stored: Path, tmp_path: Path) -> None:
    """A real drive has a time of the end for each bound, which does not move; a simulated one has virtual time."""
    value = running(stored, tmp_path / "run")
    assert value.live is not None
    live = replace(value.live, least_seconds_left=3600.0, most_seconds_left=90000.0)
    virtual = replace(value, live=live, updated=NOW.isoformat())
    assert time_left(virtual, NOW) == "1 h 00 min to 25 h 00 min of virtual time left"
    real = replace(virtual, virtual=False)
    assert time_left(real, NOW) == "1 h 00 min to 25 h 00 min left: ends Fri 27 Nov 13:00 to Sat 28 Nov 13:00"
    later = time_left(real, NOW + timedelta(minutes=30))
    assert later == "30 min 00 s to 24 h 30 min left: ends Fri 27 Nov 13:00 to Sat 28 Nov 13:00"
    assert time_left(replace(real, live=replace(live, most_seconds_left=None)), NOW) == ""


def test_ctrl_c_ends_only_the_watching(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0, and nothing in the folder changes."""

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with growing(stored, tmp_path / "run"):
        before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
        monkeypatch.setattr("time.sleep", interrupt)
        assert main(["watch", str(tmp_path / "run")]) == 0
        assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    assert "the runs continue" in capsys.readouterr().err


def test_a_run_that_cannot_be_read_does_not_hide_the_others(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of RecordError."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/journal.jsonl").write_bytes(b"nonsense\n")
    assert main(["watch", str(stored), str(tmp_path / "broken")]) == RecordError.exit_code
    printed = capsys.readouterr()
    assert "finished: " in printed.out
    assert "unreadable: " in printed.out
    assert main(["watch", str(tmp_path / "nothing")]) == RecordError.exit_code
    assert main(["watch", str(stored.parent)]) == 0
    assert "No run is in progress" in capsys.readouterr().err


def test_a_hostile_name_of_a_drive_does_not_reach_the_terminal(stored: Path) -> None:
    """Escape sequences and line feeds become U+FFFD; wide letters take two columns."""
    hostile = replace(view(stored), drive="\x1b[2J\nX" * 9)
    lines = [cut(line, 79) for line in block("run", hostile, NOW)]
    assert all(len(line) == 79 and not set(line) & {"\x1b", "\n"} for line in lines)
    assert cut("\N{CJK UNIFIED IDEOGRAPH-4E00}" * 5, 7) == "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 3 + " "
    assert list(EventLines("run").new_lines(hostile, NOW))


def test_a_second_warning_of_a_kind_has_its_line(stored: Path) -> None:
    """Warnings are compared as a whole; a known one is not printed again."""
    first = WarningView(what="shared disk", detail="process 1 used it")
    second = replace(first, detail="process 2 used it")
    events = EventLines("run")
    list(events.new_lines(replace(view(stored), warnings=(first,)), NOW))
    lines = list(events.new_lines(replace(view(stored), warnings=(first, second)), NOW))
    assert [line for line in lines if "warning" in line] == ["12:00:00 run: warning: shared disk: process 2 used it"]
