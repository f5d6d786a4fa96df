"""The units of systemd in packaging/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from snia_pts.fleet import unit
from snia_pts.fleet.state_folder import RunState

PACKAGING = Path(__file__).parents[2] / "packaging"
_RUN = PACKAGING / "snia-pts-run@.service"
_NAME = "6a1e2a3c-1111-4222-8333-444455556666"


def test_the_unit_of_a_run_is_never_started_by_systemd() -> None:
    """It has no install section, no restart, and the name that the agent starts."""
    text = _RUN.read_text()
    assert "[Install]" not in text
    assert "Restart=no" in text
    assert unit._unit(RunState(path=Path(_NAME))) == _RUN.name.replace("@", f"@{_NAME}")
    (command,) = re.findall("ExecStart=(.*)", text)
    assert command.split()[1:] == ["-P", "-m", "snia_pts.fleet.run_process", "/etc/snia-pts/agent.toml", "%i"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt install systemd")
def test_systemd_accepts_the_unit_of_a_run(tmp_path: Path) -> None:
    """Without a warning, and its exposure is at most medium."""
    path = tmp_path / _RUN.name
    path.write_text(_RUN.read_text().replace("/opt/snia-pts/current/bin/python", sys.executable))
    instance = tmp_path / _RUN.name.replace("@", f"@{_NAME}")
    done = subprocess.run(["systemd-analyze", "verify", instance], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=50", "--no-pager", str(path)]
    done = subprocess.run(security, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
