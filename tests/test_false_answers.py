"""No answer of fio's is believed that is inconsistent, and every honest one is."""

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
from tests.false_answers import FALSE, FALSE_AS_ASKED, believed, false_answer, side_of
from tests.test_fio import SEED, stimulus

ASKED = stimulus(range_bytes=4 * MIB, thread_count=2, queue_depth=8, seconds=0.3)
JOB = fio.job_file(ASKED, "/x.img", "libaio", SEED)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What real fio says of some ten thousand writes."""
    folder = tmp_path_factory.mktemp("honest")
    target, job = filled(folder / "x.img", 4 * MIB), folder / "job.fio"
    job.write_text(JOB, encoding="utf-8")
    environment = {**os.environ, fio.TARGET: str(target)}
    subprocess.run(fio.command(job), check=True, capture_output=True, env=environment)
    return job.with_suffix(".json").read_text()


def test_the_honest_answer_is_believed(honest: str) -> None:
    """What the false ones are made of."""
    assert believed(ASKED, JOB, honest)
    assert fio.accept(ASKED, 0, False, honest)[1].ios > 100


def test_there_are_many_kinds() -> None:
    """Some sixty."""
    assert len(FALSE) + len(FALSE_AS_ASKED) >= 60


@pytest.mark.parametrize("kind", [*FALSE, *FALSE_AS_ASKED])
def test_a_false_answer_is_refused(honest: str, kind: str) -> None:
    """Whatever number is false, the answer is not believed."""
    assert not believed(ASKED, JOB, false_answer(honest, kind))


def test_a_failed_io_on_the_standard_error_is_found(honest: str) -> None:
    """A sampling fio has its lines of text there, and its answer elsewhere; it is the device's failure."""
    line = "fio: io_u error on file /dev/loop0: Input/output error: write offset=0, buflen=4096\n"
    with pytest.raises(fio.AnswerRejected, match="failed I/O") as refused:
        fio.accept(ASKED, 0, False, honest, line)

    assert refused.value.blame == "device"


NUMBERS = ("total_ios", "io_bytes", "runtime", "iops", "bw_bytes")
TIMES = ("N", "min", "mean", "max")
AWAY = st.floats(0, 0.9) | st.floats(1.1, 1e6)


@given(st.sampled_from((*NUMBERS, *TIMES)), AWAY)
def test_any_number_that_is_a_tenth_off_is_refused(honest: str, name: str, factor: float) -> None:
    """There is no number of an answer that nothing else in it tells as well."""
    document = json.loads(honest)
    side = side_of(document)
    place: dict[str, Any] = side["lat_ns"] if name in TIMES else side
    place[name] = type(place[name])(place[name] * factor)
    with pytest.raises(fio.AnswerRejected):
        fio.accept(ASKED, 0, False, json.dumps(document))


@given(st.data())
def test_a_bin_with_another_count_or_place_is_refused(honest: str, data: st.DataObject) -> None:
    """A count is missed in the sum; a time that was moved far is in the mean, or out of the range."""
    document = json.loads(honest)
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
def test_false_running_totals_are_refused(honest: str, kind: str) -> None:
    """Counters of a moment may differ by a few I/Os; a mean that no bin holds is false."""
    assert fio.read_totals(honest)[0].write.ios > 100
    times = json.loads(honest[honest.index("{") :])["jobs"][0]["write"]["lat_ns"]
    if times["mean"] * 1000 < times["max"] * 1.01:
        pytest.skip("one of the writes took a thousand times the average here")
    with pytest.raises(fio.AnswerRejected, match="is inconsistent"):
        fio.read_totals(false_answer(honest, kind))


def test_the_sync_times_are_held_to_the_same() -> None:
    """Those of fdatasync have a count, a range and bins, too."""
    times = {"N": 3, "min": 998, "max": 9000, "mean": 5000.0, "bins": {"1000": 1, "5000": 1, "9000": 1}}
    for changes in ({"mean": 9001.0}, {"mean": 500.0}, {"min": 2000}, {"max": 20_000}, {"bins": {"1000": 3}}):
        document = {"jobs": [{"sync": {"lat_ns": {**times, **changes}}}]}
        with pytest.raises(fio.AnswerRejected, match="is inconsistent"):
            fio.sync_times(json.dumps(document))
    assert fio.sync_times(json.dumps({"jobs": [{"sync": {"lat_ns": times}}]})) is not None
