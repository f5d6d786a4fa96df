"""The numbers in a journal are those of its evidence; a journal with other numbers is refused."""

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
    """A folder of runs that nobody changes: on a file, of a profile that synchronizes, simulated, and imported."""
    folder = tmp_path_factory.mktemp("runs")
    settings = [word for setting in (*SHORT, "saturation.until_steady=false") for word in ("--set", setting)]
    quiet = ("--to", "none", "--progress", "none")
    target = ("--serial", "drive.img", *quiet)
    asked = ("wsat", str(folder / "drive.img"), "--size", "32M", "--run-dir", str(folder / "real"))
    assert main([*asked, *settings, *target]) == 0
    asked = ("profile", "run", "etcd-fsync", str(folder / "drive.img"), "--run-dir", str(folder / "synced"))
    assert main([*asked, "--overwrite", "--size", "32M", "--seconds", "0.2", *target]) in (
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
    """Return a copy of a run whose entries were changed, with the checksums of its journal made right again."""
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
    """Return what changes a number of the last outcome of a kind."""

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
    """Let the answer of one measurement stand for the next one, too."""
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


@pytest.mark.parametrize("name", ["real", "synced", "points", "simulated", "rounds", "imported"])
def test_numbers_of_untouched_runs_agree(name: str, runs: Path) -> None:
    """A run that nobody changed has the numbers of its evidence."""
    folder = RunFolder(path=runs / name)

    assert check_evidence(folder, assess(folder)).differences == ()


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
    """A run that was stopped goes on only with the numbers that were measured."""

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


def test_an_answer_that_is_not_accepted_is_a_difference(runs: Path, tmp_path: Path) -> None:
    """An answer that was replaced, with its digests, by one that contradicts itself is no evidence."""
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


def measured(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of measurements."""
    return [entry for entry in entries if entry["kind"] == "outcome" and entry["outcome"]["kind"] == "measurement"]


@pytest.mark.parametrize("suffixes", [(".json",), (".json", ".fio")])
def test_the_answers_of_two_points_are_not_exchanged(suffixes: tuple[str, ...], runs: Path, tmp_path: Path) -> None:
    """Each answer repeats the seed of its own point: the same point of another round has another."""
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
    assert len(differences) == 2
    assert all(sentence in difference and "expected randseed=" in difference for difference in differences)


STIMULI = {
    "queue depth": ("setup", "queue_depth", "queue_depth", 256, "expected iodepth=256, got iodepth=32"),
    "seconds": ("rounds", "point_seconds", "seconds", 0.2, "expected runtime=200ms, got runtime="),
}


@pytest.mark.parametrize("what", STIMULI)
def test_the_jobs_of_other_stimuli_are_refused(what: str, runs: Path, tmp_path: Path) -> None:
    """A queue depth or time that was changed everywhere in the journal is not that of the job files."""
    section, spec_name, name, value, sentence = STIMULI[what]

    def change(entries: list[dict[str, Any]]) -> None:
        entries[0]["facts"]["spec"][section][spec_name] = value
        steps = [entry["step"] for entry in entries if entry["kind"] == "step"]
        stimuli = [step["stimulus"] for step in steps if step["kind"] == "continuous"]
        stimuli += [stimulus for step in steps if step["kind"] == "round" for stimulus in step["stimuli"]]
        stimuli += [outcome["stimulus"] for outcome in outcomes(entries, "measurement")]
        for stimulus in stimuli:
            if stimulus[name] is not None:
                stimulus[name] = value

    folder = changed(runs / "points", tmp_path / "run", change)

    assert any(sentence in difference for difference in check_evidence(folder, assess(folder)).differences)


def test_another_io_engine_is_refused(runs: Path, tmp_path: Path) -> None:
    """The I/O engine and the buffers of the journal are those of the job files."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[0]["facts"]["platform"]["io_engine"] = "libaio, random buffers refilled"

    folder = changed(runs / "points", tmp_path / "run", change)

    differences = check_evidence(folder, assess(folder)).differences
    assert any("expected refill_buffers=1, got refill_buffers=0" in difference for difference in differences)


def test_the_answers_of_another_run_are_refused(runs: Path, tmp_path: Path) -> None:
    """A run says which seed it had, and its points' seeds follow from that one."""
    folder = changed(runs / "points", tmp_path / "run", lambda entries: entries[0]["facts"].update(seed=4712))

    assert all(": seed is " in difference for difference in check_evidence(folder, assess(folder)).differences)
    assert check_evidence(folder, assess(folder)).differences


def test_an_answer_stands_for_one_point(runs: Path, tmp_path: Path) -> None:
    """Two points with the same answer, under two names, are no two measurements."""

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


def test_a_round_that_was_cut_out_is_missed(runs: Path, tmp_path: Path) -> None:
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


def test_a_journal_that_was_cut_is_missing_points(runs: Path, tmp_path: Path) -> None:
    """A crash leaves evidence of two points at most without an entry, not that of half a run."""

    def change(entries: list[dict[str, Any]]) -> None:
        del entries[len(entries) // 2 :]

    folder = changed(runs / "rounds", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith("the journal has no measurement for evidence number ")
    assert main(["resume", str(folder.path)]) == 14


@pytest.mark.parametrize("what", ["steady_state.window_rounds", "device under test"])
def test_a_deviation_that_was_taken_out_is_missed(what: str, runs: Path, tmp_path: Path) -> None:
    """The deviations of a specification and of a target follow from them, and stand in the journal."""

    def change(entries: list[dict[str, Any]]) -> None:
        facts = entries[0]["facts"]
        assert any(deviation["what"] == what for deviation in facts["deviations"])
        facts["deviations"] = [item for item in facts["deviations"] if item["what"] != what]

    folder = changed(runs / "points", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith(f"the journal does not list this deviation: {what}")


@pytest.mark.parametrize("part", ["standard", "actual", "clause"])
@pytest.mark.parametrize("what", ["rounds.point_seconds", "device under test"])
def test_a_deviation_with_another_value_is_missed(what: str, part: str, runs: Path, tmp_path: Path) -> None:
    """A deviation has the value of the standard, and that of the run."""

    def change(entries: list[dict[str, Any]]) -> None:
        (deviation,) = (item for item in entries[0]["facts"]["deviations"] if item["what"] == what)
        deviation[part] = "as the standard"

    folder = changed(runs / "points", tmp_path / "run", change)

    (difference,) = check_evidence(folder, assess(folder)).differences
    assert difference.startswith(f"the journal does not list this deviation: {what}: ")
    assert ("as the standard" in difference) == (part != "clause")


def test_a_step_that_differs_says_in_what(runs: Path, tmp_path: Path) -> None:
    """A step with the same name as the procedure's, but another number, says which one."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[0]["facts"]["spec"]["rounds"]["point_seconds"] = 60

    folder = changed(runs / "points", tmp_path / "run", change)

    with pytest.raises(RecordError, match=r"step Round 1: expected stimuli 1\.seconds 60\.0, got 0\.[0-9]+; "):
        assess(folder)
