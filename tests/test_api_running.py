"""``plan``, ``run`` and ``resume`` of the library: in a thread, stopped, refused, and resumed."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

import snia_pts as pts
from snia_pts.errors import Interrupted, NotResumable, RunFolderError, TargetMissing, UsageError
from snia_pts.report.formats.isolation import isolated

OPTIONS = pts.RunOptions(
    test="iops",
    target="sim:enterprise-nvme",
    overrides=("rounds.maximum=6", "rounds.point_seconds=5", "rounds.block_sizes_kib=[1024, 64, 4]"),
    seed=4711,
    formats=(),
)


def test_a_plan_states_the_cost_and_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate has steps, seconds, bytes and deviations; the folder stays empty."""
    monkeypatch.chdir(tmp_path)
    estimate = pts.plan(OPTIONS)

    assert 0 < estimate.plan.shortest.seconds <= estimate.plan.longest.seconds
    assert estimate.plan.shortest.written_bytes > 0
    assert {deviation.what for deviation in estimate.deviations} >= {"rounds.maximum", "rounds.point_seconds"}
    assert list(tmp_path.iterdir()) == []
    assert re.fullmatch(r"TestEstimate\(IOPS on Simulated .*: .+ to .+, at most .+ written\)", repr(estimate))


@pytest.mark.long
def test_a_run_in_a_thread_is_the_stored_run(tmp_path: Path) -> None:
    """A run in another thread gives its events there, and the run that ``load`` gives."""
    runs: list[pts.Run] = []
    events: list[pts.events.Event] = []
    options = replace(OPTIONS, run_folder=tmp_path / "run", formats=("json",))
    thread = Thread(target=lambda: runs.append(pts.run(options, on_event=events.append)))
    thread.start()
    thread.join()

    (run,) = runs
    assert run.result == pts.load(tmp_path / "run").result
    assert run.result.ending == "finished"
    assert [type(event) for event in events].count(pts.events.TestFinished) == 1
    assert (run.path / "report.json").is_file()


def test_texts_and_lists_are_accepted_for_paths_and_tuples(tmp_path: Path) -> None:
    """A notebook's user may give a text for the folder, a path for the target, and lists."""
    options = pts.RunOptions(
        test="iops",
        target=Path("sim:enterprise-nvme"),  # type: ignore[arg-type]
        overrides=list(OPTIONS.overrides),  # type: ignore[arg-type]
        formats=["csv"],  # type: ignore[arg-type]
        run_folder=str(tmp_path / "run"),  # type: ignore[arg-type]
    )

    assert replace(options, formats="csv", plugins="x").plugins == ("x",)  # type: ignore[arg-type]
    assert options == replace(OPTIONS, seed=None, formats=("csv",), run_folder=tmp_path / "run")


@pytest.mark.long
def test_a_stopped_run_is_resumed(tmp_path: Path) -> None:
    """Another thread stops the run; ``resume`` continues it from its journal alone."""
    stop = Event()

    def stop_in_round_2(event: pts.events.Event) -> None:
        if isinstance(event, pts.events.RoundEvaluated) and event.evaluated_round.number == 2:
            stop.set()

    with pytest.raises(Interrupted) as stopped:
        pts.run(replace(OPTIONS, run_folder=tmp_path / "run"), on_event=stop_in_round_2, stop=stop)
    assert stopped.value.step == "Round 3"
    assert pts.load(tmp_path / "run").result.ending == "interrupted"
    run = pts.resume(tmp_path / "run")

    assert run.result.ending == "finished"
    assert len(run.result.interruptions) == 1
    with pytest.raises(NotResumable) as refused:
        pts.resume(run.path)
    assert refused.value.reason == "it is finished"


def test_a_refusal_is_a_typed_error(tmp_path: Path) -> None:
    """Fields, hint and exit code say what is wrong; nothing was written."""
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError) as full:
        pts.run(replace(OPTIONS, run_folder=tmp_path))
    with pytest.raises(TargetMissing) as missing:
        pts.run(replace(OPTIONS, target="/dev/snia-pts-missing"))
    with pytest.raises(UsageError, match=r"There is no test 'iop'\."):
        pts.plan(replace(OPTIONS, test="iop"))
    with pytest.raises(UsageError, match="unknown format 'x'"):
        pts.plan(replace(OPTIONS, formats=("x",)))
    with pytest.raises(UsageError) as contradiction:
        replace(OPTIONS, serial="S1")

    assert (full.value.path, full.value.exit_code) == (tmp_path, 5)
    assert (missing.value.path, missing.value.exit_code) == (Path("/dev/snia-pts-missing"), 6)
    assert contradiction.value.detail == "--serial is for real targets; sim:enterprise-nvme is simulated."
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_threads_make_reports_one_after_the_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two reports that are made at the same time leave the environment and the current folder as they were."""
    monkeypatch.chdir(tmp_path)
    home, ready = os.environ.get("HOME"), Barrier(2)

    def make_report() -> None:
        ready.wait()
        for _ in range(20):
            with isolated():
                assert Path(os.environ["HOME"]) == Path.cwd()

    threads = [Thread(target=make_report) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (os.environ.get("HOME"), Path.cwd()) == (home, tmp_path)
