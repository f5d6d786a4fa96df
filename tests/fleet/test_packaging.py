"""The units of systemd in packaging/, as the Debian package installs them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from snia_pts.cli.parser import build_parser
from snia_pts.fleet import host_process, unit
from snia_pts.fleet.state_folder import RunState

PACKAGING = Path(__file__).parents[2] / "packaging"
_RUN = PACKAGING / "snia-pts-run@.service"
_NAME = "6a1e2a3c-1111-4222-8333-444455556666"
_PYTHON = "/opt/snia-pts/python"
#: The highest exposure (0 to 100) of each unit; the run needs drives and their settings.
_EXPOSURE = {
    "snia-pts-agent.service": 20,
    "snia-pts-collect.service": 20,
    "snia-pts-host.service": 25,
    "snia-pts-run@.service": 50,
    "snia-pts-serve.service": 20,
}


def test_the_unit_of_a_run_is_never_started_by_systemd() -> None:
    """It has no install section, no restart, and the name that the agent starts."""
    text = _RUN.read_text()
    assert "[Install]" not in text
    assert "Restart=no" in text
    assert unit._unit(RunState(path=Path(_NAME))) == _RUN.name.replace("@", f"@{_NAME}")
    (command,) = re.findall("ExecStart=(.*)", text)
    assert command.split() == [_PYTHON, "-m", "snia_pts.fleet.run_process", "/etc/snia-pts/agent.toml", "%i"]


def test_only_the_agent_calls_the_service_that_starts_runs() -> None:
    """Its socket is the one of the configuration, for the agent's group; the agent requires it."""
    text = (PACKAGING / "snia-pts-host.socket").read_text()
    (path,) = re.findall("ListenStream=(.*)", text)
    assert f'host_service = "{path}"' in (PACKAGING / "debian" / "agent.toml").read_text()
    assert "SocketGroup=snia-pts-agent\nSocketMode=0660\n" in text
    assert "Requires=snia-pts-host.socket\n" in (PACKAGING / "snia-pts-agent.service").read_text()
    (command,) = re.findall("ExecStart=(.*)", (PACKAGING / "snia-pts-host.service").read_text())
    assert command.split() == [_PYTHON, "-m", host_process.__name__, "/etc/snia-pts/agent.toml"]


@pytest.mark.parametrize("name", ["agent", "collect", "serve"])
def test_other_units_start_a_verb_of_the_program(name: str) -> None:
    """The parser accepts each command, with the variables of /etc/snia-pts/controller."""
    text = (PACKAGING / f"snia-pts-{name}.service").read_text()
    (command,) = re.findall("ExecStart=(.*)", text)
    command = re.sub(r"\$[A-Z]+_OPTIONS", "", command.replace("${SNIA_PTS_LAB}", "postgresql:///lab"))
    python, *words = command.split()

    assert (python, words[:2]) == (_PYTHON, ["-m", "snia_pts"])
    assert vars(build_parser().parse_args(words[2:]))
    assert f"User={'snia-pts-agent' if name == 'agent' else 'snia-pts'}\n" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt install systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Without a warning; the exposure of each service is at most what it needs."""
    instances = []
    for source in sorted([*PACKAGING.glob("*.service"), *PACKAGING.glob("*.socket"), *PACKAGING.glob("*.timer")]):
        path = tmp_path / source.name
        path.write_text(source.read_text().replace(_PYTHON, sys.executable))
        instances.append(str(path).replace("@", f"@{_NAME}"))
    done = subprocess.run(["systemd-analyze", "verify", *instances], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")

    assert sorted(_EXPOSURE) == sorted(path.name for path in tmp_path.glob("*.service"))
    for name, exposure in _EXPOSURE.items():
        words = ["--offline=true", f"--threshold={exposure}", "--no-pager", str(tmp_path / name)]
        done = subprocess.run(["systemd-analyze", "security", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
