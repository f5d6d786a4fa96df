"""The wheel contains the data files, the source distribution everything that a contributor needs."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from docutils.core import publish_parts

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def copied_tree(target: Path) -> Path:
    """Copy the tree without run folders, build output and hidden files; symlinks become regular files."""
    kept = (".ci", ".github", ".gitignore")
    ignored = [path.name for path in ROOT.glob(".*") if path.name not in kept]
    ignored += ["runs", "build", "dist", "*.img", "*.egg-info", "__pycache__"]
    return shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*ignored))


@pytest.fixture(name="clone")
def _clone(tmp_path: Path) -> Path:
    """A copy of the tree."""
    return copied_tree(tmp_path / "clone")


def content(folder: Path) -> set[str]:
    """Return the paths of all files below ``folder``."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def build(kind: str, clone: Path, target: Path) -> Path:
    """Build ``wheel`` or ``sdist`` of ``clone`` and return its path."""
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(target)]
    done = subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True)
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(name="wheel", scope="module")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the tree; its build leaves the tree unchanged."""
    clone = copied_tree(tmp_path_factory.mktemp("tree") / "clone")
    before = content(clone)
    wheel = build("wheel", clone, tmp_path_factory.mktemp("wheel"))
    assert content(clone) == before
    shutil.rmtree(clone)
    return wheel


def test_the_tree_has_no_symlinks() -> None:
    """No symlink is in the tree, so that a zip and a checkout without symlink support are complete."""
    folders = [path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name != "runs"]

    assert [path for folder in folders for path in [folder, *folder.rglob("*")] if path.is_symlink()] == []


@pytest.mark.long
def test_the_wheel_contains_all_data_files(clone: Path, wheel: Path) -> None:
    """The wheel has specs/, reports/ without samples, and the pages of docs/."""
    before = content(clone)
    names = set(zipfile.ZipFile(wheel).namelist())

    data_files = {name for name in before if name.startswith(("specs/", "reports/")) and "/samples/" not in name}
    data_files |= {name for name in before if re.fullmatch(r"docs/[\w-]+\.rst", name)}
    assert {"specs/iops-2.0.2.toml", "reports/report.yaml", "docs/purge.rst"} <= data_files
    assert {name.removeprefix("snia_pts/data/") for name in names if name.startswith("snia_pts/data/")} == data_files
    assert {name for name in before if name.startswith("snia_pts/")} <= names


@pytest.mark.long
def test_two_builds_are_identical(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a release depend on the tree and SOURCE_DATE_EPOCH, not on the folder or the dates of files."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    another = shutil.copytree(clone, tmp_path / "another folder", copy_function=shutil.copyfile)
    for path in another.rglob("*"):
        path.chmod((clone / path.relative_to(another)).stat().st_mode)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    digests = []
    for number, tree in enumerate((clone, another)):
        target = tmp_path / str(number)
        target.mkdir()
        digests.append([build(kind, tree, target).read_bytes() for kind in ("sdist", "wheel")])

    assert digests[0] == digests[1]


@pytest.mark.long
def test_the_metadata_are_those_of_an_index(wheel: Path) -> None:
    """Author, licence expression and a description without links to files; no address, because there is none."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(archive.read(name))
    description = str(metadata.get_payload())

    assert metadata["Author"] == "the snia-pts developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/x-rst"
    assert {"Home-page", "Project-URL", "Author-email"}.isdisjoint(metadata.keys())
    assert "the report (``snia-pts docs tutorial-report``)" in description
    assert re.findall(r"\.\. image|https?://|>`_|git clone|\.venv", description) == []
    assert "    snia-pts iops /dev/nvme0n1 --plan" in description
    strict = {"halt_level": 2, "file_insertion_enabled": False, "raw_enabled": False}  # as an index renders it
    page = publish_parts(description, writer="html5", settings_overrides=strict)["html_body"]
    assert ">snia-pts</h1>" in page


@pytest.mark.long
def test_the_installed_package_finds_its_data(wheel: Path, tmp_path: Path) -> None:
    """An installed wheel plans a test of the standard without the source tree."""
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    done = subprocess.run(
        [sys.executable, "-m", "snia_pts", "iops", "sim:enterprise-nvme", "--plan"],
        cwd=tmp_path / "installed",
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "PTS-E 2.0.2" in done.stdout


@pytest.mark.long
def test_the_source_distribution_passes_its_own_tests(clone: Path, tmp_path: Path) -> None:
    """It contains every file of the tree, and its quick tests pass in the unpacked folder."""
    with tarfile.open(build("sdist", clone, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("snia_pts-*/")

    assert content(clone) <= content(unpacked)
    tests = ["tests/test_architecture.py", "tests/test_docs.py", "tests/test_acceptance.py"]
    environment = {**os.environ, "PYTHONPATH": "."}
    environment.pop("SNIA_PTS_NOT_TRIED", None)  # the list of this run, which has the long tests
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not lint and not long", *tests],
        cwd=unpacked,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
