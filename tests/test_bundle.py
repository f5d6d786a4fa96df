"""A bundle is read like its run; with --mask, it has no text that identifies a drive, a host or a person."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from pathlib import Path

import pytest

from snia_pts.api.assessment import assess
from snia_pts.api.bundle import HOST_NAME, bundle
from snia_pts.cli.main import main
from snia_pts.record.folder import RunFolder, default_name
from snia_pts.record.masking import mask
from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import RunFacts
from tests.run_folders.make import stored_runs
from tests.test_run_folders import unpacked

#: Names of a kind each, with letters that JSON and XML write in another way; the serial number is also in a note.
ABOUT = """\
format = 1
operator = "Ann O'Tester & Söhne"
vendor = "Vendor <Secret>"
hba = "Adapter 9500"
model = "Prototype \\"Zeta\\""
serial = "ZX81-0042"
firmware = "9.7"
notes = ["Sample of ZX81-0042, shipped by Émile."]

[features]
"endurance" = "3 DWPD for Customer GmbH"

[sign_off]
approved_by = "Bob Lead"
"""
SECRETS = ("Tester", "Söhne", "Secret", "9500", "Zeta", "ZX81", "Émile", "Customer", "Bob", "acme")


@pytest.fixture(autouse=True)
def _later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read stored runs as a later version of the suite does."""
    monkeypatch.setattr("snia_pts.runner.verification.__version__", "later")


def contents(path: Path) -> dict[str, str]:
    """Return the texts of the files of a bundle by relative path; a compressed file is decompressed."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            if (file := archive.extractfile(member)) is not None:
                content = file.read()
                name = member.name.partition("/")[2]
                found[name] = (gzip.decompress(content) if name.endswith(".gz") else content).decode(errors="replace")
    return found


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", [name for name in stored_runs() if name != "imported"])  # a folder of several
def test_a_masked_run_is_judged_like_the_run(name: str, tmp_path: Path) -> None:
    """Its figures are those of the run, and its evidence belongs to it."""
    run = unpacked(name, tmp_path)
    before = assess(run)

    made = bundle(run, tmp_path / "fault.tar.xz", masked=True)

    after = assess(made.path)
    assert after.differences == before.differences
    assert key_figures(after.run.result) == key_figures(before.run.result)
    assert after.run.result.facts.platform.hostname == "host-1"
    facts = json.loads(contents(made.path)[HOST_NAME])
    assert facts["platform"]["hostname"] == ""
    assert facts["packages"]["numpy"]


def test_no_secret_is_in_a_masked_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as JSON nor as XML writes it, in whatever file; the same bundle without --mask has all of them."""
    folder = tmp_path / "acme-project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "lab.toml").write_text(ABOUT)
    run = folder / "run"
    words = ["--about", str(folder / "lab.toml"), "--set", "rounds.maximum=5", "--progress", "none", "--to", "html,pdf"]
    assert main(["latency", "sim:enterprise-nvme", "--seed", "1", "--run-dir", str(run), *words]) in (0, 10)

    assert main(["bundle", str(run), "--to", "masked.tar.xz", "--mask"]) == 0
    assert main(["bundle", str(run), "--to", "whole.tar.xz"]) == 0

    masked, whole = contents(folder / "masked.tar.xz"), "\n".join(contents(folder / "whole.tar.xz").values())
    texts = "\n".join(text for name, text in masked.items() if name != HOST_NAME)
    assert [name for name in SECRETS if name in texts] == []
    assert [name for name in SECRETS if name not in whole] == []
    assert "serial-1" in texts
    removed = json.loads(masked[HOST_NAME])["removed"]
    assert {"report.html", "report.pdf"} <= set(removed)
    assert not set(removed) & set(masked)


def test_a_run_whose_judgement_would_change_is_not_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written then."""
    run = unpacked("iops", tmp_path)

    def damage(folder: RunFolder, facts: RunFacts) -> tuple[str, ...]:
        removed = mask(folder, facts)
        folder.result.write_text(re.sub(r'iops="\d', 'iops="9', folder.result.read_text()))
        return removed

    monkeypatch.setattr("snia_pts.api.bundle.mask", damage)
    assert main(["bundle", str(run), "--to", str(tmp_path / "x.tar.xz"), "--mask"]) == 14
    assert "masked, it is judged differently" in capsys.readouterr().err
    assert not (tmp_path / "x.tar.xz").exists()


IDENTIFIERS = """\
  "eui64":"002538b1c2d3e4f5",
  "nguid":"0025388100112233002538b1c2d3e4f5",
Logical Unit WWN Device Identifier: 5002538540123456
  "wwn": {
    "naa": 5,
    "oui": 9528,
    "id": 61350412345
  },
HOME=/home/anna
wwid eui.0025385600000001, subnqn "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3010-8052-b4c04f463232"
"""


def test_identifiers_in_the_answers_of_a_drive_are_masked(tmp_path: Path) -> None:
    """As nvme-cli, hdparm, smartctl and the kernel print them, in the output of a recorded program."""
    run = unpacked("drive", tmp_path)
    (run / "evidence" / "99999-identify.process.json").write_text(json.dumps({"stdout": IDENTIFIERS}))

    made = bundle(run, tmp_path / "fault.tar.xz", masked=True)

    text = contents(made.path)["evidence/99999-identify.process.json"]
    assert [found for found in re.findall(r"[0-9a-f-]{8,}", IDENTIFIERS) if found in text] == []
    assert text.count("id-") == 5
    assert "anna" not in text
    assert '"nguid' in json.loads(text)["stdout"]


@pytest.mark.long
def test_the_name_of_the_run_folder_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a drive has its model, with hyphens; the name of the bundle has neither."""
    monkeypatch.chdir(tmp_path)
    model = "Simulated enterprise NVMe SSD, 1 DWPD"
    run = f"runs/{default_name('latency', model, '2026-01-30')}"
    words = ["--set", "rounds.maximum=5", "--progress", "none", "--to", "none", "--run-dir", run]
    assert main(["latency", "sim:enterprise-nvme", "--seed", "1", *words]) in (0, 10)

    assert main(["bundle", run, "--mask"]) == 0

    found = contents(tmp_path / "masked-bundle.tar.xz")
    texts = "\n".join(text for name, text in found.items() if name != HOST_NAME)
    assert "latency-model-1-" in texts
    assert "NVMe-SSD" not in texts
    with tarfile.open(tmp_path / "masked-bundle.tar.xz") as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"masked-bundle"}


def test_a_damaged_compressed_file_is_not_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what is damaged; without --mask it is bundled."""
    run = unpacked("drive", tmp_path)
    (sampled,) = sorted((run / "evidence").glob("*.json.gz"))[:1]
    sampled.write_bytes(sampled.read_bytes()[:20])

    assert main(["bundle", str(run), "--to", str(tmp_path / "x.tar.xz"), "--mask"]) == 14
    assert "it cannot be masked (it cannot be decompressed" in capsys.readouterr().err
    assert main(["bundle", str(run), "--to", str(tmp_path / "x.tar.xz")]) == 0


def test_a_damaged_run_is_bundled_as_it_is(tmp_path: Path) -> None:
    """A fault may have damaged it; its journal is that of the run."""
    run = unpacked("iops", tmp_path)
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-100] + b"\n")

    made = bundle(run, tmp_path / "fault.tar.xz")

    assert contents(made.path)["journal.jsonl"] == journal.read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nothing",), 14, "no journal.jsonl"),
        (("iops", "--to", "fault.zip"), 2, "ends with .tar.xz"),
        (("iops", "--to", "there.tar.xz"), 2, "exists"),
        (("iops", "--to", "no/such/folder.tar.xz"), 13, "No such file or directory"),
    ],
)
def test_a_bundle_that_cannot_be_made_is_refused(
    words: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a sentence and an exit code; an existing file stays."""
    unpacked("iops", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.tar.xz").write_text("mine")

    assert main(["bundle", *words]) == code
    assert message in capsys.readouterr().err
    assert (tmp_path / "there.tar.xz").read_text() == "mine"
