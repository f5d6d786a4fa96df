"""``snia-pts check``: what it reads, that it writes nothing, and that its verdict is that of a run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import snia_pts
from snia_pts.api.check import TargetCheck
from snia_pts.cli.commands.check import check_lines
from snia_pts.cli.main import main
from snia_pts.lab.process import program as process
from snia_pts.model.health import Health, HealthText, HealthValue
from snia_pts.model.run_options import RunOptions
from tests.drives import MIB, content, filled, loop_device, make_ext4, mounted, need_program
from tests.test_array import loops, write_array_file

pytestmark = pytest.mark.device  # holds loop devices
PROGRAM = (sys.executable, "-m", "snia_pts")
#: Every call that opens or changes a file by its path or descriptor.
CALLS = "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,fallocate,ftruncate,unlink,unlinkat,rename,ioctl"


def checked(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the JSON of a check."""
    code = main(["check", *argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def refusals(document: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return name, value and exit code of each refusal."""
    found = [reading for reading in document["readings"] if reading["verdict"] == "refused"]
    return [(reading["name"], reading["value"], reading["exit_code"]) for reading in found]


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Path]:
    """An empty loop device."""
    with loop_device(tmp_path / "disk.img", 16 * MIB) as path:
        yield path


def test_a_simulated_drive_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """Identity, plan and host are read; there is no drive whose health or settings could be."""
    code, document = checked("sim:enterprise-nvme", capsys=capsys)

    assert (code, document["format"], document["usable"], document["exit_code"]) == (0, 1, True, 0)
    readings = {reading["name"]: reading for reading in document["readings"]}
    assert readings["serial number"]["value"] == "SIM-ENTERPRISE-NVME" == document["dut"]["serial"]
    assert readings["deviation: device under test"]["verdict"] == "warning"
    assert readings["CPU"]["value"].startswith(document["platform"]["cpu"] or "not reported")
    assert {reading["part"] for reading in document["readings"]} == {"target", "test", "host"}


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("/dev/nosuch", 6, "/dev/nosuch does not exist."),
        ("/dev/null", 10, "/dev/null cannot be tested: it is neither a block device nor a regular file."),
        ("sim:nowhere", 2, "Unknown simulated drive 'nowhere'."),
        ("array:nowhere.toml", 3, "nowhere.toml"),
    ],
)
def test_a_target_that_is_none_is_one_sentence(
    target: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is listed; the sentence and its hint are those of a run."""
    assert main(["check", target]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) <= 3  # a mistake in a file has a line of its own


@pytest.mark.long
def test_a_foreign_file_is_refused_as_by_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of ``--plan``; with --overwrite, or for a new file, there is none, and no file appears."""
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(16 * MIB))
    new = tmp_path / "new.img"

    code, document = checked(str(file), capsys=capsys)
    assert main(["iops", str(file), "--plan"]) == code == 8
    assert refusals(document) == [("use and content", "snia-pts did not create it", 8)]
    readings = [reading for reading in document["readings"] if reading["part"] in ("purge", "health")]
    assert {reading["verdict"] for reading in readings} == {"not read"}
    capsys.readouterr()
    code, document = checked(str(file), "--overwrite", capsys=capsys)
    assert (code, refusals(document)) == (0, [])
    assert checked(str(new), "--size", "16M", capsys=capsys)[0] == 0
    assert sorted(tmp_path.iterdir()) == [file]
    assert file.read_bytes() == bytes(16 * MIB)


@pytest.mark.long
def test_every_refusal_is_listed_and_the_first_gives_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without fio, a file of somebody else has two reasons; a run would end with the first."""
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(16 * MIB))
    monkeypatch.setenv("PATH", str(tmp_path))
    process.find.cache_clear()
    try:
        code, document = checked(str(file), capsys=capsys)
    finally:
        process.find.cache_clear()
    assert code == document["exit_code"] == 4
    assert [(name, number) for name, _, number in refusals(document)] == [("programs", 4), ("use and content", 8)]


@pytest.mark.long
@pytest.mark.root
def test_a_drive_is_checked_and_not_written(drive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Purge methods, fio's version and I/O engine, and the settings of the host are read; every byte stays."""
    before = content(drive)
    code, document = checked(str(drive), capsys=capsys)

    assert (code, refusals(document)) == (0, [])
    readings = {reading["name"]: reading["value"] for reading in document["readings"]}
    assert readings["methods"] == "blkdiscard, overwrite"
    assert re.fullmatch(r"3\.\d+, (io_uring|libaio)", readings["fio"])
    assert {"scheduler", "governor", "requests", "link", "plan", "write cache"} <= readings.keys()
    assert document["platform"]["engine_version"] == readings["fio"].partition(",")[0]
    assert content(drive) == before


@pytest.mark.root
@pytest.mark.long
def test_no_call_opens_the_drive_for_writing(drive: Path, tmp_path: Path) -> None:
    """strace shows each open of the drive by the suite and by its programs: all are for reading, none is exclusive."""
    need_program("strace", "strace")
    trace = tmp_path / "trace"
    command = ("strace", "-f", "-y", "-e", f"trace={CALLS}", "-o", str(trace), *PROGRAM, "check", str(drive))
    subprocess.run(command, check=True, capture_output=True)
    lines = trace.read_text("utf-8", "replace").splitlines()

    opens = [line for line in lines if re.search(rf' open(at)?\(.*"{drive}"', line)]
    assert {"fio" in line or "O_DIRECT" in line for line in opens} == {True, False}  # those of fio, too
    assert [line for line in opens if not re.search(r"O_RDONLY[|)]", line) or "O_EXCL" in line] == []
    writes = rf"(?:write|pwrite64|writev|pwritev2?|fallocate|ftruncate)\(\d+<{drive}"
    assert [line for line in lines if re.search(writes, line)] == []
    requests = [match[1] for line in lines if (match := re.search(rf"ioctl\(\d+<{drive}>, (\w+)", line))]
    assert "BLKGETSIZE64" in requests
    assert [name for name in requests if re.search("DISCARD|ZEROOUT|SECURE|ROSET|RRPART|_SET|_CLR|SG_IO", name)] == []


@pytest.mark.long_but_first
@pytest.mark.root
@pytest.mark.parametrize(("read_only", "code"), [(False, 8), (True, 10)])
def test_a_drive_with_data_or_without_writes_is_refused(
    read_only: bool, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code is that with which a run is refused; a drive that the kernel protects from writing can be checked."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(16 * MIB))
    make_ext4(image, "photos")
    with loop_device(image, read_only=read_only) as drive:
        before = content(drive)
        assert checked(str(drive), capsys=capsys)[0] == code == main(["iops", str(drive), "--plan"])
        assert content(drive) == before


@pytest.mark.long
@pytest.mark.root
def test_a_mounted_drive_names_its_user(drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The mount point is in the reason, and --discard-data does not allow it."""
    make_ext4(drive)
    with mounted(drive, tmp_path / "mnt") as place:
        for options in ((), ("--discard-data",)):
            code, document = checked(str(drive), *options, capsys=capsys)
            assert (code, refusals(document)) == (7, [("use and content", f"it is mounted at {place}", 7)])


@pytest.mark.long
@pytest.mark.root
def test_an_array_is_checked_member_by_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge methods and settings of each member have its path; nothing is created."""
    need_program("mdadm", "mdadm")
    monkeypatch.setattr("snia_pts.arrays.setup.require_driver", lambda _: None)
    with loops(tmp_path, 16 * MIB, 16 * MIB, 16 * MIB) as members:
        target = write_array_file(tmp_path, members)
        before = [content(member) for member in members]
        code, document = checked(target, capsys=capsys)
        assert (code, refusals(document)) == (0, [])
        names = {reading["name"] for reading in document["readings"]}
        assert {f"{member}: {name}" for member in members for name in ("methods", "scheduler")} <= names
        assert [content(member) for member in members] == before


@pytest.mark.long
def test_the_health_log_is_listed(tmp_path: Path) -> None:
    """Each value with its unit; a state that the drive warns of is a warning, a log without an answer is named."""
    values = (("Data Units Written", 5.12e12, "bytes", "host written"), ("Composite Temperature", 41, "°C", ""))
    figures = tuple(HealthValue(name=n, value=v, unit=u, source="SMART", role=r) for n, v, u, r in values)  # type: ignore[arg-type]
    state = HealthValue(name="Critical Warning", value=4, unit="", source="SMART", role="state")
    health = Health(
        read_at="2026-11-28T00:00:00Z",
        figures=(*figures, state),
        unread=("OCP: none",),
        evidence=(),
        texts=(HealthText(name="Power State", text="0", source="nvme"),),
    )
    with patch("snia_pts.api.check.read_health", lambda *_: health):
        (tmp_path / "disk.img").write_bytes(filled(tmp_path / "other", 16 * MIB).read_bytes())
        found = snia_pts.check(RunOptions(test="iops", target=str(tmp_path / "disk.img"), overwrite=True))

    readings = [(item.verdict, item.name, item.value) for item in found.readings if item.part == "health"]
    assert readings == [
        ("ok", "Data Units Written", "5.120 TB"),
        ("ok", "Composite Temperature", "41 °C"),
        ("ok", "Critical Warning", "4"),
        ("ok", "Power State", "0"),
        ("warning", "state of the drive", "the drive reports: Critical Warning is 4"),
        ("not read", "log of the drive", "OCP: none"),
    ]
    assert found.health == (health,)


@pytest.fixture(scope="module")
def simulated() -> TargetCheck:
    """The check of a simulated drive."""
    return snia_pts.check(RunOptions(test="iops", target="sim:enterprise-nvme"))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_list_fits_a_terminal(width: int, simulated: TargetCheck) -> None:
    """No line is longer than the terminal, and no reading is lost; the last line is the verdict."""
    lines = list(check_lines(simulated, width))

    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert all(" ".join(reading.value.split()) in text for reading in simulated.readings)
    assert text.endswith("A run would start; 1 warning.")


def test_a_pipe_gets_one_row_for_each_reading(simulated: TargetCheck) -> None:
    """The columns are separated by tabs, under a heading."""
    head, *rows = check_lines(simulated, None)

    assert head.split("\t") == ["verdict", "part", "reading", "value", "remedy"]
    assert [tuple(row.split("\t"))[:4] for row in rows] == [
        (item.verdict, item.part, item.name, item.value) for item in simulated.readings
    ]
