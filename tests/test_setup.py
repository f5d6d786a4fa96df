"""scripts/setup if something is missing that it may not install: one message, and nothing is created."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: The programs of a minimal system, without apt, sudo, fio and Python.
TOOLS = ("bash", "cat", "dirname", "env", "flock", "head", "readlink", "rm", "sha256sum", "sort", "tail")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the files that set-up reads, and beside it a folder of programs, ``bin``."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    return folder


def program(checkout: Path, name: str, script: str) -> None:
    """Put a program on the PATH of set-up."""
    path = checkout.parent / "bin" / name
    path.write_text(f"#!/usr/bin/env bash\n{script}\n")
    path.chmod(0o755)


def refusal(checkout: Path, *options: str) -> str:
    """Run set-up, which must fail; return its only line, after a check that nothing was created or removed."""
    before = sorted(checkout.rglob("*"))
    # Set-up also searches /usr/sbin.
    done = subprocess.run(
        ["scripts/setup", *options],
        cwd=checkout,
        env={"PATH": str(checkout.parent / "bin")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("scripts/setup: ")
    assert sorted(checkout.rglob("*")) == before
    return line


def test_everything_missing_is_named_at_once(checkout: Path) -> None:
    """One message has the packages, the apt command, and what no package provides."""
    program(checkout, "python3", '[ "$1" = -V ] && echo "Python 3.10.12"')
    message = refusal(checkout, "--test")

    assert "Python 3.11 or newer" in message
    assert "Python 3.10.12" in message
    packages = re.search(r"apt install ([^)]*)\)", message)
    assert packages is not None
    assert {"fio", "libxml2-utils", "openssl"} <= set(packages[1].split())


def test_an_unknown_option_is_refused(checkout: Path) -> None:
    """The message has the valid options."""
    assert refusal(checkout, "--doc").endswith("unknown option --doc; expected --test or --docs.")


def test_an_environment_of_the_user_is_kept(checkout: Path) -> None:
    """Set-up removes only a .venv that it created."""
    program(checkout, "python3", f'exec {sys.executable} "$@"')
    program(checkout, "fio", "echo fio-3.33")
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "notes.txt").write_text("mine")

    assert "/.venv was not made by scripts/setup; move it elsewhere" in refusal(checkout)


def test_a_run_needs_less_than_the_tests(checkout: Path) -> None:
    """Without --test, only fio and Python are required."""
    program(checkout, "python3", "exit 1")
    message = refusal(checkout)

    assert "fio" in message
    assert "libxml2-utils" not in message


@pytest.mark.parametrize(("version", "named"), [("fio-3.28", True), ("fio-3.33", False), ("fio-3.100", False)])
def test_an_fio_that_is_too_old_is_named(checkout: Path, version: str, named: bool) -> None:
    """The same system has no newer package: the message has its version and the required one."""
    program(checkout, "python3", "exit 1")
    program(checkout, "fio", f"echo {version}")
    message = refusal(checkout)

    assert (f"fio 3.33 or newer is needed (found: {version})" in message) is named
