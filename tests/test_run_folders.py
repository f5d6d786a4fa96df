"""Stored run folders stay readable, with the figures that they had when they were made.

``tests/run_folders`` contains a run of each test, one that was interrupted and resumed, one of a profile, one imported
from TKperf, and two of fio: on a loop device, and on an array for which another loop device stands in.
``python -m tests.run_folders.make`` replaces runs of versions before 0.2.0; runs of later versions stay.

Each run states the version of the suite that made it.  ``assess`` compares job files and the words of deviations only
for runs of its own version, because another version may write them differently.  The tests read the runs as a later
version does, so that a change of such words needs no new runs; ``make`` checks everything with its own version.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from snia_pts import __version__
from snia_pts.cli.main import main
from snia_pts.errors import RecordError
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.report import DATA_OUTPUTS, OUTPUTS, report_paths
from snia_pts.spec import SPEC_TYPES
from tests.run_folders.make import HERE, RUNS, add_runs, expected, stored_runs, summarize

_FORMATS = (*OUTPUTS, *DATA_OUTPUTS)


@pytest.fixture(autouse=True)
def _later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the runs as a later version of the suite does."""
    monkeypatch.setattr("snia_pts.runner.verification.__version__", "later")


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a stored run and return its folder."""
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Python 3.11.2
    shutil.unpack_archive(HERE / f"{name}.tar.xz", folder, **options)
    return folder / name.partition("-")[0]  # without the version, as it was when it was made


def folders(run: Path) -> list[Path]:
    """Return the folders of the tests of a run: several if it is a suite folder."""
    return sorted(journal.parent for journal in run.rglob("journal.jsonl"))


def files(folder: Path) -> dict[Path, bytes]:
    """Return the content of all files in a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_runs_are_stored() -> None:
    """The folder has a run of each name that ``make`` makes, and an archive and the figures of each run."""
    archives = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("*.tar.xz"))

    assert archives == stored_runs()
    assert {*archives} >= {*RUNS}


def _made(folder: Path, version: str) -> Path:
    """Return a folder with a run of a version of the suite."""
    folder.mkdir()
    (folder / "iops.json").write_text(json.dumps({"suite_version": version}))
    (folder / "iops.tar.xz").write_text(f"archive of {version}")
    return folder


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("0.1.0", "0.2.0", ["iops.json", "iops.tar.xz"]),
        ("0.2.0.dev1", "0.2.0", ["iops.json", "iops.tar.xz"]),
        ("0.2.0", "0.10.0", ["iops-0.10.0.json", "iops-0.10.0.tar.xz", "iops.json", "iops.tar.xz"]),
        ("0.10.0", "0.11.0", ["iops-0.11.0.json", "iops-0.11.0.tar.xz", "iops.json", "iops.tar.xz"]),
    ],
)
def test_runs_of_release_0_2_0_and_later_are_never_replaced(
    old: str, new: str, names: list[str], tmp_path: Path
) -> None:
    """A run of an earlier version is replaced; beside a later one, the new run gets a name with its version."""
    stored, made = _made(tmp_path / "stored", old), _made(tmp_path / "made", new)
    before = files(stored)

    added = add_runs(made, stored)

    assert sorted(path.name for path in stored.iterdir()) == names
    assert [path.read_bytes() for path in added] == [path.read_bytes() for path in sorted(made.iterdir())]
    assert len(names) == 2 or before.items() <= files(stored).items()


def test_a_second_run_of_the_same_release_is_refused(tmp_path: Path) -> None:
    """Nothing is written, and the error names the file that stays."""
    stored = _made(tmp_path / "stored", "0.2.0")
    add_runs(_made(tmp_path / "made", "0.3.0"), stored)
    before = files(stored)

    with pytest.raises(FileExistsError, match=r"iops-0\.3\.0\.json"):
        add_runs(_made(tmp_path / "again", "0.3.0"), stored)
    assert files(stored) == before


def test_the_stored_runs_are_of_all_kinds(tmp_path: Path) -> None:
    """There is one of each test, one interrupted, one of a profile, one on an array, one imported, one on real fio."""
    stored = {name: assess(RunFolder.existing(folder)) for name in RUNS for folder in folders(unpacked(name, tmp_path))}

    assert {result.facts.spec.test for result in stored.values()} == {*SPEC_TYPES, "profile"}
    assert [name for name, result in stored.items() if result.interruptions] == ["interrupted"]
    assert [name for name, result in stored.items() if result.facts.dut.array] == ["array"]
    assert [name for name, result in stored.items() if result.facts.imported] == ["imported"]
    assert {name for name, result in stored.items() if result.facts.platform.engine == "fio"} >= {"array", "drive"}


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", stored_runs())
def test_a_stored_run_has_its_verdict_and_figures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Journal, evidence and result.xml agree; verdict and key figures are those stored; reading changes nothing."""
    run, known = unpacked(name, tmp_path), expected(name)
    before = files(run)

    assert main(["assess", str(run), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [test["differs_from_journal"] for test in document.get("tests", [document])] == [[] for _ in known["tests"]]
    assert main(["status", str(run), "--json"]) == 0
    assert [test["verdict"] for test in known["tests"]]
    found = summarize(run)
    figures = [test.pop("figures") for test in known["tests"]]
    assert [test.pop("figures") for test in found["tests"]] == [pytest.approx(values) for values in figures]
    assert found == known
    assert all(figures)
    assert files(run) == before


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", stored_runs())
def test_a_stored_run_is_reported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every format is written, and result.xml stays as it was, except for the version that writes it."""
    run = unpacked(name, tmp_path)
    before = {path: path.read_bytes() for path in run.rglob("result.xml")}
    (writer,) = {version for content in before.values() for version in re.findall(rb'suite_version="(.+?)"', content)}
    monkeypatch.setattr("snia_pts.record.result_xml.__version__", writer.decode())

    assert main(["report", str(run), "--to", ",".join(_FORMATS)]) == 0
    assert capsys.readouterr().err == ""
    assert before
    for result, content in before.items():
        assert result.read_bytes() == content
        assert [path for path in report_paths(result.parent, _FORMATS).values() if not path.exists()] == []


@pytest.mark.parametrize("name", stored_runs())
def test_a_stored_run_is_compared(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison of a run with itself has all its key figures, without a difference."""
    run = unpacked(name, tmp_path)

    for test in expected(name)["tests"]:
        folder = str(run / test["test"] if name.startswith("imported") else run)
        assert main(["compare", folder, folder, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert len(document["figures"]) == len(test["figures"])
        assert {figure["differences"][1]["percent"] for figure in document["figures"]} <= {0.0, None}


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", ["array", "imported", "iops"])
def test_a_changed_byte_in_the_evidence_is_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``assess`` and ``report`` end with the code of altered records."""
    run = unpacked(name, tmp_path)
    evidence = sorted(run.rglob("evidence/*.json" if name != "imported" else "evidence/*.xml"))[-1]
    content = bytearray(evidence.read_bytes())
    content[len(content) // 2] ^= 1
    evidence.write_bytes(content)

    assert main(["assess", str(run)]) == RecordError.exit_code == 14
    assert evidence.name in capsys.readouterr().out
    assert main(["report", str(run), "--to", "json"]) == 14


def _edited(name: str, folder: Path, edit: Callable[[etree._Element], object]) -> Path:
    """Unpack a stored run and edit its result.xml; return the folder."""
    run = unpacked(name, folder)
    document = etree.parse(str(run / "result.xml"))
    edit(document.getroot())
    document.write(str(run / "result.xml"), encoding="UTF-8", xml_declaration=True)
    return run


def _remove(element: etree._Element) -> None:
    parent = element.getparent()
    assert parent is not None
    parent.remove(element)


def _older(root: etree._Element) -> None:
    """Make a result.xml as of a version without gaps, percentiles and the gap after a measurement."""
    for element in [*root.iter("gaps", "percentiles")]:
        _remove(element)
    for measured in root.iter("measurement"):
        measured.attrib.pop("suite_gap_us", None)


def test_an_older_result_without_kinds_of_elements_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Elements and attributes that a later version adds are no difference; the figures are those stored."""
    run = _edited("iops", tmp_path, _older)
    content = (run / "result.xml").read_bytes()
    assert not any(name in content for name in (b"<gaps", b"<percentiles", b"suite_gap_us"))

    assert main(["assess", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differs_from_journal"] == []
    assert summarize(run)["tests"][0]["verdict"] == expected("iops")["tests"][0]["verdict"]


def test_a_result_of_this_version_must_have_every_element(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same document is refused if it states the version that reads it."""

    def edit(root: etree._Element) -> None:
        _older(root)
        root.set("suite_version", __version__)

    assert main(["assess", str(_edited("iops", tmp_path, edit))]) == RecordError.exit_code
    assert "suite_gap_us: stored None, expected" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["value", "element"])
def test_a_changed_older_result_is_refused(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed number is found, and so is one missing element of a kind that the document has elsewhere."""

    def edit(root: etree._Element) -> None:
        measured = next(root.iter("measurement"))
        if kind == "value":
            measured.set("iops", str(float(measured.get("iops", "")) + 1))
        else:
            _remove(measured)

    assert main(["assess", str(_edited("iops", tmp_path, edit))]) == RecordError.exit_code
    assert re.search(r"line \d+, measurement iops: stored .*, expected", capsys.readouterr().out)
