"""The parts of the Debian package; scripts/deb-trial installs, upgrades and purges it on a bare system."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from snia_pts.errors import SpecError
from snia_pts.fleet.configuration import AgentFile, read_configuration
from snia_pts.lab.fio.probe import MIN_VERSION

PACKAGING = Path(__file__).parent.parent / "packaging"
DEBIAN = PACKAGING / "debian"
BUILD = Path(__file__).parent.parent / "scripts" / "deb"


def test_the_control_file_has_what_the_program_needs() -> None:
    """The Python of the build, the oldest fio, and what makes the user; scripts/deb fills in every placeholder."""
    text = (DEBIAN / "control").read_text()
    fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", text, re.MULTILINE))

    assert fields["Package"] == "snia-pts"
    assert fields["Depends"] == f"@PYTHON@, fio (>= {'.'.join(map(str, MIN_VERSION))}), adduser"
    placeholders = set(re.findall("@[A-Z]+@", text))
    assert placeholders == set(re.findall("s/(@[A-Z]+@)/", BUILD.read_text()))


def test_the_files_in_etc_are_conffiles() -> None:
    """scripts/deb lists as conffiles the files that it installs there."""
    text = BUILD.read_text()
    installed = re.findall(r'"\$root/etc/snia-pts" "\$packaging/debian/([\w.]+)"', text)
    (listed,) = re.findall(r"printf '/etc/snia-pts/%s\\n' (.*) >", text)

    assert sorted(installed) == listed.split() == ["agent.toml", "controller"]


def test_the_example_of_the_agent_is_complete_but_for_the_host() -> None:
    """As installed it is refused with the keys to add; without the comment signs it is a configuration."""
    path = DEBIAN / "agent.toml"
    with pytest.raises(SpecError) as caught:
        read_configuration(path)
    assert [key for key in ("host", "database", "drive") if f"{key}:" not in str(caught.value)] == []

    completed = re.sub(r"^# (?=[\w\[]+( =|\]\]$))", "", path.read_text(), flags=re.MULTILINE)
    assert AgentFile.__dataclass_fields__.keys() >= tomllib.loads(completed).keys() >= {"host", "database", "drive"}


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm", "python", "snia-pts"])
def test_the_scripts_are_valid(name: str) -> None:
    """sh accepts each script of the package."""
    done = subprocess.run(["sh", "-n", str(DEBIAN / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_keeps_the_tree_with_which_it_started(tmp_path: Path) -> None:
    """The wrapper starts the Python of the current tree by the tree's own path, not by the symlink."""
    tree = tmp_path / "0.2.0.abcdef"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/python3").write_text('#!/bin/sh\necho "$0" "$@"\n')
    (tree / "bin/python3").chmod(0o755)
    (tmp_path / "current").symlink_to(tree)
    wrapper = (DEBIAN / "python").read_text().replace("/opt/snia-pts", str(tmp_path))
    done = subprocess.run(["sh", "-c", wrapper, "sh", "-m", "a b"], capture_output=True, text=True, check=True)

    assert done.stdout == f"{tree}/bin/python3 -I -m a b\n"


def test_the_image_of_the_tests_is_a_bare_system_with_set_up() -> None:
    """Its steps are those that tests/test_bare.py runs: git and python3, scripts/setup --test, then the tests."""
    text = re.sub(r"\\\n\s*", "", (PACKAGING / "Containerfile").read_text())
    instructions = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]

    assert [name for name, _ in instructions] == ["FROM", "RUN", "COPY", "WORKDIR", "RUN", "CMD"]
    values = [value for _, value in instructions]
    assert values[1].split()[-3:] == ["ca-certificates", "git", "python3"]
    assert values[2:] == [". /snia-pts", "/snia-pts", "scripts/setup --test", '["scripts/test"]']
