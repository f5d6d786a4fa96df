"""Running totals that are false are refused; those of real fio, and of an overloaded host, are believed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from snia_pts.lab import fio
from tests.drives import MIB, filled
from tests.test_fio import SEED, stimulus

ASKED = stimulus(range_bytes=4 * MIB, thread_count=2, queue_depth=8, seconds=5.0)
#: The answer that is changed, counted from 0.
CHANGED = 25
Side = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The answers of real fio every tenth of a second."""
    folder = tmp_path_factory.mktemp("honest")
    target, job = filled(folder / "x.img", 4 * MIB), folder / "job.fio"
    job.write_text(fio.job_file(ASKED, str(target), "libaio", SEED), encoding="utf-8")
    environment = {**os.environ, fio.TARGET: str(target)}
    command = [*fio.command(job, sampled=True), "--status-interval=100ms"]
    text = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    answers = [json.loads(answer) for answer in fio.StatusStream().feed(text)]
    assert len(answers) > CHANGED + 10
    return answers


def read(answers: list[dict[str, Any]], text: str = "") -> list[int]:
    """Read answers in their order, the changed one after a text; return the I/Os of each."""
    running = fio.RunningTotals(ASKED)
    said = [text * (place == CHANGED) + json.dumps(answer) for place, answer in enumerate(answers)]
    found = [running.read(answer) for answer in said[:-1]]
    return [totals.write.ios for totals in (*found, running.read(said[-1], final=True))]


def changed(answers: list[dict[str, Any]], change: Callable[[Side], object]) -> list[dict[str, Any]]:
    """Return answers of which one is changed: ``change`` gets the writes."""
    copy: list[dict[str, Any]] = json.loads(json.dumps(answers))
    change(copy[CHANGED]["jobs"][0]["write"])
    return copy


def times(**by: float) -> Callable[[Side], object]:
    """Multiply numbers of the response times."""
    return lambda side: side["lat_ns"].update({name: int(side["lat_ns"][name] * factor) for name, factor in by.items()})


def side(**by: float) -> Callable[[Side], object]:
    """Multiply numbers of the writes."""
    return lambda side: side.update({name: int(side[name] * factor) for name, factor in by.items()})


FALSE: dict[str, Callable[[Side], object]] = {
    "N + 5 %": times(N=1.05),
    "N / 2": times(N=0.5),
    "maximum x 100": times(max=100),
    "maximum / 2": times(max=0.5),
    "maximum 0": times(max=0),
    "bytes x 2": side(io_bytes=2),
    "bytes / 2": side(io_bytes=0.5),
    "bytes 0": side(io_bytes=0),
    "runtime x 3": side(runtime=3),
    "runtime / 3": side(runtime=1 / 3),
}


def test_answers_of_real_fio_are_believed(honest: list[dict[str, Any]]) -> None:
    """Each has more I/Os than the one before."""
    found = read(honest)

    assert found == sorted(found)
    assert found[-1] > 100


@pytest.mark.parametrize("kind", FALSE)
def test_a_false_total_is_refused(honest: list[dict[str, Any]], kind: str) -> None:
    """One number of one answer is false."""
    with pytest.raises(fio.AnswerRejected, match="is inconsistent") as refused:
        read(changed(honest, FALSE[kind]))
    assert refused.value.blame == "host"


@pytest.mark.parametrize("factor", [1.3, 0.5])
def test_a_runtime_that_does_not_grow_with_the_wall_clock_is_refused(
    honest: list[dict[str, Any]], factor: float
) -> None:
    """All runtimes of a longer stimulus, from fio's own times twenty times as far apart, are too long or too short."""
    slow: list[dict[str, Any]] = json.loads(json.dumps(honest))
    for answer in slow:
        answer["timestamp_ms"] = 20 * (answer["timestamp_ms"] - slow[0]["timestamp_ms"])
        answer["jobs"][0]["write"]["runtime"] *= 20
    read(slow)
    for answer in slow:
        answer["jobs"][0]["write"]["runtime"] = int(answer["jobs"][0]["write"]["runtime"] * factor)
    with pytest.raises(fio.AnswerRejected, match="wall clock"):
        read(slow)


def test_an_error_is_refused(honest: list[dict[str, Any]]) -> None:
    """An answer with an error number, or with a failed I/O in a line before it, ends the stimulus at once."""
    failed: list[dict[str, Any]] = json.loads(json.dumps(honest))
    failed[CHANGED]["jobs"][0]["error"] = 5
    line = "fio: io_u error on file /dev/x: Input/output error: write offset=0, buflen=4096\n"
    for answers, text in ((failed, ""), (honest, line)):
        with pytest.raises(fio.AnswerRejected) as refused:
            read(answers, text)
        assert refused.value.blame == "device"


def test_a_wall_clock_that_was_set_changes_nothing(honest: list[dict[str, Any]]) -> None:
    """An operator or NTP may set the clock by an hour during a stimulus."""
    running = fio.RunningTotals(ASKED)
    for place, answer in enumerate(honest):
        set_seconds = 3600 if place > CHANGED else 0
        running.read(json.dumps({**answer, "timestamp_ms": answer["timestamp_ms"] + 1000 * set_seconds}), set_seconds)


def test_counters_of_different_moments_are_believed(honest: list[dict[str, Any]]) -> None:
    """fio's own thread may be suspended while it copies: bytes are then far behind N, and N behind the bins."""
    before = honest[CHANGED - 1]["jobs"][0]["write"]["lat_ns"]
    counted = sum(before["bins"].values())  # what was copied last before is there now, also in what is copied first

    def behind(writes: Side) -> None:
        writes.update(io_bytes=counted * ASKED.largest_block_bytes)
        writes["lat_ns"].update(N=counted, mean=before["mean"], max=before["max"])

    assert len(read(changed(honest, behind))) == len(honest)
