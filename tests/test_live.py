"""The live values of a run: they are those of the stored result, and grow with the journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import snia_pts as pts
from snia_pts.analysis.steady_state import SteadyState
from snia_pts.errors import RecordError
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.tracked_series import evaluated_series
from snia_pts.runner.live import LiveRun
from tests.simulated_runs import FEW, BriefRun
from tests.test_api_running import OPTIONS


@pytest.fixture(name="lines", scope="module")
def _lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of the journal of a finished run."""
    folder = RunFolder(path=tmp_path_factory.mktemp("runs") / "run")
    pts.run(replace(OPTIONS, run_folder=folder.path))
    return folder.journal.read_bytes().splitlines(keepends=True)


def figures_of(live: LiveRun) -> list[tuple[object, ...]]:
    """Return the tracked variables of a live run as rows: variable, rounds, values, and the determination."""
    state = live.state
    assert state is not None
    return [
        (
            item.variable,
            item.rounds,
            item.values,
            item.determination
            and (
                item.determination.first_round,
                item.determination.average,
                item.determination.slope,
                item.determination.data_excursion_percent,
                item.determination.slope_excursion_percent,
            ),
        )
        for item in state.variables
    ]


def figures_of_state(state: SteadyState) -> tuple[float, ...]:
    """Return the figures of a determination."""
    return (
        state.first_round,
        state.average,
        state.slope,
        state.data_excursion_percent,
        state.slope_excursion_percent,
    )


def figures_of_result(folder: RunFolder) -> list[tuple[object, ...]]:
    """Return the same rows from the stored result."""
    return [
        (
            series.label(tracked),
            tuple(measured.number for measured in series.rounds),
            tuple(measured.value(tracked) for measured in series.rounds),
            figures_of_state(dict(series.window.determinations)[tracked]) if series.window else None,
        )
        for series in evaluated_series(assess(folder))
        for tracked in series.rule.tracked
    ]


@pytest.mark.long_but_first
@pytest.mark.parametrize("brief", FEW, ids=lambda brief: f"{brief.test}-{brief.fate}")
def test_the_live_values_are_those_of_the_result(brief: BriefRun, tmp_path: Path) -> None:
    """Every tracked variable has the rounds, values and determination that the stored result has."""
    brief.make(tmp_path / "run")
    folder = RunFolder(path=tmp_path / "run")
    live = LiveRun(folder)

    assert live.read()
    assert figures_of(live) == figures_of_result(folder)
    assert (live.end is not None and live.end.ending == "finished") == (brief.fate != "stopped")
    if brief.fate == "finished":
        series = list(evaluated_series(assess(folder)))
        assert live.state is not None
        assert live.state.round_number == (series[-1].rounds[-1].number if series else None)
    assert not live.read()


def test_the_values_grow_with_the_journal(lines: list[bytes], tmp_path: Path) -> None:
    """After each line, the values are those of a reader that starts there; an incomplete line is not read."""
    folder = RunFolder(path=tmp_path / "growing")
    folder.path.mkdir()
    folder.journal.write_bytes(lines[0])
    live, rounds, left = LiveRun(folder), list[int](), list[float | None]()
    live.read()
    assert live.state is None
    for line in lines[1:]:
        with folder.journal.open("ab") as journal:
            journal.write(line[:-1])
            journal.flush()
            assert not live.read()
            journal.write(b"\n")
        assert live.read()
        state = live.state
        assert state is not None
        rounds.append(len(state.variables[0].rounds) if state.variables else 0)
        left.append(state.most_seconds_left)
    fresh = LiveRun(folder)
    fresh.read()

    assert fresh.state == live.state
    assert sorted(set(rounds), key=rounds.index) == list(range(rounds[-1] + 1))  # one round after the other
    known = [seconds for seconds in left if seconds is not None]
    assert known == sorted(known, reverse=True)
    # Six rounds of 21 points of 5 s, before the first of them; the shortest test has five.
    first = next(number for number, line in enumerate(lines[1:]) if b'"kind":"round"' in line)
    assert left[first] == pytest.approx(6 * 21 * 5)


def test_a_damaged_journal_is_a_record_error(lines: list[bytes], tmp_path: Path) -> None:
    """A line whose checksum is wrong is not shown."""
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join([*lines[:5], lines[5].replace(b'"kind"', b'"king"'), *lines[6:]]))

    with pytest.raises(RecordError, match="line 6: it is damaged"):
        LiveRun(RunFolder(path=tmp_path)).read()
