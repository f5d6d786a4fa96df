"""A run from Python, without the command line: events, a stop from another thread, and a resumed run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event as StopEvent
from threading import Thread

import pytest

from snia_pts.errors import HostFailed, Interrupted, RecordError
from snia_pts.model.run_options import RunOptions
from snia_pts.record.folder import RunFolder
from snia_pts.record.suite import SuiteFolder
from snia_pts.runner.caller import Caller
from snia_pts.runner.events import Event, FolderCreated, OutcomeRecorded, RoundEvaluated, RunStarted, TestFinished
from snia_pts.runner.options import ResumeOptions
from snia_pts.runner.resume import resume
from snia_pts.runner.run import run
from snia_pts.runner.suite import resume_suite, run_suite

OPTIONS = RunOptions(
    test="iops",
    target="sim:enterprise-nvme",
    overrides=("rounds.maximum=6", "rounds.point_seconds=5", "rounds.block_sizes_kib=[1024, 64, 4]"),
    seed=4711,
    formats=(),
)


@pytest.mark.long
def test_a_run_emits_typed_events(tmp_path: Path) -> None:
    """The events name the folder, the plan, each outcome and round, and the result, in this order."""
    events: list[Event] = []
    finished = run(replace(OPTIONS, run_folder=tmp_path / "run"), Caller(on_event=events.append))

    kinds = list(dict.fromkeys(type(event) for event in events))
    assert kinds.index(FolderCreated) < kinds.index(RunStarted) < kinds.index(OutcomeRecorded)
    rounds = [event.evaluated_round.number for event in events if isinstance(event, RoundEvaluated)]
    assert rounds == list(range(1, len(rounds) + 1))
    assert isinstance(events[-1], TestFinished)
    assert events[-1].result == finished.result
    assert finished.reports == {}


@pytest.mark.long
def test_another_thread_stops_a_run_and_it_is_resumed(tmp_path: Path) -> None:
    """A stop keeps all that was measured; the resumed run has the same figures as one without a stop."""
    stop, options = StopEvent(), replace(OPTIONS, run_folder=tmp_path / "run")

    def stop_in_round_2(event: Event) -> None:
        if isinstance(event, RoundEvaluated) and event.evaluated_round.number == 2:
            thread = Thread(target=stop.set)
            thread.start()
            thread.join()

    with pytest.raises(Interrupted):
        run(options, Caller(on_event=stop_in_round_2, stop=stop))
    resumed = resume(tmp_path / "run", ResumeOptions(), Caller()).result
    uninterrupted = run(replace(OPTIONS, run_folder=tmp_path / "other"), Caller()).result

    assert resumed.ending == "finished"
    assert len(resumed.interruptions) == 1
    assert [point.iops for measured in resumed.loops[0].rounds for point in measured.measurements][:42] == [
        point.iops for measured in uninterrupted.loops[0].rounds for point in measured.measurements
    ][:42]


def test_a_stop_before_the_first_entry_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal exists and is empty: there is nothing to resume."""

    def refuse(*_: object) -> None:
        assert (tmp_path / "run/journal.jsonl").stat().st_size == 0
        raise KeyboardInterrupt

    monkeypatch.setattr("snia_pts.runner.session.Journal.append", refuse)
    with pytest.raises(Interrupted) as stopped:
        run(replace(OPTIONS, run_folder=tmp_path / "run"), Caller())

    assert stopped.value.hint == "Nothing was tested."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("change", ["add", "cut", "remove"])
def test_a_journal_changed_by_another_process_stops_the_run(change: str, tmp_path: Path) -> None:
    """The run stops at its next entry; the message says that it is resumable only if it is."""
    folder, options = RunFolder(path=tmp_path / "run"), replace(OPTIONS, run_folder=tmp_path / "run")

    def change_in_round_2(event: Event) -> None:
        if isinstance(event, RoundEvaluated) and event.evaluated_round.number == 2:
            if change == "remove":
                folder.journal.unlink()
            else:
                content = folder.journal.read_bytes()
                folder.journal.write_bytes(content + b"garbage\n" if change == "add" else content[:2000])

    with pytest.raises(HostFailed, match=r"another process|removed during the run") as failed:
        run(options, Caller(on_event=change_in_round_2))
    assert ("continues it" in failed.value.full_hint) == (change == "add")
    if change == "add":
        assert resume(folder.path, ResumeOptions(), Caller()).result.ending == "finished"
    else:
        with pytest.raises(RecordError):
            resume(folder.path, ResumeOptions(), Caller())


@pytest.mark.long
@pytest.mark.parametrize("moved", ["run", "runs"])
def test_a_run_folder_that_is_moved_is_found_at_its_new_path(moved: str, tmp_path: Path) -> None:
    """The run stops, names the path that the folder has now, and can be resumed there."""
    folder = tmp_path / "runs" / "run"
    source, destination = (folder.parent, tmp_path / "moved") if moved == "runs" else (folder, tmp_path / "moved")
    now = destination / folder.relative_to(source)

    def move(event: Event) -> None:
        if isinstance(event, RoundEvaluated) and event.evaluated_round.number == 2:
            source.rename(destination)

    with pytest.raises(HostFailed, match="moved during the run") as failed:
        run(replace(OPTIONS, run_folder=folder), Caller(on_event=move))
    assert str(now / "evidence") in failed.value.reason
    assert f"snia-pts resume {now} continues it" in failed.value.full_hint
    assert str(folder) not in failed.value.full_hint
    assert not folder.exists()
    assert resume(now, ResumeOptions(), Caller()).result.ending == "finished"


@pytest.mark.long
def test_a_suite_that_is_moved_is_found_at_its_new_path(tmp_path: Path) -> None:
    """It stops, names the path that its folder has now, and is resumed there."""
    folder, now = tmp_path / "all", tmp_path / "moved"
    options = (replace(OPTIONS, test=test, run_folder=folder, overrides=()) for test in ("throughput", "latency"))

    def move(event: Event) -> None:
        if isinstance(event, RoundEvaluated) and event.evaluated_round.number == 2:
            folder.rename(now)

    with pytest.raises(HostFailed, match="moved during the run") as failed:
        run_suite(tuple(options), Caller(on_event=move))
    assert f"snia-pts resume {now} continues the suite" in failed.value.full_hint
    suite = SuiteFolder.existing(now)
    assert suite is not None
    assert [result.ending for result in resume_suite(suite, ResumeOptions(), Caller()).results] == ["finished"] * 2


@pytest.mark.long
def test_the_new_file_of_a_run_that_was_moved_stays(tmp_path: Path) -> None:
    """The run can be resumed, so its target is not removed."""
    folder, target = tmp_path / "run", tmp_path / "new.img"

    def move(event: Event) -> None:
        if isinstance(event, OutcomeRecorded) and folder.exists():
            folder.rename(tmp_path / "moved")

    options = replace(
        OPTIONS,
        target=str(target),
        size_bytes=8 << 20,
        run_folder=folder,
        overrides=("rounds.maximum=5", "rounds.point_seconds=0.1", "rounds.block_sizes_kib=[1024, 64, 4]"),
    )
    with pytest.raises(HostFailed, match="moved during the run") as failed:
        run(options, Caller(on_event=move))
    assert f"snia-pts resume {tmp_path / 'moved'} continues it" in failed.value.full_hint
    assert target.stat().st_size == 8 << 20
