"""Runs the command line as a user does, in a separate process; and finds the processes and files of a run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from snia_pts.cli.main import main

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def snia_pts(folder: Path, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command line in ``folder``."""
    done = subprocess.run(
        command(*argv),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def command(*argv: str) -> list[str]:
    """Return the command line of this checkout."""
    return [sys.executable, "-m", "snia_pts", *argv]


def assessed(run: Path) -> dict[str, Any]:
    """Return the output of ``assess --json`` for a stored run, or several; require that it finds no difference."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(["assess", str(run), "--json"]) == 0
    document: dict[str, Any] = json.loads(output.getvalue())
    return document


def checked(run: Path) -> subprocess.CompletedProcess[str]:
    """Compare every number of a run with fio's own output, by a script without code of the suite."""
    script = [sys.executable, "-I", str(ROOT / "tests" / "check_cells.py"), str(run)]
    return subprocess.run(script, capture_output=True, text=True, check=False)


def fio_of(folder: Path) -> list[str]:
    """Return the command line of each fio process that works for a run in ``folder``, and the files it has open."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        opened = opened_files(int(path.parent.name))
        if words[0].endswith("fio") and any(name.startswith(f"{folder}/") for name in opened):
            found.append(" ".join((*words, *opened)))
    return found


def opened_files(pid: int) -> list[str]:
    """Return the names of the files that a process has open; none if it has ended."""
    found = list[str]()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(link.readlink()))
    return found
