"""Versions of Python and fio: a too old Python is refused, a version newer than tested is a warning in the result."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from snia_pts import __main__ as entry
from snia_pts.cli.main import main
from snia_pts.lab.fio.probe import MIN_VERSION
from snia_pts.model import test_platform as testplatform
from snia_pts.model.test_platform import NEWEST_TESTED
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.warnings import run_warnings
from tests import samples

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("facts", "programs"),
    [
        ({}, []),
        ({"python": "3.13.9", "engine_version": "3.39"}, []),
        ({"python": "3.99.1"}, ["Python 3.99.1"]),
        ({"python": "4.0.0", "engine_version": "3.100-12-gabcdef"}, ["Python 4.0.0", "fio 3.100-12-gabcdef"]),
        ({"engine": "simulated", "engine_version": "9.9"}, []),
        ({"python": "", "engine_version": "unknown"}, []),
    ],
)
def test_versions_newer_than_tested_are_named(facts: dict[str, str], programs: list[str]) -> None:
    """Versions are compared as numbers; unknown versions and those of other engines are ignored."""
    assert [program for program, _ in samples.platform(**facts).untested_versions()] == programs


def test_a_newer_version_is_a_warning_in_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run finishes, and its result has a warning that names the newest tested version."""
    monkeypatch.setattr(testplatform, "NEWEST_TESTED", {"Python": (3, 1)})
    arguments = (
        "queue-depth",
        "sim:enterprise-nvme",
        "--seconds",
        "5",
        "--axis",
        "queue_depth=1",
        "--progress",
        "none",
    )
    assert main(["profile", "run", *arguments, "--to", "none", "--run-dir", str(tmp_path / "run")]) == 0
    warnings = run_warnings(assess(RunFolder.existing(tmp_path / "run")))

    assert [warning.detail for warning in warnings if warning.what.startswith("Python 3.")] == [
        "this version is newer than 3.1, the newest that was tested"
    ]


def test_an_older_python_is_refused() -> None:
    """``python3.10 -m snia_pts`` exits with 4 and names the required and the found version."""
    old = "import runpy, sys; sys.version_info, sys.version = (3, 10, 12), '3.10.12 (main)'; "
    command = [sys.executable, "-c", old + "runpy.run_module('snia_pts', run_name='__main__')"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("snia-pts: Python 3.11 or newer (found: 3.10.12) is needed")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py", "plugins.py", "registries.py"])
def test_an_older_python_can_run_the_version_check(name: str) -> None:
    """The modules that run before the check have the syntax of Python 3.8 and no newer imports."""
    tree = ast.parse((ROOT / "snia_pts" / name).read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {
        module.name if isinstance(node, ast.Import) else f"{'.' * node.level}{node.module or module.name}"
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in node.names
    }
    standard = {"__future__", "collections.abc", "logging", "pkgutil", "re", "sys", "typing"}
    assert imported <= standard | {".cli.main", ".plugins", ".registries"}


def test_the_same_versions_are_stated_everywhere() -> None:
    """The package, its metadata, the set-up script and the page on installation agree on the oldest and newest."""

    def version(numbers: tuple[int, int]) -> str:
        return ".".join(map(str, numbers))

    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    setup, page = ((ROOT / name).read_text() for name in ("scripts/setup", "docs/tutorial-simulation.rst"))

    assert config["options"]["python_requires"] == f">={version(entry.OLDEST_PYTHON)}"
    assert config["metadata"]["classifiers"].strip().count(f"Python :: {version(NEWEST_TESTED['Python'])}\n") == 1
    assert f"oldest_fio={version(MIN_VERSION)}\n" in setup
    assert f"sys.version_info < {entry.OLDEST_PYTHON}" in setup
    assert re.search(rf"Python {version(entry.OLDEST_PYTHON)} to {version(NEWEST_TESTED['Python'])}", page)
    assert re.search(rf"fio {version(MIN_VERSION)} to {version(NEWEST_TESTED['fio'])}", page)
