"""The commands of docs/equivalent-commands.rst: profiles run on real fio, shortened; other commands are parsed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from snia_pts.cli.main import main
from snia_pts.cli.parser import build_parser
from snia_pts.lab.observation.telemetry import underlying_device
from snia_pts.profiles.reader import builtin_profiles
from tests.drives import need_root

PAGE = Path(__file__).parents[1] / "docs" / "equivalent-commands.rst"
#: Options that shorten a profile; the points of a hard disk's zones take minutes even so.
SHORT = ("--repeats", "1", "--range", "2M", "--seconds", "0.2", "--ramp-seconds", "0", "--axis", "thread_count=2")
#: Axes that shorten profiles further, unless the command has them.
AXES = {
    "file-matrix": ("range=1M", "block_size=256K"),
    "queue-depth": ("queue_depth=1,4",),
    "random-write-matrix": ("block_size=4K",),
}


def literals() -> list[str]:
    """Return the commands of the page in their order."""
    document = publish_doctree(PAGE.read_text(), source_path=str(PAGE))
    texts = (" ".join(literal.astext().split()) for literal in document.findall(nodes.literal))
    return list(dict.fromkeys(text for text in texts if text.startswith("snia-pts ")))


RUNNABLE = [text for text in literals() if " profile run " in text and not re.search(r"host\.|4G$|hdd-", text)]
OTHERS = [text for text in literals() if text not in RUNNABLE]
#: Commands that change a profile; tests/test_profile_cli.py runs each profile as it is.
VARIED = [text for text in RUNNABLE if " --" in text] + ["snia-pts profile run queue-depth DIR --size 4G"]


def test_the_page_has_every_profile() -> None:
    """Each profile of the suite comes from a document, so that it has a row."""
    text = PAGE.read_text()
    assert [name for name in builtin_profiles() if f"profile run {name} " not in text] == []


@pytest.mark.long_but_first
@pytest.mark.parametrize("command", [*RUNNABLE, "snia-pts profile run queue-depth DIR --size 4G"])
def test_a_profile_of_the_page_has_a_plan(command: str, tmp_path: Path) -> None:
    """Its options are those of the profile, and its points can be measured in a directory; nothing is left there."""
    need_root()  # a plan is refused if the run would be, which empties the page cache
    words = shlex.split(command.replace("DIR", str(tmp_path)).replace("4G", "4M"))[1:]
    assert main([*words, "--range", "2M", "--plan"]) == 0  # the whole range may be more than there is free space
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("command", VARIED)
def test_a_varied_profile_of_the_page_runs_on_fio(command: str, tmp_path: Path) -> None:
    """It ends with a result of all its points; a limit may not be met on a slow disk."""
    need_root()  # to empty the page cache
    words = shlex.split(command.replace("DIR", str(tmp_path)).replace("4G", "4M"))[1:]
    name = words[2]
    axes = [axis for axis in AXES.get(name, ()) if axis.partition("=")[0] not in command]
    shorter = SHORT[: -2 if name == "file-matrix" else None]  # whose workloads have one thread each
    further = [word for axis in axes for word in ("--axis", axis)]
    run = ("--run-dir", str(tmp_path / "run"), "--to", "none", "--progress", "none")
    assert main([*words, *shorter, *further, *run]) in (0, 19)
    assert (tmp_path / "run" / "result.xml").is_file()
    has_device = underlying_device(tmp_path) is not None
    assert any((tmp_path / "run" / "evidence").glob("*.iostat.csv")) == has_device


@pytest.mark.long_but_first
@pytest.mark.parametrize("command", OTHERS)
def test_other_commands_of_the_page_are_accepted(command: str) -> None:
    """They need a drive, a run, or a host with governors, or take minutes; the options of all are known.

    Those with a scheduler, for hard disks and with --size 4G were run by hand (docs/equivalent-commands.rst).
    """
    build_parser().parse_args(shlex.split(command.replace("DISK", "/dev/nvme0n1"))[1:])
