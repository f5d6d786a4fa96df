"""The list of everything that was not tested, at the end of a run of the tests, for both halves of scripts/test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def listed(folder: Path, chosen: str, *options: str) -> str:
    """Run the tests of a folder with the settings of this suite; return the list at the end."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-m", chosen, *options]
    done = subprocess.run(
        [*command, "-c", str(folder / "pytest.ini"), str(folder)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SNIA_PTS_NOT_TRIED": str(folder / "not-tried")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.partition("not tried here")[2].partition("\n")[2].partition("\n===")[0]


@pytest.mark.long
def test_both_halves_list_what_was_not_tested(tmp_path: Path) -> None:
    """Each area has its reason and number of tests: skipped in one of the halves, or omitted as long."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: long\n")
    (tmp_path / "not-tried").touch()
    (tmp_path / "test_wheel_data.py").write_text(
        "import pytest\n@pytest.mark.parametrize('x', [1, 2])\ndef test_a(x):\n    pytest.skip('soffice is missing')\n"
        "def test_b():\n    pass\n"
    )
    (tmp_path / "test_arrays.py").write_text(
        "import pytest\n@pytest.mark.device\ndef test_c():\n    pytest.skip('mdadm\\nis missing')\n"
        "@pytest.mark.long\ndef test_d():\n    pass\n"
    )
    first = listed(tmp_path, "not long and not device", "-n", "2")
    both = listed(tmp_path, "not long and device")

    assert first.splitlines() == ["  wheel data: soffice is missing (2 tests)"]
    assert both.splitlines() == [
        "  arrays: long tests (SNIA_PTS_LONG=1) (1 test)",
        "  arrays: mdadm is missing (1 test)",
        "  wheel data: soffice is missing (2 tests)",
    ]
