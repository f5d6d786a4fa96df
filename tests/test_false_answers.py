"""No answer of fio's is accepted that is inconsistent, and every honest one is."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.lab import fio
from tests.drives import MIB, filled
from tests.false_answers import FALSE, FALSE_AS_REQUESTED, accepted, false_answer, side_of
from tests.test_fio import SEED, stimulus

ASKED = stimulus(range_bytes=4 * MIB, thread_count=2, queue_depth=8, seconds=0.3)
JOB = fio.job_file(ASKED, "/x.img", "libaio", SEED)


@pytest.fixture(scope="module")
def true_answer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The answer of real fio to some ten thousand writes."""
    folder = tmp_path_factory.mktemp("honest")
    target, job = filled(folder / "x.img", 4 * MIB), folder / "job.fio"
    job.write_text(JOB, encoding="utf-8")
    environment = {**os.environ, fio.TARGET: str(target)}
    subprocess.run(fio.command(job), check=True, capture_output=True, env=environment)
    return job.with_suffix(".json").read_text()


def test_the_true_answer_is_accepted(true_answer: str) -> None:
    """The false answers are made from it."""
    assert accepted(ASKED, JOB, true_answer)
    assert fio.accept(ASKED, 0, False, true_answer)[1].ios > 100


def test_there_are_many_kinds() -> None:
    """There are about sixty."""
    assert len(FALSE) + len(FALSE_AS_REQUESTED) >= 60


@pytest.mark.parametrize("kind", [*FALSE, *FALSE_AS_REQUESTED])
def test_a_false_answer_is_rejected(true_answer: str, kind: str) -> None:
    """An answer with any false number is rejected."""
    assert not accepted(ASKED, JOB, false_answer(true_answer, kind))


def test_a_failed_io_on_the_standard_error_is_found(true_answer: str) -> None:
    """A fio with samples writes messages there, and its answer elsewhere; the device failed."""
    line = "fio: io_u error on file /dev/loop0: Input/output error: write offset=0, buflen=4096\n"
    with pytest.raises(fio.AnswerRejected, match="failed I/O") as refused:
        fio.accept(ASKED, 0, False, true_answer, line)

    assert refused.value.blame == "device"


NUMBERS = ("total_ios", "io_bytes", "runtime", "iops", "bw_bytes")
TIMES = ("N", "min", "mean", "max")
AWAY = st.floats(0, 0.9) | st.floats(1.1, 1e6)


@given(st.sampled_from((*NUMBERS, *TIMES)), AWAY)
def test_any_number_that_is_a_tenth_off_is_rejected(true_answer: str, name: str, factor: float) -> None:
    """Every number of an answer can be checked against another one."""
    document = json.loads(true_answer)
    side = side_of(document)
    place: dict[str, Any] = side["lat_ns"] if name in TIMES else side
    place[name] = type(place[name])(place[name] * factor)
    with pytest.raises(fio.AnswerRejected):
        fio.accept(ASKED, 0, False, json.dumps(document))


@given(st.data())
def test_a_bin_with_another_count_or_time_is_rejected(true_answer: str, data: st.DataObject) -> None:
    """A wrong count changes the sum; a wrong time changes the mean, or is outside the range."""
    document = json.loads(true_answer)
    bins = side_of(document)["lat_ns"]["bins"]
    edge = data.draw(st.sampled_from(sorted(bins, key=int)))
    count = bins.pop(edge)
    if data.draw(st.booleans()):
        bins[edge] = count + data.draw(st.integers(-count, count).filter(bool))
    else:
        bins[str(int(edge) + 10 ** data.draw(st.integers(10, 15)))] = count
    with pytest.raises(fio.AnswerRejected):
        fio.accept(ASKED, 0, False, json.dumps(document))


@pytest.mark.parametrize("kind", ["mean x 1000", "mean / 1000", "mean of nothing", "bins / 1000", "bins x 1000"])
def test_false_running_totals_are_rejected(true_answer: str, kind: str) -> None:
    """Counters of one moment may differ by a few I/Os; a mean outside all bins is false."""
    assert fio.read_totals(true_answer)[0].write.ios > 100
    times = json.loads(true_answer[true_answer.index("{") :])["jobs"][0]["write"]["lat_ns"]
    if times["mean"] * 1000 < times["max"] * 1.01:
        pytest.skip("one of the writes took a thousand times the average here")
    with pytest.raises(fio.AnswerRejected, match="is inconsistent"):
        fio.read_totals(false_answer(true_answer, kind))


def test_sync_times_are_checked_in_the_same_way() -> None:
    """The times of fdatasync have a count, a range and bins, too."""
    times = {"N": 3, "min": 1000, "max": 9000, "mean": 5000.0, "bins": {"1004": 1, "5024": 1, "9024": 1}}
    no_midpoint = {"bins": {"1004": 1, "5000": 1, "9024": 1}}
    for changes in (
        {"mean": 9001.0},
        {"mean": 500.0},
        {"min": 2000},
        {"max": 20_000},
        {"bins": {"1004": 3}},
        no_midpoint,
    ):
        document = {"jobs": [{"sync": {"lat_ns": {**times, **changes}}}]}
        with pytest.raises(fio.AnswerRejected, match="is inconsistent"):
            fio.sync_times(json.dumps(document))
    assert fio.sync_times(json.dumps({"jobs": [{"sync": {"lat_ns": times}}]})) is not None
