"""What is installed is whole: a wheel holds the data, and a source distribution all that a contributor needs."""

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
    """A copy of what is under version control; symbolic links would become what they are without support for them."""
    kept = (".ci", ".gitignore")
    others = [path.name for path in ROOT.glob(".*") if path.name not in kept]
    others += ["runs", "build", "dist", "*.img", "*.egg-info", "__pycache__"]
    return shutil.copytree(ROOT, tmp_path / "clone", ignore=shutil.ignore_patterns(*others))


def content(folder: Path) -> set[str]:
    """Return the paths of all files below ``folder``."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def built(kind: str, clone: Path, target: Path) -> Path:
    """Build ``wheel`` or ``sdist`` of ``clone`` and return its path."""
    command = [sys.executable, "-c", BUILD, f"build_{kind}", str(target)]
    done = subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True)
    return target / done.stdout.splitlines()[-1]


def test_the_tree_has_no_symbolic_links() -> None:
    """A zip, and a checkout where git makes no symbolic links, hold the same as any other."""
    folders = [path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name != "runs"]

    assert [path for folder in folders for path in [folder, *folder.rglob("*")] if path.is_symlink()] == []


def test_the_wheel_holds_all_data(clone: Path, tmp_path: Path) -> None:
    """Each file of specs/ and reports/ but the samples is in the wheel; the build writes nothing into the tree."""
    before = content(clone)
    names = set(zipfile.ZipFile(built("wheel", clone, tmp_path)).namelist())

    wanted = {name for name in before if name.startswith(("specs/", "reports/")) and "/samples/" not in name}
    assert wanted
    assert {name.removeprefix("snia_pts/data/") for name in names if name.startswith("snia_pts/data/")} == wanted
    assert {name for name in before if name.startswith("snia_pts/")} <= names
    assert content(clone) == before


def test_the_installed_suite_finds_its_data(clone: Path, tmp_path: Path) -> None:
    """What a wheel installs plans a test of the standard, far from any checkout."""
    shutil.unpack_archive(built("wheel", clone, tmp_path), tmp_path / "installed", "zip")
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
    """It holds every file of the tree, executable where it was, and its tests pass where it was unpacked."""
    with tarfile.open(built("sdist", clone, tmp_path)) as archive:
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
