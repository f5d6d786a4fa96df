"""The wheel contains the data files, the source distribution everything that a contributor needs."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


@pytest.fixture(name="clone")
def _clone(tmp_path: Path) -> Path:
    """A copy of the tree, without run folders, build output and hidden files; symlinks become regular files."""
    kept = (".ci", ".gitignore")
    ignored = [path.name for path in ROOT.glob(".*") if path.name not in kept]
    ignored += ["runs", "build", "dist", "*.img", "*.egg-info", "__pycache__"]
    return shutil.copytree(ROOT, tmp_path / "clone", ignore=shutil.ignore_patterns(*ignored))


def content(folder: Path) -> set[str]:
    """Return the paths of all files below ``folder``."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def build(kind: str, clone: Path, target: Path) -> Path:
    """Build ``wheel`` or ``sdist`` of ``clone`` and return its path."""
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(target)]
    done = subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True)
    return target / done.stdout.splitlines()[-1]


def test_the_tree_has_no_symlinks() -> None:
    """No symlink is in the tree, so that a zip and a checkout without symlink support are complete."""
    folders = [path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name != "runs"]

    assert [path for folder in folders for path in [folder, *folder.rglob("*")] if path.is_symlink()] == []


def test_the_wheel_contains_all_data_files(clone: Path, tmp_path: Path) -> None:
    """The wheel has all files of specs/ and reports/ except samples; the build leaves the tree unchanged."""
    before = content(clone)
    names = set(zipfile.ZipFile(build("wheel", clone, tmp_path)).namelist())

    data_files = {name for name in before if name.startswith(("specs/", "reports/")) and "/samples/" not in name}
    assert data_files
    assert {name.removeprefix("snia_pts/data/") for name in names if name.startswith("snia_pts/data/")} == data_files
    assert {name for name in before if name.startswith("snia_pts/")} <= names
    assert content(clone) == before


@pytest.mark.long
def test_the_installed_package_finds_its_data(clone: Path, tmp_path: Path) -> None:
    """An installed wheel plans a test of the standard without the source tree."""
    shutil.unpack_archive(build("wheel", clone, tmp_path), tmp_path / "installed", "zip")
    shutil.rmtree(clone)
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
    """It contains every file of the tree, and its tests pass in the unpacked folder."""
    with tarfile.open(build("sdist", clone, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("snia_pts-*/")

    assert content(clone) <= content(unpacked)
    tests = ["tests/test_architecture.py", "tests/test_docs.py", "tests/test_acceptance.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not lint", *tests],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
