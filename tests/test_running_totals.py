"""False running totals are refused; those of real fio, also on an overloaded host, are accepted."""

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

STIMULUS = stimulus(range_bytes=4 * MIB, thread_count=2, queue_depth=8, seconds=5.0)
#: The index of the answer that is changed.
CHANGED = 25
Side = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the answers of real fio, one for each tenth of a second."""
    folder = tmp_path_factory.mktemp("honest")
    target, job = filled(folder / "x.img", 4 * MIB), folder / "job.fio"
    job.write_text(fio.job_file(STIMULUS, str(target), "libaio", SEED), encoding="utf-8")
    environment = {**os.environ, fio.TARGET: str(target)}
    command = [*fio.command(job, sampled=True), "--status-interval=100ms"]
    text = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    answers = [json.loads(answer) for answer in fio.StatusStream().feed(text)]
    assert len(answers) > CHANGED + 10
    return answers


def read(answers: list[dict[str, Any]], text: str = "") -> list[int]:
    """Read answers in order, with ``text`` before the changed one; return the I/Os of each."""
    running = fio.RunningTotals(STIMULUS)
    texts = [text * (index == CHANGED) + json.dumps(answer) for index, answer in enumerate(answers)]
    before = [running.read(answer) for answer in texts[:-1]]
    return [totals.write.ios for totals in (*before, running.read(texts[-1], final=True))]


def changed(answers: list[dict[str, Any]], change: Callable[[Side], object]) -> list[dict[str, Any]]:
    """Return the answers with one of them changed: ``change`` gets its writes."""
    copy: list[dict[str, Any]] = json.loads(json.dumps(answers))
    change(copy[CHANGED]["jobs"][0]["write"])
    return copy


def times(**factors: float) -> Callable[[Side], object]:
    """Return a change that multiplies values of the response times."""
    return lambda side: side["lat_ns"].update(
        {name: int(side["lat_ns"][name] * factor) for name, factor in factors.items()}
    )


def side(**factors: float) -> Callable[[Side], object]:
    """Return a change that multiplies values of the writes."""
    return lambda side: side.update({name: int(side[name] * factor) for name, factor in factors.items()})


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


@pytest.mark.long
def test_answers_of_real_fio_are_accepted(honest: list[dict[str, Any]]) -> None:
    """All answers of real fio are accepted; the number of I/Os never decreases."""
    ios = read(honest)

    assert ios == sorted(ios)
    assert ios[-1] > 100


@pytest.mark.parametrize("kind", FALSE)
def test_a_false_total_is_refused(honest: list[dict[str, Any]], kind: str) -> None:
    """A single false value in one answer is refused as inconsistent, and the host is blamed."""
    with pytest.raises(fio.AnswerRejected, match="is inconsistent") as refused:
        read(changed(honest, FALSE[kind]))
    assert refused.value.blame == "host"


@pytest.mark.parametrize("factor", [1.3, 0.5])
def test_runtimes_that_disagree_with_the_wall_clock_are_refused(honest: list[dict[str, Any]], factor: float) -> None:
    """Answers stretched to twenty times their duration are accepted, but not if all runtimes are too long or short."""
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
    """An answer with an error number, or after a line about a failed I/O, is refused, and the device is blamed."""
    failed: list[dict[str, Any]] = json.loads(json.dumps(honest))
    failed[CHANGED]["jobs"][0]["error"] = 5
    line = "fio: io_u error on file /dev/x: Input/output error: write offset=0, buflen=4096\n"
    for answers, text in ((failed, ""), (honest, line)):
        with pytest.raises(fio.AnswerRejected) as refused:
            read(answers, text)
        assert refused.value.blame == "device"


def test_a_change_of_the_wall_clock_is_accepted(honest: list[dict[str, Any]]) -> None:
    """Answers are accepted if an operator or NTP sets the clock by an hour during a stimulus."""
    running = fio.RunningTotals(STIMULUS)
    for index, answer in enumerate(honest):
        set_seconds = 3600 if index > CHANGED else 0
        running.read(json.dumps({**answer, "timestamp_ms": answer["timestamp_ms"] + 1000 * set_seconds}), set_seconds)


def test_counters_read_at_different_moments_are_accepted(honest: list[dict[str, Any]]) -> None:
    """Answers are accepted if fio was suspended while copying its counters: bytes lag behind N, N behind the bins."""
    before = honest[CHANGED - 1]["jobs"][0]["write"]["lat_ns"]
    counted = sum(before["bins"].values())  # a minimum for every counter of this answer

    def behind(writes: Side) -> None:
        writes.update(io_bytes=counted * STIMULUS.largest_block_bytes)
        writes["lat_ns"].update(N=counted, mean=before["mean"], max=before["max"])

    assert len(read(changed(honest, behind))) == len(honest)
