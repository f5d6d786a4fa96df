"""Following a run by its journal: the events of a resumed run, incomplete lines, and journals that were altered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

import snia_pts as pts
from snia_pts.errors import Interrupted, RecordError
from snia_pts.record.folder import RunFolder
from snia_pts.record.follower import follow_entries
from tests.test_api_running import OPTIONS

#: The events that a journal gives.
STORED = (pts.events.StepStarted, pts.events.OutcomeRecorded, pts.events.RoundEvaluated, pts.events.TestFinished)


def stopped_after(outcomes: int, folder: Path) -> pts.RunOptions:
    """Stop a run after a number of outcomes; return its options."""
    stop, seen, options = Event(), list[object](), replace(OPTIONS, run_folder=folder)

    def count(event: pts.events.Event) -> None:
        if isinstance(event, pts.events.OutcomeRecorded):
            seen.append(event)
        if len(seen) == outcomes:
            stop.set()

    with pytest.raises(Interrupted):
        pts.run(options, on_event=count, stop=stop)
    return options


@pytest.mark.long_but_first
@pytest.mark.parametrize("policy", ["rule", "purge", "continue"])
@pytest.mark.parametrize("outcomes", [1, 30, 55])
def test_a_resumed_run_has_the_events_that_it_had_when_it_ran(policy: str, outcomes: int, tmp_path: Path) -> None:
    """After RunResumed, steps, outcomes and windows are those that the run itself emitted, whatever was discarded."""
    stopped_after(outcomes, tmp_path / "run")
    before = list(pts.follow(tmp_path / "run"))
    direct: list[pts.events.Event] = []
    pts.resume(tmp_path / "run", pts.ResumeOptions(policy=policy), direct.append)  # type: ignore[arg-type]
    followed = list(pts.follow(tmp_path / "run"))
    (position,) = (number for number, event in enumerate(followed) if isinstance(event, pts.events.RunResumed))
    start = next(number for number, event in enumerate(direct) if isinstance(event, pts.events.RunResumed))

    assert followed[:position] == before
    assert followed[position + 1 :] == [event for event in direct[start:] if isinstance(event, STORED)]


@pytest.mark.long
def test_an_incomplete_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    """While the run writes a line, its start is not an entry."""
    pts.run(replace(OPTIONS, run_folder=tmp_path / "run"))
    whole = RunFolder(path=tmp_path / "run").journal.read_bytes()
    journal = tmp_path / "journal"
    lengths = iter([len(whole) // 3, len(whole) // 2, len(whole) - 1])
    journal.write_bytes(b"")

    def is_writing() -> bool:
        length = next(lengths, None)
        journal.write_bytes(whole[:length])
        return length is not None

    assert len(list(follow_entries(journal, is_writing))) == whole.count(b"\n")


@pytest.mark.long
def test_an_altered_journal_is_a_record_error(tmp_path: Path) -> None:
    """A damaged line, another first entry, a folder and a missing file are errors; a torn last line is not."""
    pts.run(replace(OPTIONS, run_folder=tmp_path / "run"))
    journal = RunFolder(path=tmp_path / "run").journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    assert not isinstance(list(pts.follow(tmp_path / "run"))[-1], pts.events.TestFinished)
    journal.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"kind"', b'"king"')]))
    with pytest.raises(RecordError, match="line 4: it is damaged"):
        list(pts.follow(tmp_path / "run"))
    journal.write_bytes(b"".join(lines[1:]))
    with pytest.raises(RecordError, match="line 1: it is damaged"):
        list(pts.follow(tmp_path / "run"))
    with pytest.raises(RecordError, match="no such folder"):
        list(pts.follow(tmp_path / "nothing"))
