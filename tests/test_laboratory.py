"""Steps on a held target: outcomes in order, failures with their place and blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import DeviceFailed, HostFailed, PurgeFailed, ToolMissing
from snia_pts.lab.cache import WriteCache
from snia_pts.lab.engine import FioEngine, Guard, allow
from snia_pts.lab.fio import Refused
from snia_pts.lab.laboratory import Laboratory, target_deviations
from snia_pts.lab.purge import METHODS, Method, Offer, Purger
from snia_pts.lab.purge.method import anything
from snia_pts.lab.safety import Target, hold
from snia_pts.lab.stage import Stage
from snia_pts.measurement import Idled, Measurement, Purged, Sample
from snia_pts.spec import SPEC_TYPES, Spec
from snia_pts.specfile import read_specification, versions
from snia_pts.steps import Idle, Purge, Round, Stimulus, Stretch
from tests import samples, strategies
from tests.drives import MIB, filled, loop_device

SPEC = read_specification("iops", "2.0.2", "enterprise").spec
SETUP = SPEC.setup


def stimulus(block_size_bytes: int, **changes: Any) -> Stimulus:
    """Return a stimulus of 50 ms."""
    facts: dict[str, Any] = {
        "access": "RND", "read_percent": 0, "block_size_bytes": block_size_bytes, "thread_count": 1, "queue_depth": 1,
        "range_offset_bytes": 0, "range_bytes": 4 * MIB, "seconds": None if "passes" in changes else 0.05,
    }  # fmt: skip
    return Stimulus(**{**facts, **changes})


ROUND = Round(number=3, stimuli=(stimulus(4096), stimulus(8192), stimulus(16384)))


class Scripted:
    """An engine that answers until it comes to something to raise or to do."""

    name, version, io_engine = "scripted", "1", "none"

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def measure(self, stimuli: Sequence[Stimulus], before: Guard = allow) -> Iterator[Measurement]:
        """Answer each stimulus by the script."""
        for each, answer in zip(stimuli, self.answers, strict=False):
            before(each)
            self.asked.append(each.label)
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                answer()
            yield strategies.measurement(each)

    def stretch(self, step: Stretch) -> Iterator[Sample | Measurement]:
        """Give a sample for each answer of the script but the last, and the whole for that."""
        try:
            for number, answer in enumerate(self.answers[:-1], start=1):
                if isinstance(answer, BaseException):
                    raise answer
                if answer is not None:
                    answer()
                yield strategies.sample(number)
            yield from self.measure(step.stimuli)
        finally:
            self.asked.append("closed")

    def idle(self, seconds: float) -> Idled:
        """Be idle for no time."""
        return Idled(started="", seconds=seconds)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A held file."""
    with hold(tmp_path / "x.img", size_bytes=4 * MIB, overwrite=False) as held:
        yield held


def laboratory(target: Target, engine: Any, evidence: Path, method: str = "punch-hole") -> Laboratory:
    """Return a laboratory on a held target."""
    cache = WriteCache(target.dut, None, "disabled")
    purger, stage = Purger(wanted=method), Stage(target.dut.path, 0)
    return Laboratory(target, engine, purger=purger, cache=cache, stage=stage, seed=1, evidence=evidence)


def test_outcomes_come_one_by_one(target: Target, tmp_path: Path) -> None:
    """Each outcome is there before the next stimulus is begun, in the order asked."""
    engine = Scripted(None, None, None)
    seen = []
    for outcome in laboratory(target, engine, tmp_path).perform(ROUND):
        assert isinstance(outcome, Measurement)
        seen.append(outcome.stimulus)
        assert len(engine.asked) == len(seen)

    assert tuple(seen) == ROUND.stimuli


def test_a_purge_gives_its_proof(target: Target, tmp_path: Path) -> None:
    """A purge step is done by the chosen method, and its only outcome is the proof."""
    (outcome,) = laboratory(target, Scripted(), tmp_path).perform(Purge())

    assert isinstance(outcome, Purged)
    assert (outcome.method, outcome.samples) == ("punch-hole", 64)


STRETCH = Stretch(phase="stimulus", stimulus=stimulus(4096, seconds=1.0), sample_seconds=0.25)


def test_a_stretch_gives_its_samples_and_the_whole(target: Target, tmp_path: Path) -> None:
    """Samples come one by one, then the whole; fewer samples than there may be are all there are."""
    for count in (2, 4):
        outcomes = list(laboratory(target, Scripted(*[None] * (count + 1)), tmp_path).perform(STRETCH))

        assert [type(outcome) for outcome in outcomes] == [*[Sample] * count, Measurement]


def test_a_stretch_that_fails_keeps_its_samples(target: Target, tmp_path: Path) -> None:
    """What is not believed in the middle of a stretch ends it after the samples before, with its place named."""
    seen: list[object] = []
    with pytest.raises(DeviceFailed, match=r"step stimulus RND 4 KiB 0/100 \(RND 4 KiB 0/100\): it stalled"):
        seen.extend(
            laboratory(target, Scripted(None, Refused("device", "it stalled"), None), tmp_path).perform(STRETCH)
        )

    assert len(seen) == 1


def test_whoever_stops_a_stretch_ends_its_engine(target: Target, tmp_path: Path) -> None:
    """Closing a step ends what still runs for it, at once."""
    engine = Scripted(None, None, None)
    outcomes = laboratory(target, engine, tmp_path).perform(STRETCH)
    next(outcomes)
    assert engine.asked == []
    outcomes.close()

    assert engine.asked == ["closed"]


def test_a_target_that_is_gone_ends_a_stretch(target: Target, tmp_path: Path) -> None:
    """Where the name leads elsewhere in the middle of a stretch, it is ended with the next sample."""
    engine = Scripted((tmp_path / "x.img").unlink, None, None)
    with pytest.raises(HostFailed, match="no longer there") as failed:
        list(laboratory(target, engine, tmp_path).perform(STRETCH))

    assert engine.asked == ["closed"]  # also while the failure, and with it what led to it, is still looked at
    assert failed.value.exit_code == 13


def test_idle_is_the_engines(target: Target, tmp_path: Path) -> None:
    """An idle step gives how long the device was left alone."""
    assert list(laboratory(target, Scripted(), tmp_path).perform(Idle(seconds=5))) == [Idled(started="", seconds=5)]


def test_each_purge_has_its_own_evidence(target: Target, tmp_path: Path) -> None:
    """A later purge keeps the evidence of the first one, and is named by the stimulus that follows it."""
    kept = [(tmp_path / f"{number:05d}-x.fio").touch for number in (1, 2, 3)]
    lab = laboratory(target, Scripted(*kept), tmp_path)
    found = [next(iter(lab.perform(Purge())))]
    assert len(list(lab.perform(ROUND))) == 3
    found += lab.perform(Purge(part="128 KiB"))
    names = [each.evidence for each in found if isinstance(each, Purged)]

    assert names == ["00000-purge", "00004-purge"]
    assert all((tmp_path / f"{name}.process.json").exists() for name in names)


@pytest.mark.parametrize(
    ("blame", "failure", "code"), [("device", DeviceFailed, 12), ("host", HostFailed, 13)]
)  # fmt: skip
def test_a_refusal_is_a_failure_with_its_place(
    target: Target, tmp_path: Path, blame: Any, failure: type[Exception], code: int
) -> None:
    """What is not believed ends the step with step and stimulus named, after the outcomes before it."""
    engine = Scripted(None, Refused(blame, "it stalled"), None)
    seen: list[object] = []
    with pytest.raises(failure) as failed:
        seen.extend(laboratory(target, engine, tmp_path).perform(ROUND))

    assert len(seen) == 1
    assert "failed in step Round 3 (RND 8 KiB 0/100): it stalled" in str(failed.value)
    assert getattr(failed.value, "exit_code", None) == code
    assert engine.asked == ["RND 4 KiB 0/100", "RND 8 KiB 0/100"]


@pytest.mark.parametrize("by", ["another file", "nothing"])
def test_a_target_that_changes_within_a_round_ends_it(target: Target, tmp_path: Path, by: str) -> None:
    """The next stimulus is not begun on something else than what is held, though the round was begun on it."""

    def swap() -> None:
        (tmp_path / "x.img").rename(tmp_path / "moved.img")
        if by == "another file":
            filled(tmp_path / "x.img")

    engine = Scripted(None, swap, None)
    with pytest.raises(HostFailed, match=r"Round 3 \(RND 16 KiB 0/100\)") as failed:
        list(laboratory(target, engine, tmp_path).perform(ROUND))

    assert engine.asked == ["RND 4 KiB 0/100", "RND 8 KiB 0/100"]
    assert "Nothing was written" not in str(failed.value)


def test_real_fio_does_not_write_to_what_took_the_name(target: Target, tmp_path: Path) -> None:
    """A file of somebody's that takes the target's name within a round keeps every byte."""
    (tmp_path / "evidence").mkdir()
    engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
    outcomes = laboratory(target, engine, tmp_path).perform(ROUND)
    next(outcomes)
    (tmp_path / "x.img").unlink()
    precious = filled(tmp_path / "x.img", 4 * MIB).read_bytes()
    with pytest.raises(HostFailed):
        next(outcomes)

    assert (tmp_path / "x.img").read_bytes() == precious


def test_a_purge_is_not_begun_on_something_else(target: Target, tmp_path: Path) -> None:
    """A purge goes by name too: it is refused where the name leads elsewhere."""
    (tmp_path / "x.img").unlink()
    precious = filled(tmp_path / "x.img", 4 * MIB).read_bytes()
    with pytest.raises(HostFailed, match=r"step Purge \(punch-hole\)"):
        list(laboratory(target, Scripted(), tmp_path).perform(Purge()))

    assert (tmp_path / "x.img").read_bytes() == precious


def test_a_failed_purge_stays_one(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The purge's own failure goes on upwards as it is."""
    lie = Method(name="lie", title="lie", standard=True, fits=anything, ask=lambda tools: Offer(command=("true",)))
    monkeypatch.setitem(METHODS, "lie", lie)
    with pytest.raises(PurgeFailed, match="lie"):
        list(laboratory(target, Scripted(), tmp_path, "lie").perform(Purge()))


def test_evidence_that_cannot_be_written_is_the_hosts_failure(target: Target, tmp_path: Path) -> None:
    """A run folder that is full or gone in the middle of a run ends it with a sentence, not a traceback."""
    (tmp_path / "evidence").mkdir()
    engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
    outcomes = laboratory(target, engine, tmp_path).perform(ROUND)
    next(outcomes)
    (tmp_path / "evidence").rename(tmp_path / "away")
    with pytest.raises(HostFailed, match=r"Round 3 \(RND (8|16) KiB 0/100\): .*(No such file|left no result)"):
        list(outcomes)


def test_a_host_without_memory_has_failed(target: Target, tmp_path: Path) -> None:
    """Where the suite itself gets no memory any more, the run ends with a sentence, not a traceback."""
    with pytest.raises(HostFailed, match="out of memory"):
        list(laboratory(target, Scripted(MemoryError()), tmp_path).perform(ROUND))


@pytest.mark.parametrize(
    "stopped", [KeyboardInterrupt(), RuntimeError("a bug"), ToolMissing(program="fio", package="fio")]
)
def test_what_is_no_failure_of_the_laboratory_goes_on(target: Target, tmp_path: Path, stopped: BaseException) -> None:
    """Ctrl-C, mistakes of the suite, and errors with a sentence of their own are not blamed on device or host."""
    with pytest.raises(type(stopped)):
        list(laboratory(target, Scripted(stopped), tmp_path).perform(ROUND))


@pytest.mark.root
def test_what_waits_in_the_page_cache_keeps_nobody_from_a_purge(tmp_path: Path) -> None:
    """After writes through the page cache, as profiles do, a drive that is held is discarded all the same."""
    (tmp_path / "evidence").mkdir()
    with (
        loop_device(filled(tmp_path / "disk.img", 64 * MIB)) as device,
        hold(device, size_bytes=None, overwrite=False) as target,
    ):
        lab = laboratory(target, Scripted(), tmp_path / "evidence", "blkdiscard")
        with device.open("r+b") as file:
            file.write(b"x" * 48 * MIB)
        (proof,) = lab.perform(Purge())

    assert isinstance(proof, Purged)
    assert (proof.method, proof.survivors) == ("blkdiscard", 0)


@pytest.mark.root
def test_a_whole_line_on_a_loop_device(tmp_path: Path) -> None:
    """Purge, preconditioning and a round on a real block device with real fio."""
    (tmp_path / "evidence").mkdir()
    wipc = stimulus(131072, access="SEQ", passes=2)
    with (
        loop_device(filled(tmp_path / "disk.img", 4 * MIB)) as device,
        hold(device, size_bytes=None, overwrite=False) as target,
    ):
        engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
        lab = laboratory(target, engine, tmp_path / "evidence", "blkdiscard")
        (proof,) = lab.perform(Purge())
        (filling,) = lab.perform(Stretch(phase="WIPC", stimulus=wipc))
        points = list(lab.perform(ROUND))
        *samples, whole = lab.perform(STRETCH)
        (idled,) = lab.perform(Idle(seconds=0.5))
        (again,) = lab.perform(Purge(part="again"))

    assert isinstance(proof, Purged)
    assert (proof.method, proof.survivors) == ("blkdiscard", 0)
    assert isinstance(filling, Measurement)
    assert filling.write.transferred_bytes == 8 * MIB
    assert [point.stimulus for point in points if isinstance(point, Measurement)] == list(ROUND.stimuli)
    assert isinstance(whole, Measurement)
    assert sum(sample.write_ios for sample in samples if isinstance(sample, Sample)) == whole.write.ios
    assert isinstance(idled, Idled)
    assert isinstance(again, Purged)
    assert again.evidence == "00006-purge"


# -- what differs from the standard -----------------------------------------------------------------------------------


def deviations(spec: Spec = SPEC, **changes: Any) -> dict[str, str]:
    """Return the deviations of a target, by what differs."""
    wanted = {"write_cache": spec.setup.write_cache, **changes}
    found = target_deviations(samples.dut(**wanted), spec)
    assert all(deviation.clause and deviation.standard for deviation in found)
    return {deviation.what: deviation.actual for deviation in found}


SPECS = {
    f"{test} {pts} {test_class}": read_specification(test, pts, test_class).spec
    for test in SPEC_TYPES
    for pts in versions(test)
    for test_class in strategies.CLASSES
}
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@every_spec
def test_a_raw_drive_as_asked_has_none(spec: Spec) -> None:
    """A solid state drive with the write cache of its class is what the standard tests."""
    assert deviations(spec) == {}


@every_spec
def test_each_difference_is_told(spec: Spec) -> None:
    """A file, a loop device, another write cache, an unknown one, and rotating media are deviations of every test."""
    other = "enabled" if spec.setup.write_cache == "disabled" else "disabled"

    assert deviations(spec, kind="file") == {"device under test": "a file through a file system"}
    assert deviations(spec, kind="loop device", model="loop device on /x") == {
        "device under test": "loop device on /x"
    }  # fmt: skip
    assert deviations(spec, write_cache=other)["write cache"].startswith(other)
    assert deviations(spec, write_cache="unknown")["write cache"].startswith("unknown")
    assert list(deviations(spec, rotational=True)) == ["media"]
    assert deviations(spec, rotational=None) == {}
    assert list(deviations(spec, kind="file", write_cache="unknown", rotational=True)) == [
        "device under test", "write cache", "media",
    ]  # fmt: skip


LOST = {
    "iops": ("0.5 KiB", "left out: sectors of 4096 bytes cannot hold them"),
    "latency": ("0.5 KiB", "left out: sectors of 4096 bytes cannot hold them"),
    "composite": (
        "0.5 KiB 4 %, 1 KiB 1 %, 1.5 KiB 1 %, 2 KiB 1 %, 2.5 KiB 1 %, 3 KiB 1 %, 3.5 KiB 1 %",
        "left out: sectors of 4096 bytes cannot hold them; the shares of the others were scaled to 100 %",
    ),
}


@every_spec
def test_sizes_that_the_sectors_cannot_hold_are_named(spec: Spec) -> None:
    """On 4096-byte sectors the lost sizes are told, of a mix with their shares; nothing where all can run."""
    found = target_deviations(samples.dut(sector_bytes=4096, write_cache=spec.setup.write_cache), spec)
    lost = {deviation.what: (deviation.standard, deviation.actual) for deviation in found}

    assert lost == ({"block sizes": LOST[spec.test]} if spec.test in LOST else {})


@pytest.mark.parametrize(
    ("test", "stimulus", "what"),
    [
        ("wsat", "vod", ["stop at steady state"]),
        ("wsat", "meta-data", ["stop at steady state"]),
        ("wsat", "oltp", []),
        ("dirth", "oltp", []),
    ],
)
def test_what_a_sequential_pattern_differs_in_is_told(test: str, stimulus: str, what: list[str]) -> None:
    """A mixed sequential stream that is not broken off to decide is a deviation; a random pattern has none."""
    spec = read_specification(test, "2.0.2", "enterprise", overrides=[("stimulus.name", stimulus)]).spec

    assert [each.what for each in target_deviations(samples.dut(), spec)] == what
