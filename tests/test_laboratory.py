"""The laboratory performs steps on a claimed target: outcomes in order, and failures with place and cause."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import DeviceFailed, HostFailed, PurgeFailed, ToolMissing
from snia_pts.lab.device.target_claim import Target, claim_target
from snia_pts.lab.engine import Guard, allow
from snia_pts.lab.fio import AnswerRejected
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.host.configurator import HostConfigurator
from snia_pts.lab.laboratory import Laboratory
from snia_pts.lab.process import program as process
from snia_pts.lab.purge import METHODS, Method, PurgeCapability, Purger
from snia_pts.lab.purge.method import any_device
from snia_pts.lab.settings.write_cache import WriteCache
from snia_pts.model.attempt import RejectedAttempt
from snia_pts.model.measurement import IdleOutcome, Measurement, PurgeOutcome, Sample
from snia_pts.model.steps import ContinuousStimulus, Idle, Phase, Purge, Round, Stimulus
from snia_pts.record.entries import OutcomeEntry, adapter
from snia_pts.results.target_deviations import target_deviations
from snia_pts.spec import SPEC_TYPES, Spec
from snia_pts.spec.reader import read_specification, versions
from tests import samples, strategies
from tests.drives import MIB, filled, loop_device

SPEC = read_specification("iops", "2.0.2", "enterprise").spec
SETUP = SPEC.setup


def stimulus(block_size_bytes: int, **changes: Any) -> Stimulus:
    """Return a stimulus of 50 ms."""
    facts: dict[str, Any] = {
        "access": "RND",
        "read_percent": 0,
        "block_size_bytes": block_size_bytes,
        "thread_count": 1,
        "queue_depth": 1,
        "range_offset_bytes": 0,
        "range_bytes": 4 * MIB,
        "seconds": None if "passes" in changes else 0.05,
    }
    return Stimulus(**{**facts, **changes})


ROUND = Round(number=3, stimuli=(stimulus(4096), stimulus(8192), stimulus(16384)))


class Scripted:
    """An engine that answers by a script, whose entries may be errors to raise or functions to call."""

    name, version, io_engine = "scripted", "1", "none"

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.stimuli: list[str] = []
        self.allowed: list[bool] = []

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Answer each stimulus according to the script."""
        self.allowed.append(allow_uncounted)
        for item, answer in zip(stimuli, self.answers, strict=False):
            before(item)
            self.stimuli.append(item.label)
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                answer()
            yield strategies.measurement(item)

    def measure_continuous(self, step: ContinuousStimulus) -> Iterator[Sample | Measurement]:
        """Yield a sample for each answer of the script but the last, and the total for that one."""
        try:
            for number, answer in enumerate(self.answers[:-1], start=1):
                if isinstance(answer, BaseException):
                    raise answer
                if answer is not None:
                    answer()
                yield strategies.sample(number)
            yield from self.measure(step.stimuli)
        finally:
            self.stimuli.append("closed")

    def idle(self, seconds: float) -> IdleOutcome:
        """Return an idle time of zero seconds."""
        return IdleOutcome(started="", seconds=seconds)

    def count_idle_io(self) -> None:
        self.stimuli.append("count idle I/O")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Return a claimed file."""
    with claim_target(tmp_path / "x.img", size_bytes=4 * MIB, overwrite=False) as claim:
        yield claim


def laboratory(target: Target, engine: Any, evidence: Path, method: str = "punch-hole") -> Laboratory:
    """Return a laboratory on a claimed target."""
    cache = WriteCache(target.dut, None, "disabled")
    purger, stage = Purger(requested=method), HostConfigurator(target.dut.path, 0)
    return Laboratory(target, engine, purger=purger, cache=cache, configurator=stage, seed=1, evidence=evidence)


def test_outcomes_are_returned_one_by_one(target: Target, tmp_path: Path) -> None:
    """Each outcome is returned before the next stimulus starts, in the requested order."""
    engine = Scripted(None, None, None)
    seen = []
    for outcome in laboratory(target, engine, tmp_path).perform(ROUND):
        assert isinstance(outcome, Measurement)
        seen.append(outcome.stimulus)
        assert len(engine.stimuli) == len(seen)

    assert tuple(seen) == ROUND.stimuli


class Forgetful(Scripted):
    """An engine that starts its stimuli again with each call, and loses count of I/Os at given starts (from 1)."""

    def __init__(self, *lost: int, repeatable: bool = True) -> None:
        super().__init__()
        self._lost, self._repeatable, self.starts = lost, repeatable, 0

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Answer each stimulus, except for the starts that lose count."""
        self.allowed.append(allow_uncounted)
        for item in stimuli:
            before(item)
            self.starts += 1
            self.stimuli.append(item.label)
            if self.starts in self._lost:
                refusal = AnswerRejected("host", "count lost", repeatable=self._repeatable)
                name = f"evidence-{self.starts}"
                refusal.attempt = RejectedAttempt(reason="lost", seconds=2.0, evidence=name, evidence_sha256="0" * 64)
                raise refusal
            yield strategies.measurement(item)


@pytest.mark.parametrize(
    ("lost", "stimuli", "rejected"),
    [
        ((2,), (0, 1, 1, 2), [0, 1, 0]),
        ((1, 2), (0, 0, 0, 1, 2), [2, 0, 0]),
        ((1, 4), (0, 0, 1, 2, 2), [1, 0, 1]),
    ],
)
def test_a_point_that_lost_count_is_measured_again(
    target: Target, tmp_path: Path, lost: tuple[int, ...], stimuli: tuple[int, ...], rejected: list[int]
) -> None:
    """A point is measured again at most twice, and the points after it in order; rejected answers are kept with it."""
    engine = Forgetful(*lost)
    found = [
        outcome for outcome in laboratory(target, engine, tmp_path).perform(ROUND) if isinstance(outcome, Measurement)
    ]

    assert [entry.stimulus for entry in found] == list(ROUND.stimuli)
    assert engine.stimuli == [ROUND.stimuli[number].label for number in stimuli]
    assert [len(item.rejected) for item in found] == rejected


@pytest.mark.parametrize(("lost", "repeatable"), [((1, 2, 3), True), ((1,), False)])
def test_a_point_is_not_measured_a_fourth_time(
    target: Target, tmp_path: Path, lost: tuple[int, ...], repeatable: bool
) -> None:
    """After three failures the host has failed; a failure of fio that is not rare is not repeated at all."""
    engine = Forgetful(*lost, repeatable=repeatable)
    with pytest.raises(HostFailed, match="count lost"):
        list(laboratory(target, engine, tmp_path).perform(ROUND))
    assert engine.starts == len(lost)


def test_an_access_that_lost_count_is_repeated(target: Target, tmp_path: Path) -> None:
    """A stimulus without samples is a point of its own; the journal keeps the rejected answer."""
    step = ContinuousStimulus(phase="access A", stimulus=stimulus(4096))
    (outcome,) = laboratory(target, Forgetful(1), tmp_path).perform(step)

    assert isinstance(outcome, Measurement)
    assert [item.evidence for item in outcome.rejected] == ["evidence-1"]
    line = adapter().dump_json(OutcomeEntry(outcome=outcome))
    assert adapter().validate_json(line) == OutcomeEntry(outcome=outcome)


def forgetful_fio(folder: Path) -> Path:
    """Make a fio that loses count of an I/O in the answer of stimulus 2."""
    program = folder / "fio"
    program.write_text(
        f"""#!{sys.executable}
import json, subprocess, sys
from pathlib import Path
code = subprocess.run([{process.find("fio")!r}, *sys.argv[1:]], close_fds=False).returncode
out = [Path(word[9:]).resolve() for word in sys.argv if word.startswith("--output=")]
if out and out[0].name.startswith("00002-"):
    text = out[0].read_text()
    document = json.loads(text[text.index("{{"):])
    write = document["jobs"][0]["write"]
    write["total_ios"] += 1
    write["iops"] = 1000 * write["total_ios"] / write["runtime"]
    out[0].write_text(json.dumps(document))
sys.exit(code)
"""
    )
    program.chmod(0o755)
    return program


def test_preconditioning_is_not_repeated_for_lost_ios(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass over the range is accepted although fio lost count of one I/O, and its measurement says so."""
    find, program = process.find, forgetful_fio(tmp_path)
    engine = FioEngine(target.dut.path, tmp_path, seed=1, io_engine="libaio")
    monkeypatch.setattr(process, "find", lambda name: str(program) if name == "fio" else find(name))
    step = ContinuousStimulus(phase="WIPC", stimulus=stimulus(65536, access="SEQ", passes=1))
    lab = laboratory(target, engine, tmp_path)
    found = [outcome for _ in range(2) for outcome in lab.perform(step) if isinstance(outcome, Measurement)]

    assert [entry.uncounted_ios for entry in found] == [0, 1]
    assert [item.rejected for item in found] == [(), ()]
    assert [measurement.ios for measurement in found] == [64, 64]


@pytest.mark.parametrize(("phase", "allowed"), [("WIPC", True), ("histogram", False), ("access A", False)])
def test_lost_ios_are_allowed_if_no_histogram_is_reported(
    phase: Phase, allowed: bool, target: Target, tmp_path: Path
) -> None:
    """A stimulus that is reported with its histogram is measured again."""
    engine = Scripted(None)
    list(laboratory(target, engine, tmp_path).perform(ContinuousStimulus(phase=phase, stimulus=stimulus(4096))))

    assert engine.allowed == [allowed]


@pytest.mark.long
def test_real_points_continue_after_one_lost_count(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three points is measured again after the third has started, and all evidence is kept."""
    find, program = process.find, forgetful_fio(tmp_path)
    engine = FioEngine(target.dut.path, tmp_path, seed=1, io_engine="libaio")
    monkeypatch.setattr(process, "find", lambda name: str(program) if name == "fio" else find(name))
    found = [
        outcome for outcome in laboratory(target, engine, tmp_path).perform(ROUND) if isinstance(outcome, Measurement)
    ]

    assert [entry.stimulus for entry in found] == list(ROUND.stimuli)
    assert [[attempt.evidence[:5] for attempt in item.rejected] for item in found] == [[], ["00002"], []]
    (rejected,) = found[1].rejected
    data = (tmp_path / f"{rejected.evidence}.json").read_bytes()
    assert rejected.evidence_sha256 == hashlib.sha256(data).hexdigest()
    assert "1 I/O without" in rejected.reason
    assert len({measurement.seed for measurement in found}) == 3
    (third,) = tmp_path.glob("00003-*.process.json")  # it did I/O until it was stopped, so the drive was not idle
    repeated, ended_ns = found[1].timing, json.loads(third.read_text())["ended_monotonic_ns"]
    around_ms = max(
        (measurement.timing.ended_monotonic_ns - measurement.timing.started_monotonic_ns) / 1e6 - measurement.runtime_ms
        for measurement in found[:2]
    )
    assert repeated.idle_gap_ms is not None
    assert repeated.idle_gap_ms <= (repeated.started_monotonic_ns - ended_ns) / 1e6 + around_ms + 0.01


def test_a_purge_returns_its_proof(target: Target, tmp_path: Path) -> None:
    """The chosen method performs a purge step, and the proof is its only outcome."""
    (outcome,) = laboratory(target, Scripted(), tmp_path).perform(Purge())

    assert isinstance(outcome, PurgeOutcome)
    assert (outcome.method, outcome.samples) == ("punch-hole", 64)


STRETCH = ContinuousStimulus(phase="stimulus", stimulus=stimulus(4096, seconds=1.0), sample_seconds=0.25)


def test_a_continuous_stimulus_returns_samples_and_total(target: Target, tmp_path: Path) -> None:
    """Samples are returned one by one, then the total; fewer samples than the maximum are complete."""
    for count in (2, 4):
        outcomes = list(laboratory(target, Scripted(*[None] * (count + 1)), tmp_path).perform(STRETCH))

        assert [type(outcome) for outcome in outcomes] == [*[Sample] * count, Measurement]


def test_a_continuous_stimulus_that_fails_keeps_its_samples(target: Target, tmp_path: Path) -> None:
    """A rejected sample ends the stimulus after the samples before it, and the error names its place."""
    seen: list[object] = []
    with pytest.raises(DeviceFailed, match=r"step stimulus RND 4 KiB 0/100 \(RND 4 KiB 0/100\): it stalled"):
        seen.extend(
            laboratory(target, Scripted(None, AnswerRejected("device", "it stalled"), None), tmp_path).perform(STRETCH)
        )

    assert len(seen) == 1


def test_closing_a_step_ends_its_engine(target: Target, tmp_path: Path) -> None:
    """Closing the generator of a step ends the process that still runs for it, at once."""
    engine = Scripted(None, None, None)
    outcomes = laboratory(target, engine, tmp_path).perform(STRETCH)
    next(outcomes)
    assert engine.stimuli == []
    outcomes.close()

    assert engine.stimuli == ["closed"]


def test_a_target_that_disappears_ends_a_continuous_stimulus(target: Target, tmp_path: Path) -> None:
    """If the path leads elsewhere in the middle of a stimulus, it ends with the next sample."""
    engine = Scripted((tmp_path / "x.img").unlink, None, None)
    with pytest.raises(HostFailed, match="no longer there") as failed:
        list(laboratory(target, engine, tmp_path).perform(STRETCH))

    assert engine.stimuli == ["closed"]  # also while the failure and its cause are still referenced
    assert failed.value.exit_code == 13


def test_idle_times_are_the_engines(target: Target, tmp_path: Path) -> None:
    """An idle step returns how long the device had no I/O."""
    assert list(laboratory(target, Scripted(), tmp_path).perform(Idle(seconds=5))) == [
        IdleOutcome(started="", seconds=5)
    ]


def test_each_purge_has_its_own_evidence(target: Target, tmp_path: Path) -> None:
    """A later purge keeps the evidence of the first one, and the next stimulus names it."""
    kept = [(tmp_path / f"{number:05d}-x.fio").touch for number in (1, 2, 3)]
    lab = laboratory(target, Scripted(*kept), tmp_path)
    found = [next(iter(lab.perform(Purge())))]
    assert len(list(lab.perform(ROUND))) == 3
    found += lab.perform(Purge(part="128 KiB"))
    names = [entry.evidence for entry in found if isinstance(entry, PurgeOutcome)]

    assert names == ["00000-purge", "00004-purge"]
    assert all((tmp_path / f"{name}.process.json").exists() for name in names)


@pytest.mark.parametrize(("blame", "failure", "code"), [("device", DeviceFailed, 12), ("host", HostFailed, 13)])
def test_a_refusal_is_a_failure_with_its_place(
    target: Target, tmp_path: Path, blame: Any, failure: type[Exception], code: int
) -> None:
    """A rejected answer ends the step after the outcomes before it; the error names step and stimulus."""
    engine = Scripted(None, AnswerRejected(blame, "it stalled"), None)
    seen: list[object] = []
    with pytest.raises(failure) as failed:
        seen.extend(laboratory(target, engine, tmp_path).perform(ROUND))

    assert len(seen) == 1
    assert "failed in step Round 3 (RND 8 KiB 0/100): it stalled" in str(failed.value)
    assert getattr(failed.value, "exit_code", None) == code
    assert engine.stimuli == ["RND 4 KiB 0/100", "RND 8 KiB 0/100"]


@pytest.mark.parametrize("by", ["another file", "nothing"])
def test_a_target_that_changes_within_a_round_ends_it(target: Target, tmp_path: Path, by: str) -> None:
    """The next stimulus does not start on a target other than the claimed one, although the round started on it."""

    def swap() -> None:
        (tmp_path / "x.img").rename(tmp_path / "moved.img")
        if by == "another file":
            filled(tmp_path / "x.img")

    engine = Scripted(None, swap, None)
    with pytest.raises(HostFailed, match=r"Round 3 \(RND 16 KiB 0/100\)") as failed:
        list(laboratory(target, engine, tmp_path).perform(ROUND))

    assert engine.stimuli == ["RND 4 KiB 0/100", "RND 8 KiB 0/100"]
    assert "Nothing was written" not in str(failed.value)


def test_real_fio_does_not_write_to_a_file_that_replaced_the_target(target: Target, tmp_path: Path) -> None:
    """Another user's file that replaces the target within a round keeps every byte."""
    (tmp_path / "evidence").mkdir()
    engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
    outcomes = laboratory(target, engine, tmp_path).perform(ROUND)
    next(outcomes)
    (tmp_path / "x.img").unlink()
    precious = filled(tmp_path / "x.img", 4 * MIB).read_bytes()
    with pytest.raises(HostFailed):
        next(outcomes)

    assert (tmp_path / "x.img").read_bytes() == precious


def test_a_purge_is_refused_on_a_replaced_target(target: Target, tmp_path: Path) -> None:
    """A purge opens its target by path too: it is refused if the path leads elsewhere."""
    (tmp_path / "x.img").unlink()
    precious = filled(tmp_path / "x.img", 4 * MIB).read_bytes()
    with pytest.raises(HostFailed, match=r"step Purge \(punch-hole\)"):
        list(laboratory(target, Scripted(), tmp_path).perform(Purge()))

    assert (tmp_path / "x.img").read_bytes() == precious


def test_a_failed_purge_is_reported_unchanged(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a purge is raised unchanged."""
    false_method = Method(
        name="false",
        title="false",
        words=(),
        standard=True,
        fits=any_device,
        query=lambda tools: PurgeCapability(command=("true",)),
    )
    monkeypatch.setitem(METHODS, "false", false_method)
    with pytest.raises(PurgeFailed, match="by false"):
        list(laboratory(target, Scripted(), tmp_path, "false").perform(Purge()))


def test_evidence_that_cannot_be_written_is_a_host_failure(target: Target, tmp_path: Path) -> None:
    """If the run folder becomes full or disappears, the run ends with an error message, not a traceback."""
    (tmp_path / "evidence").mkdir()
    engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
    outcomes = laboratory(target, engine, tmp_path).perform(ROUND)
    next(outcomes)
    (tmp_path / "evidence").rename(tmp_path / "away")
    with pytest.raises(HostFailed, match=r"Round 3 \(RND (8|16) KiB 0/100\): .*(No such file|wrote no result)"):
        list(outcomes)


def test_a_host_without_memory_has_failed(target: Target, tmp_path: Path) -> None:
    """If the suite itself gets no more memory, the run ends with an error message, not a traceback."""
    with pytest.raises(HostFailed, match="out of memory"):
        list(laboratory(target, Scripted(MemoryError()), tmp_path).perform(ROUND))


@pytest.mark.parametrize(
    "stopped", [KeyboardInterrupt(), RuntimeError("a bug"), ToolMissing(program="fio", package="fio")]
)
def test_other_errors_are_raised_unchanged(target: Target, tmp_path: Path, stopped: BaseException) -> None:
    """Ctrl-C, faults of the suite, and errors with their own message are not reported as failures of device or host."""
    with pytest.raises(type(stopped)):
        list(laboratory(target, Scripted(stopped), tmp_path).perform(ROUND))


@pytest.mark.long
@pytest.mark.root
def test_unwritten_pages_do_not_prevent_a_purge(tmp_path: Path) -> None:
    """After writes through the page cache, as profiles do them, a claimed drive can still be discarded."""
    (tmp_path / "evidence").mkdir()
    with (
        loop_device(filled(tmp_path / "disk.img", 64 * MIB)) as device,
        claim_target(device, size_bytes=None, overwrite=False) as target,
    ):
        lab = laboratory(target, Scripted(), tmp_path / "evidence", "blkdiscard")
        with device.open("r+b") as file:
            file.write(b"x" * 48 * MIB)
        (proof,) = lab.perform(Purge())

    assert isinstance(proof, PurgeOutcome)
    assert (proof.method, proof.survivors) == ("blkdiscard", 0)


@pytest.mark.long
@pytest.mark.root
def test_a_whole_line_on_a_loop_device(tmp_path: Path) -> None:
    """Purge, preconditioning and a round on a real block device with real fio."""
    (tmp_path / "evidence").mkdir()
    wipc = stimulus(131072, access="SEQ", passes=2)
    with (
        loop_device(filled(tmp_path / "disk.img", 4 * MIB)) as device,
        claim_target(device, size_bytes=None, overwrite=False) as target,
    ):
        engine = FioEngine(target.dut.path, tmp_path / "evidence", seed=1, io_engine="libaio")
        lab = laboratory(target, engine, tmp_path / "evidence", "blkdiscard")
        (proof,) = lab.perform(Purge())
        (filling,) = lab.perform(ContinuousStimulus(phase="WIPC", stimulus=wipc))
        points = list(lab.perform(ROUND))
        *samples, whole = lab.perform(STRETCH)
        (idled,) = lab.perform(Idle(seconds=0.5))
        (again,) = lab.perform(Purge(part="again"))

    assert isinstance(proof, PurgeOutcome)
    assert (proof.method, proof.survivors) == ("blkdiscard", 0)
    assert isinstance(filling, Measurement)
    assert filling.write.transferred_bytes == 8 * MIB
    assert [point.stimulus for point in points if isinstance(point, Measurement)] == list(ROUND.stimuli)
    assert isinstance(whole, Measurement)
    assert sum(sample.write_ios for sample in samples if isinstance(sample, Sample)) == whole.write.ios
    assert isinstance(idled, IdleOutcome)
    assert isinstance(again, PurgeOutcome)
    assert again.evidence == "00006-purge"


# -- what differs from the standard -----------------------------------------------------------------------------------


def deviations(spec: Spec = SPEC, **changes: Any) -> dict[str, str]:
    """Return the deviations of a target by their subject."""
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
def test_a_raw_drive_as_the_standard_requires_has_no_deviation(spec: Spec) -> None:
    """A solid state drive with the write cache of its class is what the standard tests."""
    assert deviations(spec) == {}


@every_spec
def test_each_difference_is_a_deviation(spec: Spec) -> None:
    """A file, a loop device, another or unknown write cache, and rotating media are deviations of every test."""
    other = "enabled" if spec.setup.write_cache == "disabled" else "disabled"

    assert deviations(spec, kind="file") == {"device under test": "a file through a file system"}
    assert deviations(spec, kind="loop device", model="loop device on /x") == {"device under test": "loop device on /x"}
    assert deviations(spec, write_cache=other)["write cache"].startswith(other)
    assert deviations(spec, write_cache="unknown")["write cache"].startswith("unknown")
    assert list(deviations(spec, rotational=True)) == ["media"]
    assert deviations(spec, rotational=None) == {}
    assert list(deviations(spec, kind="file", write_cache="unknown", rotational=True)) == [
        "device under test",
        "write cache",
        "media",
    ]


LOST = {
    "iops": ("0.5 KiB", "omitted: not a multiple of the 4096-byte sectors"),
    "latency": ("0.5 KiB", "omitted: not a multiple of the 4096-byte sectors"),
    "composite": (
        "0.5 KiB 4 %, 1 KiB 1 %, 1.5 KiB 1 %, 2 KiB 1 %, 2.5 KiB 1 %, 3 KiB 1 %, 3.5 KiB 1 %",
        "omitted: not a multiple of the 4096-byte sectors; the shares of the others were scaled to 100 %",
    ),
}


@every_spec
def test_sizes_below_the_sector_size_are_listed(spec: Spec) -> None:
    """On 4096-byte sectors the omitted sizes are listed, with their shares in a mix; nothing if all can run."""
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
def test_a_mixed_sequential_pattern_is_a_deviation(test: str, stimulus: str, what: list[str]) -> None:
    """A mixed sequential stream that does not pause for decisions is a deviation; a random pattern has none."""
    spec = read_specification(test, "2.0.2", "enterprise", overrides=[("stimulus.name", stimulus)]).spec

    assert [deviation.what for deviation in target_deviations(samples.dut(), spec)] == what


@pytest.mark.parametrize("tail_bytes", [0, 8192])
@pytest.mark.parametrize("written", [1.0, 0.5, 0.0])
def test_preconditioning_is_proven(target: Target, tmp_path: Path, written: float, tail_bytes: int) -> None:
    """A block with the same content as before was not overwritten; a partial last block is not written."""
    wipc = stimulus(65536, access="SEQ", passes=2, range_bytes=4 * MIB - tail_bytes)
    whole_bytes = wipc.range_bytes // 65536 * 65536

    def write() -> None:
        os.pwrite(target.descriptor, os.urandom(round(whole_bytes * written)), 0)

    engine = Scripted(write)
    lab = laboratory(target, engine, tmp_path)
    step = ContinuousStimulus(phase="WIPC", stimulus=wipc)
    if written == 1.0:
        assert len([*lab.perform(step)]) == 1
        assert engine.stimuli[-1] == "count idle I/O"
    else:
        with pytest.raises(HostFailed, match=f"{round(64 * (1 - written))} of 64 blocks of the range were not"):
            list(lab.perform(step))


@pytest.mark.parametrize("data", [bytes(4 * MIB), 64 * random.Random(1).randbytes(65536)], ids=["zeros", "copies"])
def test_preconditioning_needs_random_data(target: Target, tmp_path: Path, data: bytes) -> None:
    """A drive may store equal blocks without writing them, so that the measurement is not one of its media."""
    os.pwrite(target.descriptor, os.urandom(4 * MIB), 0)
    lab = laboratory(target, Scripted(lambda: os.pwrite(target.descriptor, data, 0)), tmp_path)
    wipc = stimulus(65536, access="SEQ", passes=2, range_bytes=4 * MIB)
    with pytest.raises(HostFailed, match="of 64 blocks of the range are equal to another one, expected random data"):
        list(lab.perform(ContinuousStimulus(phase="WIPC", stimulus=wipc)))


@pytest.mark.parametrize(
    "changes", [{"options": (("zero_buffers", "1"),)}, {"limit_bytes": 2 * MIB}, {"read_percent": 100}]
)
def test_only_a_complete_pass_of_random_data_is_proven(target: Target, tmp_path: Path, changes: dict[str, Any]) -> None:
    """Other stimuli may leave blocks unchanged."""
    step = ContinuousStimulus(phase="WIPC", stimulus=stimulus(65536, access="SEQ", passes=1, **changes))
    assert len([*laboratory(target, Scripted(None), tmp_path).perform(step)]) == 1
