"""A new user's machine: where nothing but git and Python is, set-up installs all that the demo and the tests need.

``scripts/bare`` makes such a system of this host's own release; the tests skip, and say why, where it cannot.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

BARE = Path(__file__).parent.parent / "scripts" / "bare"
#: Tests that need programs which set-up installs, or skip without them.
NEEDING_PROGRAMS = (
    "test_end_to_end",
    "test_mail",
    "test_privilege",
    "test_purge",
    "test_report_pdf",
)
#: Of the 56 points of a round of the IOPS test, those that steady state is judged by, and what lies between.
FEW_POINTS = "--set 'rounds.read_percents=[100, 65, 0]' --set 'rounds.block_sizes_kib=[1024, 64, 4]'"
#: What a test that skips for want of a package says of it, for each package that set-up installs.
MISSING = ("apt install libxml2-utils", "apt install openssl", "apt install e2fsprogs", "apt install fio")

pytestmark = [pytest.mark.root, pytest.mark.long]


def bare(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a bare system; skips where none can be made."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    command = [str(BARE), suite, *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 125:
        pytest.skip(done.stderr.splitlines()[-1])
    return done


def test_a_new_machine_runs_the_demo_and_has_what_the_tests_need() -> None:
    """scripts/demo installs what it needs and leaves two reports; after scripts/setup --test the tests pass.

    These are the tests that need programs beside fio.
    """
    demo = f"scripts/demo --point-seconds 0.1 {FEW_POINTS} && ls runs/*/report.pdf"
    tests = " ".join(f"tests/{name}.py" for name in NEEDING_PROGRAMS)
    pytest_command = f'HYPOTHESIS_PROFILE=ci .venv/bin/python -m pytest -q -m "not lint and not long" {tests}'
    done = bare(f"{demo} && scripts/setup --test && {pytest_command}")

    assert done.returncode == 0, done.stdout + done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("runs/") and line.endswith(".pdf")]) == 2
    assert not [package for package in MISSING if package in done.stdout]


def test_a_user_without_root_learns_what_is_missing() -> None:
    """Set-up that can install nothing names all packages that it needs at once."""
    done = bare("-u", "scripts/setup")

    assert done.returncode not in (0, 125)
    assert "fio" in done.stderr
    assert "-venv" in done.stderr
