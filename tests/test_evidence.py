"""All evidence of a run is compared with its journal, by every verb that draws conclusions from a stored run."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import HostFailed, RunFolderError
from snia_pts.model.attempt import RejectedAttempt
from snia_pts.record.evidence import EvidenceLedger
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess, inspect_run
from snia_pts.results.warnings import run_warnings
from snia_pts.runner.resume import require_resumable
from snia_pts.runner.verification import check_evidence
from tests import killing
from tests.samples import perform_run
from tests.test_verification import changed

SHORT = (
    "settling.sample_seconds=0.5",
    "settling.stride_samples=1",
    "settling.window_rounds=2",
    "saturation.seconds=1.5",
    "saturation.capacities=1000",
    "histogram.seconds=0.5",
)
#: One file of each kind that a run on a file leaves, and of a simulated run.
REAL = (
    "00000-fio-version.process.json",
    "00000-probe-*.fio",
    "00000-probe-*.json",
    "00000-probe-*.process.json",
    "00000-purge.process.json",
    "00001-*.fio",
    "00001-*.json",
    "00001-*.process.json",
    "00001-*.samples.json.gz",
)
SIMULATED = ("00001-purge.json", "00002-*.json")
KINDS = [*(("real", kind) for kind in REAL), *(("simulated", kind) for kind in SIMULATED)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short run on a file, ``real``, and a simulated one, ``simulated``; no test changes them."""
    folder = tmp_path_factory.mktemp("runs")
    settings = [word for setting in SHORT for word in ("--set", setting)]
    target = str(folder / "drive.img")
    asked = ("wsat", target, "--size", "32M", "--serial", "drive.img", "--run-dir", str(folder / "real"))
    assert main([*asked, *settings, "--to", "none", "--progress", "none"]) == 0
    killing.reference("throughput", folder / "simulated")
    return folder


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Callable[[str], RunFolder]:
    """Return a function that copies a run."""

    def copy(name: str) -> RunFolder:
        shutil.copytree(runs / name, tmp_path / name)
        return RunFolder(path=tmp_path / name)

    return copy


def found(folder: RunFolder, kind: str) -> Path:
    """Return the one file of a kind."""
    (path,) = (item for item in folder.evidence.glob(kind) if (".process." in item.name) == (".process." in kind))
    return path


def alter(path: Path) -> None:
    """Change one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def require_refused(capsys: pytest.CaptureFixture[str], intact: Path, folder: RunFolder, *names: str) -> None:
    """Require that assess, report and compare name these files and end with 14, and that report writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    for words in (["assess"], ["assess", "--json"], ["report", "--to", "rst"], ["compare", str(intact)]):
        assert main([*words, str(folder.path)]) == 14, words
        output = capsys.readouterr()
        assert all(name in output.out + output.err for name in names), words
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before


@pytest.mark.long
@pytest.mark.parametrize("run", ["real", "simulated"])
def test_unchanged_runs_agree(
    run: str, runs: Path, copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with unchanged evidence is assessed, reported and compared; the journal names each of its files."""
    folder = copied(run)

    assert main(["assess", str(folder.path)]) == 0
    assert "all evidence agree with the journal" in capsys.readouterr().out
    assert main(["report", "--to", "none", str(folder.path)]) == 0
    assert main(["compare", str(runs / run), str(folder.path)]) == 0
    assert set(assess(folder).evidence or ()) == {path.name for path in folder.evidence.iterdir()}


@pytest.mark.long_but_first
@pytest.mark.parametrize(("run", "kind"), KINDS)
@pytest.mark.parametrize("change", [alter, os.unlink])
def test_altered_and_missing_evidence_is_refused(
    run: str,
    kind: str,
    change: Callable[[Path], None],
    runs: Path,
    copied: Callable[[str], RunFolder],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One changed byte, or a missing file, of any kind of evidence is named, and no report is made of it."""
    folder = copied(run)
    path = found(folder, kind)
    change(path)

    require_refused(capsys, runs / run, folder, path.name)


@pytest.mark.parametrize(("run", "kind"), [pair for pair in KINDS if pair[1][:5] in ("00001", "00002")])
def test_swapped_evidence_is_refused(
    run: str, kind: str, runs: Path, copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two swapped files are both named."""
    folder = copied(run)
    first = found(folder, kind)
    second = found(folder, "00002-*.json") if run == "real" else sorted(folder.evidence.glob("*.json"))[-1]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)

    require_refused(capsys, runs / run, folder, first.name, second.name)


@pytest.mark.parametrize(
    "name", ["00003-rnd-4096b-r0.json.bak", "note.txt", "00001-more/file", "\u202etxt.exe", "link"]
)
def test_additional_evidence_is_refused(
    name: str, runs: Path, copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that the journal of a finished run does not name is refused; its name cannot reverse a line."""
    folder = copied("real")
    path = folder.evidence / name
    path.parent.mkdir(exist_ok=True)
    if name == "link":
        path.symlink_to("/etc/hostname")
    else:
        path.write_text("planted")

    require_refused(capsys, runs / "real", folder, ascii(name)[1:-1])


def test_a_symlink_is_no_evidence(
    runs: Path, copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A symlink in the place of evidence is refused, also one to the same content."""
    folder = copied("real")
    path = found(folder, "00001-*.fio")
    path.unlink()
    path.symlink_to(runs / "real/evidence" / path.name)

    require_refused(capsys, runs / "real", folder, path.name)


def test_the_journal_of_another_run_is_refused(
    runs: Path, copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A run folder with the journal of another run is refused."""
    folder = copied("real")
    shutil.copy(runs / "simulated/journal.jsonl", folder.journal)

    require_refused(capsys, runs / "simulated", folder, "00001-purge.json")


def test_files_that_a_killed_run_left_are_named(
    copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """Files without an entry after a crash are named, but are not a difference; files with an entry are checked."""
    folder = copied("simulated")
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-2]))  # without the last measurement and the end
    folder.result.unlink()
    last = sorted(folder.evidence.iterdir())[-1]

    assert main(["assess", "--json", str(folder.path)]) == 0
    assert json.loads(capsys.readouterr().out)["unjournaled_evidence"] == [last.name]
    assert main(["assess", str(folder.path)]) == 0
    assert f"1 evidence file without a journal entry: {last.name}" in capsys.readouterr().out
    alter(found(folder, "00002-*.json"))
    assert main(["assess", str(folder.path)]) == 14


def test_files_that_a_killed_run_left_are_in_the_resumed_result(copied: Callable[[str], RunFolder]) -> None:
    """Files in evidence/ without an entry get one when the run is resumed, and the result names them."""
    folder = copied("simulated")
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    for path in sorted(folder.evidence.iterdir())[-3:]:
        path.unlink()
    (folder.evidence / "00000-odd.txt").write_text("who knows")
    assert "00000-odd.txt" in inspect_run(folder, "rule").unjournaled_files

    result = killing.resume_killed(folder, "rule")

    assert any("00000-odd.txt" in warning.detail for warning in run_warnings(result))
    assert check_evidence(folder, result).differences == check_evidence(folder, result).unjournaled == ()
    (folder.evidence / "00000-odd.txt").write_text("somebody else")
    assert "00000-odd.txt" in check_evidence(folder, result).differences[0]


@pytest.mark.parametrize("finished", [True, False])
def test_a_journal_without_digests_is_refused(
    finished: bool, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal whose digests were removed is refused, also for an unfinished run."""

    def change(entries: list[dict[str, Any]]) -> None:
        if not finished:
            del entries[-1]
        for entry in entries:
            entry.pop("evidence", None)

    folder = changed(runs / "real", tmp_path / "run", change)

    require_refused(capsys, runs / "real", folder, "the journal has no digest of it")


def test_a_folder_of_evidence_that_is_a_symlink_is_refused(
    runs: Path, copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """Evidence in another folder is refused, whatever it contains."""
    folder = copied("real")
    shutil.rmtree(folder.evidence)
    folder.evidence.symlink_to(runs / "real" / "evidence")

    require_refused(capsys, runs / "real", folder, "evidence/: it is a symlink")


def test_a_result_that_is_a_symlink_is_not_missing(
    copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A result.xml that leads nowhere is a difference."""
    folder = copied("real")
    folder.result.unlink()
    folder.result.symlink_to("nowhere")

    assert main(["assess", str(folder.path)]) == 14
    assert "result.xml is a symlink" in capsys.readouterr().out


def test_an_end_without_a_date_is_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal whose end has no valid time is damaged."""

    def change(entries: list[dict[str, Any]]) -> None:
        entries[-1]["at"] = "not a date"

    folder = changed(runs / "real", tmp_path / "run", change)

    assert main(["assess", str(folder.path)]) == 14
    assert "not a date" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must not follow other users' symlinks")
@pytest.mark.parametrize("verb", [("report", "--to", "rst"), ("export", "--to", "tkperf"), ("resume",), ("stop",)])
def test_root_writes_through_no_symlink_of_another_user(
    verb: tuple[str, ...], copied: Callable[[str], RunFolder], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If you are root, a run folder is refused if another user can change a symlink on the way to it."""
    folder = copied("simulated")
    folder.journal.write_bytes(b"".join(folder.journal.read_bytes().splitlines(keepends=True)[:-2]))
    link = tmp_path / "link"
    link.symlink_to(folder.path)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    before = {path: path.stat().st_mtime_ns for path in (folder.path, *folder.path.rglob("*"))}

    assert main([*verb, str(link)]) == RunFolderError.exit_code
    assert f"{link} is a symlink that belongs to" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (folder.path, *folder.path.rglob("*"))} == before


@pytest.mark.long
def test_files_in_use_are_recorded_later(tmp_path: Path) -> None:
    """The entry of a measurement has its own files, not those of the next one; the rest is in the last entry."""
    measurement = next(iter(killing.reference("iops", tmp_path / "run").result.measurements))
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    own, coming = f"{measurement.evidence}.fio", f"{int(measurement.evidence[:5]) + 1:05d}-rnd.fio"
    for name in (own, coming):
        (evidence / name).write_text(name)
    ledger = EvidenceLedger(evidence)

    assert ledger.digest_outcome(measurement).keys() == {own}
    (evidence / coming).write_text("complete")
    rest = ledger.digest_remaining()
    assert rest.keys() == {coming}
    assert ledger.digest_remaining() == {}


@pytest.mark.long
def test_the_files_of_a_rejected_attempt_are_in_its_measurements_entry(tmp_path: Path) -> None:
    """A file of a rejected attempt is digested with the measurement that replaced it, and compared later."""
    result = killing.reference("iops", tmp_path / "run").result
    folder, (loop, *_) = RunFolder(path=tmp_path / "run"), result.loops
    first = loop.rounds[0].measurements[0]
    name = "00000-rejected"
    path = folder.evidence / f"{name}.json"
    path.write_text("{}")
    digest = hashlib.sha256(b"{}").hexdigest()
    attempt = RejectedAttempt(reason="lost", seconds=1.0, evidence=name, evidence_sha256=digest)
    repeated = replace(first, rejected=(attempt,))

    assert EvidenceLedger(folder.evidence).digest_outcome(repeated)[path.name] == digest

    rounds = (replace(loop.rounds[0], measurements=(repeated, *loop.rounds[0].measurements[1:])), *loop.rounds[1:])
    journaled = {**result.evidence, path.name: digest}
    changed = replace(result, loops=(replace(loop, rounds=rounds), *result.loops[1:]), evidence=journaled)
    assert check_evidence(folder, changed).differences == ()
    path.write_text("[]")
    journaled[path.name] = hashlib.sha256(b"[]").hexdigest()  # as a ledger digests a file that was altered before
    assert path.name in check_evidence(folder, changed).differences[0]


def test_a_measurement_does_not_list_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of files, a list takes longer than the digests of the measurement's own files."""
    measurement = next(iter(killing.reference("iops", tmp_path / "run").result.measurements))
    monkeypatch.delattr(os, "scandir")

    assert f"{measurement.evidence}.json" in EvidenceLedger(tmp_path / "run/evidence").digest_outcome(measurement)


@pytest.mark.parametrize("change", [alter, os.unlink])
def test_a_run_with_altered_evidence_is_not_resumed(
    change: Callable[[Path], None], copied: Callable[[str], RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that were altered since the stop are named, with a remedy; nothing is added to the journal."""
    folder = copied("simulated")
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-2]))
    folder.result.unlink()
    require_resumable(folder, "rule")
    path = found(folder, "00002-*.json")
    change(path)
    before = folder.journal.read_bytes()

    assert main(["resume", str(folder.path)]) == 14
    message = capsys.readouterr().err
    assert path.name in message
    assert "backup" in message
    assert folder.journal.read_bytes() == before


def test_evidence_is_on_disk_before_its_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure leaves no entry without its evidence: files and folder are synced before the journal is."""
    order: list[str] = []
    fsync, fdatasync = os.fsync, os.fdatasync

    def synced(call: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            call(descriptor)
            order.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)

        return sync

    monkeypatch.setattr(os, "fsync", synced(fsync))
    monkeypatch.setattr(os, "fdatasync", synced(fdatasync))
    folder = perform_run(tmp_path / "run", "throughput")
    names = [path.name for path in folder.evidence.iterdir()]

    assert names
    for name in names:
        place = order.index(name)
        assert order.index("evidence", place) < order.index("journal.jsonl", place)


@pytest.mark.parametrize("place", ["folder", "symlink"])
def test_a_folder_in_place_of_the_evidence_is_not_recorded(place: str, tmp_path: Path) -> None:
    """The files of the run are in the open folder; those of another folder are not its evidence."""
    folder = RunFolder.create(tmp_path / "run")
    ledger = EvidenceLedger(folder.evidence)
    with folder.opened():
        (folder.evidence / "00000-a.json").write_text("true")
        assert ledger.digest_remaining().keys() == {"00000-a.json"}
        folder.evidence.rename(folder.path / "ev")
        if place == "folder":
            folder.evidence.mkdir()
        else:
            folder.evidence.symlink_to(folder.path / "ev")
        (folder.evidence / "planted.json").write_text("planted")
        with pytest.raises(HostFailed, match="another process replaced the folder"):
            ledger.digest_remaining()
