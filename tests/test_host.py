"""What the host says of itself, from made-up /proc and /sys trees and this one."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from snia_pts import __version__
from snia_pts.lab.engine import Guard, allow
from snia_pts.lab.host.platform import read_platform
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import Stimulus


class NamedEngine:
    """An engine that only has a name."""

    name = "fio"
    version = "3.33"
    io_engine = "libaio"

    def measure(
        self, stimuli: Sequence[Stimulus], before: Guard = allow, *, allow_uncounted: bool = False
    ) -> Iterator[Measurement]:
        """Measure nothing."""
        del stimuli, before, allow_uncounted
        return iter(())


def made(root: Path, **files: str) -> Path:
    """Create a root with files; ``__`` in a name stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_server(tmp_path: Path) -> None:
    """Board, CPU, memory and operating system are read from the files of Linux."""
    root = made(
        tmp_path,
        proc__cpuinfo="processor\t: 0\nmodel name\t: Xeon: Gold\nprocessor\t: 1\nmodel name\t: Other\n",
        proc__meminfo="MemTotal:       16384 kB\nMemFree: 1 kB\n",
        sys__class__dmi__id__board_vendor="Supermicro\n",
        sys__class__dmi__id__board_name="X12\n",
    )
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text('NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    found = read_platform(NamedEngine(), root=root)

    assert (found.motherboard, found.cpu, found.memory_bytes) == ("Supermicro X12", "Xeon: Gold", 16_777_216)
    assert found.operating_system == "Debian GNU/Linux 12 (bookworm)"
    assert (found.engine, found.engine_version, found.io_engine) == ("fio", "3.33", "libaio")
    assert (found.suite_version, found.kernel, found.python) == (
        __version__,
        platform.release(),
        platform.python_version(),
    )


def test_values_that_the_host_does_not_report_are_empty(tmp_path: Path) -> None:
    """Without files nothing is guessed, and nothing fails."""
    found = read_platform(NamedEngine(), root=tmp_path)

    assert (found.motherboard, found.cpu, found.memory_bytes, found.operating_system) == ("", "", 0, "")


def test_incomplete_files_are_no_failure(tmp_path: Path) -> None:
    """Half of a board name, memory in an unknown unit, lines without a colon."""
    root = made(tmp_path, proc__meminfo="what\nMemTotal: some\n", sys__class__dmi__id__board_name="X12\n")
    found = read_platform(NamedEngine(), root=root)

    assert (found.motherboard, found.memory_bytes) == ("X12", 0)


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO} kB", "9" * 5000 + " kB", "-1 kB", "1e9 kB"])
def test_memory_that_is_not_a_number_is_unknown(text: str, tmp_path: Path) -> None:
    """Only a plain number in ASCII digits, as the kernel writes it, is accepted."""
    assert read_platform(NamedEngine(), root=made(tmp_path, proc__meminfo=f"MemTotal: {text}\n")).memory_bytes == 0


def test_this_host() -> None:
    """The real host has CPUs, memory as sysconf counts it, and a name."""
    found = read_platform(NamedEngine())

    assert found.cpus == os.cpu_count()
    assert 0 < found.memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found.hostname == platform.node()
