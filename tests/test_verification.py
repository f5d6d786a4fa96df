"""The numbers in a journal are compared with its evidence; a journal with other numbers is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import LimitsMissed, RecordError
from snia_pts.record.entries import AFTER, BEFORE, line
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.runner.verification import check_evidence
from tests import killing, tkperf_files
from tests.test_end_to_end import SMALL

SHORT = (
    "settling.sample_seconds=0.1",
    "settling.stride_samples=1",
    "settling.window_rounds=2",
    "saturation.seconds=0.5",
    "saturation.capacities=1000",
    "histogram.seconds=0.2",
)
Change = Callable[[list[dict[str, Any]]], None]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that no test changes: on a file, of a profile with fdatasync, simulated, and imported."""
    folder = tmp_path_factory.mktemp("runs")
    settings = [word for setting in (*SHORT, "saturation.until_steady=false") for word in ("--set", setting)]
    quiet = ("--to", "none", "--progress", "none")
    target = ("--serial", "drive.img", *quiet)
    arguments = ("wsat", str(folder / "drive.img"), "--size", "32M", "--run-dir", str(folder / "real"))
    assert main([*arguments, *settings, *target]) == 0
    arguments = ("profile", "run", "etcd-fsync", str(folder / "drive.img"), "--run-dir", str(folder / "synced"))
    assert main([*arguments, "--overwrite", "--size", "32M", "--seconds", "0.2", *target]) in (
        0,
        LimitsMissed.exit_code,
    )  # slow or not
    killing.reference("throughput", folder / "simulated")
    points = ("iops", str(folder / "drive.img"), "--overwrite", "--size", "32M", "--run-dir", str(folder / "points"))
    assert main([*points, "--seed", "4711", *SMALL, *target]) == 0
    (folder / "drive.img").unlink()
    killing.reference("iops", folder / "rounds")
    (folder / "tkperf.xml").write_bytes(tkperf_files.ssd())
    assert main(["import", str(folder / "tkperf.xml"), "--run-dir", str(folder / "all"), "--to", "none"]) == 0
    (folder / "all" / "iops").rename(folder / "imported")
    return folder


def changed(run: Path, place: Path, change: Change) -> RunFolder:
    """Return a copy of a run with changed entries, and checksums that match them."""
    shutil.copytree(run, place)
    folder = RunFolder(path=place)
    entries = [json.loads(text[BEFORE:-AFTER]) for text in folder.journal.read_bytes().splitlines(keepends=True)]
    change(entries)
    checksum, lines = 0, []
    for entry in entries:
        payload = json.dumps(entry, separators=(",", ":")).encode()
        checksum = zlib.crc32(payload, checksum)
        lines.append(line(checksum, payload))
    folder.journal.write_bytes(b"".join(lines))
    return folder


def outcomes(entries: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the outcomes of a kind."""
    return [entry["outcome"] for entry in entries if entry["kind"] == "outcome" and entry["outcome"]["kind"] == kind]


def with_number(kind: str, *keys: str, by: float = 1) -> Change:
    """Return a change of a number of the last outcome of a kind."""

    def change(entries: list[dict[str, Any]]) -> None:
        *parents, last = keys
        part = outcomes(entries, kind)[-1]
        for key in parents:
            part = part[key]
        part[last] = (part[last] or 0) + by

    return change


def with_bin(entries: list[dict[str, Any]]) -> None:
    """Move one response time to the next bin."""
    written = outcomes(entries, "measurement")[-1]["write"]
    edge, _, count = written["histogram"]["counted"].rpartition(" ")
    written["histogram"]["counted"] = f"{edge} {int(count) - 1},{int(edge.rpartition(',')[2]) * 2} 1"


def with_one_answer_for_two(entries: list[dict[str, Any]]) -> None:
    """Use the answer of one measurement for the next one, too."""
    first, second, *_ = outcomes(entries, "measurement")
    for key in ("evidence", "evidence_sha256"):
        second[key] = first[key]


CHANGES: dict[str, tuple[str, Change, str]] = {
    "I/Os": ("real", with_number("measurement", "write", "ios"), "write.ios is "),
    "bytes": ("real", with_number("measurement", "write", "transferred_bytes", by=4096), "write.transferred_bytes is "),
    "runtime": ("real", with_number("measurement", "write", "runtime_ms", by=-100), "write.runtime_ms is "),
    "minimum": ("real", with_number("measurement", "write", "response_min_ns"), "write.response_min_ns is "),
    "mean": ("real", with_number("measurement", "write", "response_mean_ns", by=-1), "write.response_mean_ns is "),
    "maximum": ("real", with_number("measurement", "write", "response_max_ns"), "write.response_max_ns is "),
    "bins": ("real", with_bin, "write.histogram.counted is a different text"),
    "reads": (
        "real",
        with_number("measurement", "read", "runtime_ms"),
        "read.runtime_ms is 1 in the journal, 0 ",
    ),
    "CPU": ("real", with_number("measurement", "engine_cpu_percent", by=-0.001), "engine_cpu_percent is "),
    "uncounted": ("real", with_number("measurement", "uncounted_ios"), "uncounted_ios is 1 in the journal, 0 in the"),
    "message": (
        "real",
        lambda entries: outcomes(entries, "measurement")[-1].update(engine_messages=["fio: odd"]),
        "engine_messages is ",
    ),
    "sample's I/Os": ("real", with_number("sample", "write_ios"), "write_ios is "),
    "sample's time": ("real", with_number("sample", "seconds", by=0.001), "seconds is "),
    "sample's mean": ("real", with_number("sample", "average_response_us"), "average_response_us is "),
    "sample's percentile": ("real", with_number("sample", "three_nines_us"), "three_nines_us is "),
    "sync": ("synced", with_number("measurement", "sync", "mean_ns"), "sync.mean_ns is "),
    "simulated": ("simulated", with_number("measurement", "write", "ios"), "write.ios is "),
    "imported rate": ("imported", with_number("measurement", "reported", "iops"), "reported.iops is "),
    "target": (
        "points",
        lambda entries: entries[0]["facts"]["dut"].update(path="/dev/nvme0n1"),
        "SNIA_PTS_TARGET=/dev/nvme0n1 fio FILE, got # Repeat it, ",
    ),
    "no target": (
        "points",
        lambda entries: entries[0]["facts"]["dut"].update(path="drive$"),
        "its path contains characters that fio misinterprets",
    ),
    "fio's version": (
        "points",
        lambda entries: entries[0]["facts"]["platform"].update(engine_version="3.99"),
        "the journal says fio 3.99, its evidence fio 3.",
    ),
    "purge method": (
        "points",
        lambda entries: outcomes(entries, "purge")[0].update(method="NVMe Format, SES 1"),
        "expected a command of NVMe Format, SES 1, got fallocate --punch-hole ",
    ),
    "start": (
        "points",
        with_number("measurement", "timing", "started_monotonic_ns"),
        "timing.started_monotonic_ns is ",
    ),
    "end": ("points", with_number("measurement", "timing", "ended_monotonic_ns"), "timing.ended_monotonic_ns is "),
    "gap": ("points", with_number("measurement", "timing", "idle_gap_ms", by=9999), "idle gap: expected "),
    "no gap": (
        "points",
        lambda entries: outcomes(entries, "measurement")[-1]["timing"].update(idle_gap_ms=None, suite_gap_us=None),
        " ms, got none",
    ),
    "duration": (
        "rounds",
        lambda entries: entries[-1].update(at=entries[0]["facts"]["started"]),
        "the run lasts 0 s, its measurements ",
    ),
    "survivors": (
        "points",
        lambda entries: outcomes(entries, "purge")[0].update(survivors=64),
        "64 of 64 blocks survived, and no deviation says NOT PROVEN",
    ),
    "no samples": (
        "simulated",
        lambda entries: outcomes(entries, "purge")[0].update(samples=0),
        "0 of 0 blocks survived, and no deviation says NOT PROVEN",
    ),
    "no purge deviation": (
        "points",
        lambda entries: outcomes(entries, "purge")[0].update(deviations=[]),
        "does not list this deviation: purge: punch-hole",
    ),
    "no purge program": (
        "points",
        lambda entries: outcomes(entries, "purge")[0].update(evidence="", deviations=[]),
        "cannot read its evidence again: ",
    ),
    "one answer for two": ("simulated", with_one_answer_for_two, "does not follow the previous evidence"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ["real", "synced", "points", "simulated", "rounds", "imported"])
def test_numbers_of_untouched_runs_agree(name: str, runs: Path) -> None:
    """An unchanged run has the numbers of its evidence."""
    folder = RunFolder(path=runs / name)

    assert check_evidence(folder, assess(folder)).differences == ()


@pytest.mark.long_but_first
@pytest.mark.parametrize("what", CHANGES)
def test_changed_numbers_are_refused(what: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One changed number of a journal with correct checksums ends each of these verbs with 14, and is named."""
    name, change, sentence = CHANGES[what]
    folder = changed(runs / name, tmp_path / "run", change)
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}

    for words in (["assess"], ["report", "--to", "rst"], ["compare", str(runs / name)], ["export", "--to", "tkperf"]):
        assert main([*words, str(folder.path)]) == 14, words
        output = capsys.readouterr()
        assert sentence in output.out + output.err, words
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before


def test_a_run_with_changed_numbers_is_not_resumed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stopped run is resumed only with the numbers that were measured."""

    def change(entries: list[dict[str, Any]]) -> None:
        del entries[-2:]  # the last measurement and the end
        with_number("measurement", "write", "ios")(entries)

    folder = changed(runs / "simulated", tmp_path / "run", change)
    before = folder.journal.read_bytes()

    assert main(["resume", str(folder.path)]) == 14
    assert "write.ios is " in capsys.readouterr().err
    assert folder.journal.read_bytes() == before


def test_missing_samples_are_refused(runs: Path, tmp_path: Path) -> None:
    """A journal without one of the samples in its evidence is refused."""

    def change(entries: list[dict[str, Any]]) -> None:
        last = max(place for place, entry in enumerate(entries) if entry.get("outcome", {}).get("number", 1) > 1)
        del entries[last]

    folder = changed(runs / "real", tmp_path / "run", change)

    assert "the evidence has more samples" in check_evidence(folder, assess(folder)).differences[0]


def test_a_rejected_answer_is_a_difference(runs: Path, tmp_path: Path) -> None:
    """A replaced answer that contradicts itself is no evidence, even with matching checksums."""
    journal = (runs / "real" / "journal.jsonl").read_text()
    (name,) = {path.stem for path in (runs / "real" / "evidence").glob("00001-*.json")} - {
        path.stem for path in (runs / "real" / "evidence").glob("00001-*.process.json")
    }
    text = (runs / "real" / "evidence" / f"{name}.json").read_text()
    answer = json.loads(text[text.index("{\n") :])
    answer["jobs"][0]["write"]["lat_ns"]["mean"] *= 1000
    forged = json.dumps(answer).encode()
    digest = hashlib.sha256(forged).hexdigest()

    def change(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if f"{name}.json" in entry.get("evidence", {}):
                entry["evidence"][f"{name}.json"] = entry["outcome"]["evidence_sha256"] = digest

    folder = changed(runs / "real", tmp_path / "run", change)
    (folder.evidence / f"{name}.json").write_bytes(forged)
    assert digest not in journal

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert "cannot read its evidence again: fio's answer is inconsistent" in difference


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exit_code": 1}, "fio ended with exit code 1"),
        ({"exit_code": -9}, "fio was killed by signal 9"),
        ({"timed_out": True}, "no answer within "),
        ({"stopped_seconds": 5.0}, "another process stopped fio for about 5 s"),
    ],
)
def test_an_answer_of_a_program_that_failed_is_a_difference(
    changes: dict[str, Any], reason: str, runs: Path, tmp_path: Path
) -> None:
    """If the record of fio has a failure, no engine accepts its answer."""
    check = with_record(changes, runs / "points", tmp_path / "run", lambda _: None)
    assert any(reason in difference for difference in check)


@pytest.mark.parametrize("change", ["option", "job", "output", "not staged", "none"])
@pytest.mark.parametrize("run", ["points", "real"])
def test_the_command_of_fio_is_that_of_the_point(change: str, run: str, runs: Path, tmp_path: Path) -> None:
    """The record of fio has its command line; a moved run folder is no difference."""
    (record,) = (runs / run / "evidence").glob("00001-*.process.json")
    argv = json.loads(record.read_text())["argv"]
    moved = [text.replace(str(runs / run), str(tmp_path / "elsewhere")) for text in argv]
    other = {
        "option": [*argv[:2], "--readonly", *argv[2:]],
        "job": [*argv[:-1], argv[-1].replace("00001", "00002")],
        "output": [argv[0], argv[1].replace("json+", "json"), *argv[2:]],
        "not staged": [text for text in argv if not text.startswith("--exec_")],
        "none": moved,
    }

    check = with_record({"argv": other[change]}, runs / run, tmp_path / "run", lambda _: None)

    assert all(f"{record.name}: expected fio --output-format=json+" in difference for difference in check)
    assert bool(check) == (change != "none")


@pytest.mark.parametrize(
    ("kind", "kernel", "is_refused"),
    [("loop device", "6.1.0", True), ("loop device", "5.11.0", False), ("file", "6.1.0", False)],
)
def test_an_answer_with_more_bytes_than_its_process_moved_is_a_difference(
    kind: str, kernel: str, is_refused: bool, runs: Path, tmp_path: Path
) -> None:
    """The record has the bytes that the kernel counted for fio, if it counts all I/O to such a target."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[0]["facts"]["dut"]["kind"] = kind
        entries[0]["facts"]["platform"]["kernel"] = kernel

    check = with_record({"written_bytes": 0}, runs / "points", tmp_path / "run", change)
    assert any("but the kernel counted 0 bytes for its process" in difference for difference in check) == is_refused


def with_record(changes: dict[str, Any], run: Path, place: Path, change: Change) -> tuple[str, ...]:
    """Return the differences of a copy of a run in which the record of preconditioning has ``changes``."""
    (record,) = (run / "evidence").glob("00001-*.process.json")
    text = json.dumps(json.loads(record.read_text()) | changes)

    def change_all(entries: list[dict[str, Any]]) -> None:
        change(entries)
        for entry in entries:
            if record.name in entry.get("evidence", {}):
                entry["evidence"][record.name] = hashlib.sha256(text.encode()).hexdigest()

    folder = changed(run, place, change_all)
    (folder.evidence / record.name).write_text(text)
    return check_evidence(folder, assess(folder)).differences


def measured(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of measurements."""
    return [entry for entry in entries if entry["kind"] == "outcome" and entry["outcome"]["kind"] == "measurement"]


@pytest.mark.parametrize("suffixes", [(".json",), (".json", ".fio")])
def test_the_answers_of_two_points_are_not_exchanged(suffixes: tuple[str, ...], runs: Path, tmp_path: Path) -> None:
    """Each answer echoes the seed of its point; the same point of another round has another seed."""
    contents: dict[str, bytes] = {}

    def change(entries: list[dict[str, Any]]) -> None:
        measured_points = measured(entries)
        one = measured_points[-1]
        other = next(
            measured_point
            for measured_point in measured_points
            if measured_point["outcome"]["stimulus"] == one["outcome"]["stimulus"]
        )
        assert one is not other
        names = [item["outcome"]["evidence"] for item in (one, other)]
        for suffix in suffixes:
            for name, theirs in zip(names, reversed(names), strict=True):
                contents[f"{name}{suffix}"] = (runs / "points" / "evidence" / f"{theirs}{suffix}").read_bytes()
        for name in ("read", "write", "engine_cpu_percent", "evidence_sha256"):
            one["outcome"][name], other["outcome"][name] = other["outcome"][name], one["outcome"][name]
        for entry in (one, other):
            digests = {
                name: hashlib.sha256(contents[name]).hexdigest() for name in entry["evidence"] if name in contents
            }
            entry["evidence"].update(digests)

    folder = changed(runs / "points", tmp_path / "run", change)
    for name, content in contents.items():
        (folder.evidence / name).write_bytes(content)

    differences = check_evidence(folder, assess(folder)).differences
    sentence = "answer belongs to another job: " if len(suffixes) == 1 else "is the job of another stimulus: "
    # The process of the other point may also have run for less time than this answer reports.
    assert sum(sentence in difference and "expected randseed=" in difference for difference in differences) == 2


STIMULI = {
    "queue depth": ("setup", "queue_depth", "queue_depth", 256, "expected iodepth=256, got iodepth=32"),
    "seconds": ("rounds", "point_seconds", "seconds", 0.2, "expected runtime=200ms, got runtime="),
}


def with_stimulus(entries: list[dict[str, Any]], section: str, spec_name: str, name: str, value: float) -> None:
    """Change a number of the specification, and of every stimulus with it."""
    entries[0]["facts"]["spec"][section][spec_name] = value
    steps = [entry["step"] for entry in entries if entry["kind"] == "step"]
    stimuli = [step["stimulus"] for step in steps if step["kind"] == "continuous"]
    stimuli += [stimulus for step in steps if step["kind"] == "round" for stimulus in step["stimuli"]]
    stimuli += [outcome["stimulus"] for outcome in outcomes(entries, "measurement")]
    for stimulus in stimuli:
        if stimulus[name] is not None:
            stimulus[name] = value


@pytest.mark.parametrize("what", STIMULI)
def test_the_jobs_of_other_stimuli_are_refused(what: str, runs: Path, tmp_path: Path) -> None:
    """A queue depth or time that was changed everywhere in the journal differs from the job files."""
    section, spec_name, name, value, sentence = STIMULI[what]

    def change(entries: list[dict[str, Any]]) -> None:
        with_stimulus(entries, section, spec_name, name, value)

    folder = changed(runs / "points", tmp_path / "run", change)

    assert any(sentence in difference for difference in check_evidence(folder, assess(folder)).differences)


def of_another_version(entries: list[dict[str, Any]]) -> None:
    """Mark the run as made by another version of the suite."""
    entries[0]["facts"]["platform"]["suite_version"] = "0.0.9"


@pytest.mark.parametrize("what", STIMULI)
def test_the_common_options_of_another_version_are_compared(what: str, runs: Path, tmp_path: Path) -> None:
    """A run of another version of the suite is read, but the options that both write have the values of the journal."""
    untouched = changed(runs / "points", tmp_path / "untouched", of_another_version)
    assert check_evidence(untouched, assess(untouched)).differences == ()
    section, spec_name, name, value, sentence = STIMULI[what]

    def change(entries: list[dict[str, Any]]) -> None:
        of_another_version(entries)
        with_stimulus(entries, section, spec_name, name, value)

    folder = changed(runs / "points", tmp_path / "run", change)
    assert any(sentence in difference for difference in check_evidence(folder, assess(folder)).differences)


def with_other_answer(
    run: Path, place: Path, alter: Callable[[str, str], tuple[str, str]], *changes: Change
) -> RunFolder:
    """Return a copy of a run with a changed job file and answer of its last point, and matching checksums."""
    contents: dict[str, bytes] = {}

    def change(entries: list[dict[str, Any]]) -> None:
        for other in changes:
            other(entries)
        last = measured(entries)[-1]
        names = [f"{last['outcome']['evidence']}{suffix}" for suffix in (".fio", ".json")]
        texts = alter(*((run / "evidence" / name).read_text() for name in names))
        contents.update({name: text.encode() for name, text in zip(names, texts, strict=True)})
        for name, content in contents.items():
            assert name in last["evidence"]
            last["evidence"][name] = hashlib.sha256(content).hexdigest()
        last["outcome"]["evidence_sha256"] = last["evidence"][names[1]]

    folder = changed(run, place, change)
    for name, content in contents.items():
        (folder.evidence / name).write_bytes(content)
    return folder


def test_another_version_may_write_other_options(runs: Path, tmp_path: Path) -> None:
    """An option that only the other version writes is no difference if the answer echoes it; for this version it is."""

    def alter(job: str, answer: str) -> tuple[str, str]:
        option = '"job options" : {'
        assert option in answer
        return f"{job.rstrip()}\nnew_option=1\n", answer.replace(option, f'{option}\n        "new_option" : "1",')

    run = runs / "points"
    folder = with_other_answer(run, tmp_path / "other", alter, of_another_version)
    assert check_evidence(folder, assess(folder)).differences == ()
    folder = with_other_answer(run, tmp_path / "same", alter)
    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.endswith("expected no new_option, got new_option=1")


def test_the_answer_of_another_fio_is_refused(runs: Path, tmp_path: Path) -> None:
    """Each answer names the version of fio; after a resume with another fio it is that one."""

    def alter(job: str, answer: str) -> tuple[str, str]:
        version = json.loads(answer[answer.index("{\n") :])["fio version"]
        return job, answer.replace(f'"{version}"', '"fio-9.99"')

    folder = with_other_answer(runs / "points", tmp_path / "run", alter)
    (difference,) = check_evidence(folder, assess(folder)).differences
    assert "expected an answer of fio-3" in difference
    assert "got one of fio-9.99" in difference


def test_another_io_engine_is_refused(runs: Path, tmp_path: Path) -> None:
    """The I/O engine and the buffers of the journal are those of the job files."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[0]["facts"]["platform"]["io_engine"] = "libaio, random buffers refilled"

    folder = changed(runs / "points", tmp_path / "run", change)

    differences = check_evidence(folder, assess(folder)).differences
    assert any("expected refill_buffers=1, got refill_buffers=0" in difference for difference in differences)


def test_the_answers_of_another_run_are_refused(runs: Path, tmp_path: Path) -> None:
    """A run has its seed, from which the seeds of its points follow."""
    folder = changed(runs / "points", tmp_path / "run", lambda entries: entries[0]["facts"].update(seed=4712))

    assert all(": seed is " in difference for difference in check_evidence(folder, assess(folder)).differences)
    assert check_evidence(folder, assess(folder)).differences


def test_an_answer_belongs_to_one_point(runs: Path, tmp_path: Path) -> None:
    """Two points with the same answer, under two names, are not two measurements."""

    def change(entries: list[dict[str, Any]]) -> None:
        first, second = measured(entries)[-2:]
        second["outcome"]["evidence_sha256"] = first["outcome"]["evidence_sha256"]
        name = f"{second['outcome']['evidence']}.json"
        second["evidence"][name] = first["outcome"]["evidence_sha256"]

    folder = changed(runs / "points", tmp_path / "run", change)
    one, two = (
        folder.evidence / f"{measurement.evidence}.json" for measurement in list(assess(folder).measurements)[-2:]
    )
    two.write_bytes(one.read_bytes())

    differences = check_evidence(folder, assess(folder)).differences
    assert any("is identical to the answer of another point" in difference for difference in differences)


def test_a_removed_round_is_noticed(runs: Path, tmp_path: Path) -> None:
    """A journal without the first round, whose digests moved to the end, has no measurement for its evidence."""

    def change(entries: list[dict[str, Any]]) -> None:
        rounds = [
            place for place, item in enumerate(entries) if item["kind"] == "step" and item["step"]["kind"] == "round"
        ]
        for entry in entries[rounds[0] : rounds[1]]:
            entries[-1]["evidence"].update(entry.get("evidence", {}))
        for place in rounds[1:]:
            entries[place]["step"]["number"] -= 1
        del entries[rounds[0] : rounds[1]]

    folder = changed(runs / "rounds", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith("the journal has no measurement for evidence number ")


def test_a_truncated_journal_lacks_points(runs: Path, tmp_path: Path) -> None:
    """A crash leaves evidence of at most two points without an entry, not that of half a run."""

    def change(entries: list[dict[str, Any]]) -> None:
        del entries[len(entries) // 2 :]

    folder = changed(runs / "rounds", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith("the journal has no measurement for evidence number ")
    assert main(["resume", str(folder.path)]) == 14


@pytest.mark.parametrize("what", ["steady_state.window_rounds", "device under test"])
def test_a_removed_deviation_is_noticed(what: str, runs: Path, tmp_path: Path) -> None:
    """The deviations of a specification and of a target follow from them, and must be in the journal."""

    def change(entries: list[dict[str, Any]]) -> None:
        facts = entries[0]["facts"]
        assert any(deviation["what"] == what for deviation in facts["deviations"])
        facts["deviations"] = [item for item in facts["deviations"] if item["what"] != what]

    folder = changed(runs / "points", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith(f"the journal does not list this deviation: {what}")


@pytest.mark.parametrize("part", ["standard", "actual", "clause"])
@pytest.mark.parametrize("what", ["rounds.point_seconds", "device under test"])
def test_a_changed_deviation_is_noticed(what: str, part: str, runs: Path, tmp_path: Path) -> None:
    """A deviation has the standard's value and that of the run."""

    def change(entries: list[dict[str, Any]]) -> None:
        (deviation,) = (item for item in entries[0]["facts"]["deviations"] if item["what"] == what)
        deviation[part] = "as the standard"

    folder = changed(runs / "points", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith(f"the journal does not list this deviation: {what}: ")
    assert ("as the standard" in difference) == (part != "clause")


def test_a_step_that_differs_is_reported_with_the_number(runs: Path, tmp_path: Path) -> None:
    """The message names the number by which a step differs from the procedure's step of the same name."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[0]["facts"]["spec"]["rounds"]["point_seconds"] = 60

    folder = changed(runs / "points", tmp_path / "run", change)

    with pytest.raises(RecordError, match=r"step Round 1: expected stimuli 1\.seconds 60\.0, got 0\.[0-9]+; "):
        assess(folder)
