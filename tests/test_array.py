"""Arrays that the suite creates: the requested layout, the programs that create them, the purge of members, the report.

No controller was there.  What storcli and perccli say here has the names, kinds and order of what other projects
recorded from theirs: storcli 7.0606 to 7.3703 on MegaRAID 9270CV, 9361 and 9560, SAS3108 and Intel RS3DC080, perccli
7.2110 and 7.2616 on PERC H755 and H730P; of a controller, drives, virtual drives, ``add``, ``set``, ``del`` and
refusals.  Of ``start init``, ``show init``, ``show bgi`` and ``set autobgi`` no JSON was found: these have the
documented form.  Serial numbers, names and sizes are ours.  Arrays of the kernel are made in
``tests/guest/test_guest.py``.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from snia_pts.arrays.file import read_layout
from snia_pts.arrays.lab import ArrayPurger, AssembledArray, Drives, MemberCaches, Slots, mdadm, predicted_dut, storcli
from snia_pts.arrays.lab.answers import size_bytes
from snia_pts.arrays.lab.controller import ArraySetting, find
from snia_pts.arrays.lab.mdadm import Mdadm
from snia_pts.arrays.lab.preconditioning import Preconditioning
from snia_pts.arrays.lab.programs import ArrayError
from snia_pts.arrays.lab.storcli import Storcli
from snia_pts.arrays.setup import _speeds, _sync_deviations
from snia_pts.cli.main import main
from snia_pts.errors import HostFailed, PurgeFailed, RecordError, SpecError, TargetBusy, TargetUnfit
from snia_pts.lab.host import settings_list
from snia_pts.lab.host.conditions import restore_settings
from snia_pts.lab.process.program import Tick
from snia_pts.lab.purge import Purger
from snia_pts.lab.settings.settings import Change, applied, restore
from snia_pts.model.array import BuiltArray, Layout, Member, MemberRates, Speeds
from snia_pts.record.result_xml import result_xml
from snia_pts.report.pages import Page
from snia_pts.report.sections import array as pages
from snia_pts.report.tables import Table
from snia_pts.spec import Deviation
from tests import samples
from tests.drives import MIB, content, filled, loop_device, make_ext4, mounted, need_program, need_root
from tests.purge.playing import Rule, Stage, staged

UUID = "01234567:89abcdef:01234567:89abcdef"
OTHER = "ffffffff:89abcdef:01234567:89abcdef"
NAME = "pts0123456789ab"
THREE = ("/dev/sdb", "/dev/sdc", "/dev/sdd")


def layout(**changes: Any) -> Layout:
    """Return a RAID 5 of three drives by mdadm."""
    known: dict[str, Any] = {"format": 1, "controller": "mdadm", "level": 5, "members": THREE, "chunk": "64 KiB"}
    return Layout(**{**known, **changes})


def slots(**changes: Any) -> Layout:
    """Return a RAID 5 of three drives by storcli."""
    known: dict[str, Any] = {
        "controller": "storcli",
        "members": ("252:0", "252:1", "252:2"),
        "device": "/dev/sdb",
    }
    return layout(**{**known, **changes})


def member(path: str) -> Member:
    """Return a drive of 960 GB."""
    name = path.rpartition("/")[2]
    return Member(
        path=path, model="EXAMPLE", serial=f"S{name}", firmware="F1", capacity_bytes=960_197_124_096, rotational=False
    )


# -- the file --------------------------------------------------------------------------------------------------------


def test_every_mistake_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    """Invalid values and contradictory values are in one message."""
    path = tmp_path / "array.toml"
    path.write_text("format = 2\ncontroller = 'lvm'\nlevel = 3\nmembers = [1]\nbitmap = 'maybe'\nlevle = 1\n")
    with pytest.raises(SpecError) as refused:
        read_layout(path)
    for key in ("format", "controller", "level", "members 1", "bitmap", "levle"):
        assert f"{key}:" in str(refused.value)

    path.write_text(
        "format = 2\ncontroller = 'mdadm'\nlevel = 7\nmembers = ['/dev/sdb', 'sdc']\nchunk = '63 KiB'\nbogus = 1\n"
        "sync = 'maybe'\ndevice = 'md0'\n"
    )
    with pytest.raises(SpecError) as refused:
        read_layout(path)
    assert str(refused.value).splitlines() == [
        f"The array {path} has 7 mistakes:",
        "  format: 2: expected 1",
        "  level: 7: expected 0, 1, 5, 6 or 10",
        "  sync: 'maybe': expected 'wait' or 'skip'",
        "  bogus: unknown key",
        "  members: 'sdc': expected a path such as /dev/sdb",
        "  device: 'md0': expected /dev/md/NAME or /dev/mdN",
        "  chunk: '63 KiB': expected a power of two from 4 KiB to 64 MiB",
    ]

    path.write_text(
        "format = 1\ncontroller = 'mdadm'\nlevel = 5\nmembers = ['/dev/sdb', '/dev/sdb', 'sdc']\nchunk = '48 KiB'\n"
        "device = '/dev/sda'\nwrite_policy = 'write back'\n"
    )
    with pytest.raises(SpecError) as refused:
        read_layout(path)
    assert str(refused.value).splitlines() == [
        f"The array {path} has 5 mistakes:",
        "  members: '/dev/sdb' is listed 2 times",
        "  members: 'sdc': expected a path such as /dev/sdb",
        "  device: '/dev/sda': expected /dev/md/NAME or /dev/mdN",
        "  chunk: '48 KiB': expected a power of two from 4 KiB to 64 MiB",
        "  write_policy: only valid for storcli and perccli",
    ]

    # Whether one member is enough depends on the level, which is not valid: that is not a mistake of its own.
    path.write_text("format = 1\ncontroller = 'mdadm'\nlevel = 7\nmembers = ['/dev/sdb']\ndevice = 'md0'\n")
    with pytest.raises(SpecError) as refused:
        read_layout(path)
    assert str(refused.value).splitlines() == [
        f"The array {path} has 2 mistakes:",
        "  level: 7: expected 0, 1, 5, 6 or 10",
        "  device: 'md0': expected /dev/md/NAME or /dev/mdN",
    ]

    # Neither an unknown controller nor a mistake within a table hides the others.
    path.write_text(
        "format = 1\ncontroler = 'mdadm'\nlevel = 5\nmembers = ['/dev/sdb', '/dev/sdb']\nchunk = '63 KiB'\n"
        "measured = {disk_iops = -1}\n"
    )
    with pytest.raises(SpecError) as refused:
        read_layout(path)
    assert str(refused.value).splitlines() == [
        f"The array {path} has 6 mistakes:",
        "  controller: missing key",
        "  measured.disk_iops: -1: expected a number greater than 0",
        "  controler: unknown key; did you mean controller?",
        "  members: RAID 5 does not support 2 disks. Use at least 3 and at most 1000000 disks.",
        "  members: '/dev/sdb' is listed 2 times",
        "  chunk: '63 KiB': expected a power of two from 4 KiB to 64 MiB",
    ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"members": THREE[:2]}, "RAID 5 does not support 2 disks"),
        ({"level": 10, "members": (*THREE, "/dev/sde", "/dev/sdf")}, "RAID 10 needs an even number of disks"),
        ({"level": 1}, "not applicable to RAID 1"),
        ({"chunk": ""}, "missing key"),
        ({"chunk": "2 KiB"}, "power of two"),
        ({"device": "/dev/md/../sda"}, "device:"),
        ({"device": "/dev/md127", "members": ("/dev/sdb", "/dev/sdc", "/dev/md127")}, "is one of the members"),
        ({"controller": "storcli"}, "enclosure and slot"),
    ],
)
def test_an_impossible_array_is_refused(changes: dict[str, Any], text: str) -> None:
    """Contradictory members, chunks and names are refused, with the key."""
    with pytest.raises(ValueError, match=text):
        layout(**changes)


def test_the_predicted_iops_of_an_array() -> None:
    """RAID 5 of four disks with 180 IOPS has 720 reads or 180 writes; speeds by mix count at the members' own mix."""
    four = BuiltArray(
        layout=layout(members=(*THREE, "/dev/sde")),
        version="",
        members=(),
        speeds=Speeds(iops=((50, 180.0),), source=""),
    )
    assert (four.predicted_iops(100), four.predicted_iops(0)) == (720, 180)
    mixed = dataclasses.replace(four, speeds=Speeds(iops=((100, 100.0), (0, 300.0)), source=""))
    assert mixed.predicted_iops(100) == 400
    assert mixed.predicted_iops(0) == pytest.approx(150)  # of 50/50: an I/O takes the mean of both times
    assert dataclasses.replace(four, speeds=None).predicted_iops(0) is None


def test_the_identity_of_an_array_is_known_before_its_creation() -> None:
    """The serial numbers of all members, in their order, identify it; its capacity is that of its data."""
    dut = predicted_dut(layout(), [*map(member, THREE)], sector_bytes=512)
    assert (dut.serial, dut.model) == ("Ssdb,Ssdc,Ssdd", "RAID 5 of 3 x EXAMPLE")
    assert (dut.capacity_bytes, dut.kind) == (2 * 960_197_124_096, "virtual device")
    assert dut.rotational is False  # whatever the kernel says of the array

    spinning = dataclasses.replace(member("/dev/sdb"), rotational=True)
    assert predicted_dut(layout(), [spinning, *map(member, THREE[1:])], sector_bytes=512).rotational


# -- mdadm ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Yield a stage of simulated programs."""
    with staged(tmp_path, monkeypatch, "sdx") as made:
        for module in (mdadm, storcli):
            monkeypatch.setattr(module, "_PAUSE_SECONDS", (0.001, 0.002))
            monkeypatch.setattr(module, "_APPEARING_SECONDS", 0.2)
        monkeypatch.setattr(mdadm, "_STOPPING_SECONDS", 0.2)
        yield made


def exported(uuid: str) -> str:
    """Return what mdadm exports of an array or a superblock."""
    return f"MD_LEVEL=raid5\nMD_DEVICES=3\nMD_UUID={uuid}\nMD_NAME=host:snia-pts\n"


def make_md127(root: Path, **files: str) -> Path:
    """Make md127 in a root."""
    known = {
        "sync_action": "idle",
        "degraded": "0",
        "resync_start": "none",
        "level": "raid5",
        "metadata_version": "1.2",
    }
    folder = root / "sys/devices/virtual/block/md127"
    for name, text in {**known, **files}.items():
        path = folder / "md" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for place in ("sys/block", "sys/class/block", "dev"):
        (root / place).mkdir(parents=True, exist_ok=True)
    for place in ("sys/block", "sys/class/block"):
        if not (root / place / "md127").exists():
            (root / place / "md127").symlink_to(folder)
    (root / "dev/md127").touch()
    return folder / "md"


@pytest.mark.parametrize(
    ("changes", "clean", "words"),
    [
        ({}, False, ["--level=5", "--raid-devices=3", "--chunk=64K", "--bitmap=none"]),
        ({"bitmap": "internal"}, True, ["--level=5", "--chunk=64K", "--bitmap=internal", "--assume-clean"]),
        ({"level": 0}, True, ["--level=0", "--chunk=64K"]),
        ({"level": 1, "chunk": ""}, False, ["--level=1", "--bitmap=none"]),
    ],
)
def test_mdadm_creates_the_requested_array(
    stage: Stage, changes: dict[str, Any], clean: bool, words: list[str]
) -> None:
    """Level, chunk, metadata, UUID and members are those of the layout; the new array is found by its UUID."""
    make_md127(stage.root)
    stage.play("mdadm", Rule(when=("--create",)), Rule(when=("--detail",), says=exported(UUID)))
    made = Mdadm(layout(device="/dev/md127", **changes), UUID, root=stage.root)
    (stage.root / "dev/md127").unlink()
    with pytest.raises(ArrayError, match="did not appear"):
        Mdadm(layout(**changes), UUID, root=stage.root).create(THREE, stage.evidence / "array", clean=clean)
    assert made.create(THREE, stage.evidence / "array", clean=clean) == stage.root / "dev/md127"
    command = [item for item in stage.commands if "--create" in item][-1]

    assert {"--metadata=1.2", f"--uuid={UUID}", *words} <= set(command)
    assert command[-3:] == [*THREE]
    assert ("--assume-clean" in command) == ("--assume-clean" in words)
    assert ("--chunk=64K" in command) == ("--chunk=64K" in words)
    assert (stage.evidence / "array-create.process.json").is_file()


def test_a_recreated_array_has_the_same_number(stage: Stage) -> None:
    """The second creation requests the kernel's name of the first one, so the path under test does not change."""
    make_md127(stage.root)
    (stage.root / "dev/md127").unlink()
    (stage.root / "dev/md").mkdir()
    (stage.root / "dev/md/snia-pts").symlink_to("../md127")
    stage.play("mdadm", Rule(when=("--create",)), Rule(when=("--detail",), says=exported(UUID)))
    made = Mdadm(layout(), UUID, root=stage.root)
    for name in ("first", "second"):
        made.create(THREE, stage.evidence / name, clean=True)
    assert [command[2] for command in stage.commands if "--create" in command] == ["/dev/md/snia-pts", "/dev/md127"]


def test_a_name_that_is_taken_is_left_alone(stage: Stage) -> None:
    """If another device already has the name of the array, nothing is created."""
    make_md127(stage.root)
    stage.play("mdadm")
    with pytest.raises(ArrayError, match="already exists"):
        Mdadm(layout(device="/dev/md127"), UUID, root=stage.root).create(THREE, stage.evidence / "a", clean=True)
    assert stage.commands == []


def test_only_the_array_with_the_uuid_is_taken_apart(stage: Stage) -> None:
    """An array or a superblock with another UUID remains, even if it has the suite's name."""
    make_md127(stage.root)
    ours = Rule(when=("--examine", "/dev/sdb"), says=exported(UUID))
    others = Rule(when=("--examine", "/dev/sdc"), says=exported(OTHER))
    none = Rule(when=("--examine", "/dev/sdd"), exits=1, complains="mdadm: No md superblock detected")
    zero = Rule(when=("--zero-superblock",))
    stage.play("mdadm", Rule(when=("--detail",), says=exported(OTHER)), ours, others, none, zero)
    Mdadm(layout(), UUID, root=stage.root).delete(THREE)
    assert stage.commands_without("--detail", "--examine") == [["mdadm", "--zero-superblock", "/dev/sdb"]]

    stop = Rule(when=("--stop",))
    stage.play("mdadm", Rule(when=("--detail",), says=exported(UUID)), stop, ours, others, none, zero)
    Mdadm(layout(), UUID, root=stage.root).delete(THREE)
    assert ["mdadm", "--stop", str(stage.root / "dev/md127")] in stage.commands


def test_the_array_of_a_killed_run_is_found_under_any_name(stage: Stage) -> None:
    """It is found by its UUID in mdadm's list of all superblocks, whatever the present names of the drives are."""
    listed = (
        f"ARRAY /dev/md/other  level=raid1 metadata=1.2 num-devices=2 UUID={OTHER} name=host:snia-pts\n"
        "   devices=/dev/sdx,/dev/sdy\n"
        f"ARRAY /dev/md/snia-pts  level=raid5 metadata=1.2 num-devices=3 UUID={UUID} name=host:snia-pts\n"
        "   devices=/dev/sdq,/dev/sdp\n"
    )
    scan = Rule(when=("--scan",), says=listed)
    stage.play("mdadm", scan, Rule(when=("--examine",), says=exported(UUID)), Rule(when=("--zero-superblock",)))
    found = find(f"mdadm {UUID}", stage.root)
    assert found is not None
    assert found.read() == "made"
    found.write("none")
    assert stage.commands_without("--scan", "--examine") == [
        ["mdadm", "--zero-superblock", "/dev/sdp"],
        ["mdadm", "--zero-superblock", "/dev/sdq"],
    ]
    stage.play("mdadm", Rule(when=("--scan",), says=""))
    assert found.read() == "none"


@pytest.mark.parametrize("place", ["mdadm", f"mdadm {UUID} ", f"lvm {UUID}", "mdadm --stop", "storcli 0 photos"])
def test_an_invalid_restore_record_is_ignored(place: str) -> None:
    """Only a UUID, or a name in the form of the suite's random names, identifies an array of the suite."""
    assert find(place) is None
    assert settings_list.find("array", place) is None


@pytest.mark.long
def test_the_restore_record_of_a_killed_run_is_used(stage: Stage) -> None:
    """The next run, or host --restore with the folder, takes the array apart; a run in progress keeps its own."""
    for name in ("var/lib", "proc/sys/kernel/random"):
        (stage.root / name).mkdir(parents=True)
    (stage.root / "proc/sys/kernel/random/boot_id").write_text("1\n")
    folder = stage.root / "runs/1"
    (folder / "array").mkdir(parents=True)
    stage.play("mdadm", Rule(when=("--scan",), says=""))
    known = partial(settings_list.find, root=stage.root)
    change = Change(setting=ArraySetting(place=f"mdadm {UUID}", root=stage.root))
    with ExitStack() as stack:
        stack.enter_context(applied((change,), folder / "array", find=known, report=print, root=stage.root))
        data = {path: path.read_bytes() for path in stage.root.rglob("*.json")}
        assert restore(find=known, root=stage.root) == ()
    assert len(data) == 2
    assert not [*stage.root.rglob("*.json")]

    for where in (None, folder, folder.with_name("moved")):
        if where and where.name == "moved":
            folder.rename(where)
        for which, note in data.items():
            place = which if where is None or not which.is_relative_to(folder) else where / which.relative_to(folder)
            place.write_bytes(note)
        make_md127(stage.root)
        gone = Rule(when=("--stop",), then="gone")
        stage.state = ""
        scan = Rule(when=("--scan",), says="")
        stage.play(
            "mdadm", Rule(when=("--detail",), state="", says=exported(UUID)), gone, scan, Rule(when=("--detail",))
        )
        (restore_setting,) = restore_settings(where, root=stage.root)
        assert f"array {UUID} none" in restore_setting
        assert stage.state == "gone"
        assert not [*stage.root.rglob("*.json")]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who alone takes arrays apart")
def test_a_foreign_restore_record_takes_no_array_apart(stage: Stage) -> None:
    """A run folder with the UUID of an array that the suite did not create on this host is refused; nothing stops."""
    (stage.root / "var/lib").mkdir(parents=True)
    note = stage.root / "run/array/settings.json"
    note.parent.mkdir(parents=True)
    change = {"kind": "array", "place": f"mdadm {OTHER}", "drive": "", "before": "none", "value": ""}
    note.write_text(json.dumps({"format": 1, "run": str(note.parent), "boot": "1", "changes": [change]}))
    make_md127(stage.root)
    stage.play("mdadm", Rule(when=("--detail",), says=exported(OTHER)), Rule(when=("--stop",)))

    with pytest.raises(HostFailed, match="has no copy of it"):
        restore_settings(stage.root / "run", root=stage.root)
    assert stage.commands == []
    assert note.exists()


def test_the_run_waits_for_the_first_sync(stage: Stage) -> None:
    """Until no sync runs, no member is missing, and the whole array was synced; at the members' speed."""
    md = make_md127(stage.root, sync_action="recover", degraded="1", resync_start="0", sync_speed_max="200000 (system)")
    ticks = []

    def later(seconds: float, _: int) -> None:
        ticks.append(seconds)
        states = (("sync_action", "idle"), ("degraded", "0"), ("resync_start", "none"))
        (md / states[len(ticks) - 1][0]).write_text(states[len(ticks) - 1][1])

    Mdadm(layout(), UUID, root=stage.root).wait(Path("/dev/md127"), later)
    assert len(ticks) == 3
    assert int((md / "sync_speed_max").read_text()) > 200000


@pytest.mark.parametrize(
    ("files", "text"),
    [({"dev-sdb__state": "faulty"}, "dev-sdb failed"), ({"sync_action": "recover"}, "has stalled")],
)
def test_a_sync_that_fails_ends_the_wait(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], text: str
) -> None:
    """A failed member, or a sync without progress, is a failure."""
    monkeypatch.setattr(mdadm, "_STALLED_SECONDS", 0.01)
    make_md127(stage.root, **files)
    with pytest.raises(ArrayError, match=text):
        Mdadm(layout(), UUID, root=stage.root).wait(Path("/dev/md127"))


# -- storcli ----------------------------------------------------------------------------------------------------------


def answer(
    data: object = None,
    *details: Mapping[str, object],
    status: str = "Success",
    description: str = "None",
    number: int = 0,
) -> str:
    """Return an answer of storcli in JSON (option J), with the given parts."""
    controller: dict[str, object] = {
        "CLI Version": "007.2705.0000.0000 Aug 24, 2023",
        "Operating system": "Linux 6.1.0-18-amd64",
        "Controller": number,
        "Status": status,
        "Description": description,
    }
    if details:
        controller["Detailed Status"] = details
    return json.dumps(
        {"Controllers": [{"Command Status": controller, **({} if data is None else {"Response Data": data})}]}
    )


def refusal(description: str, **detail: object) -> str:
    """Return a failure, with the details of the part that failed."""
    return answer(None, *([detail] if detail else []), status="Failure", description=description)


ADDED, DELETED = answer(description="Add VD Succeeded."), answer(description="Delete VD succeeded")
STARTED = answer(description="Start INIT Operation Success")
SET = answer(None, {"VD": 3, "Property": "AutoBGI", "Value": "Off", "Status": "Success", "ErrCd": 0, "ErrMsg": "-"})


def slot_row(name: str, **changes: object) -> dict[str, object]:
    """Return the row of a drive in a list, by default a free one."""
    known = {
        "EID:Slt": name,
        "DID": 4,
        "State": "UGood",
        "DG": "-",
        "Size": "893.750 GB",
        "Intf": "SATA",
        "Med": "SSD",
        "SED": "N",
        "PI": "N",
        "SeSz": "512B",
        "Model": "EXAMPLE 960 ",
        "Sp": "U",
        "Type": "-",
    }
    return {**known, **changes}


def drive_answer(slot: str, attributes: Mapping[str, object] | None = None, **listed: object) -> str:
    """Return the answer about a drive."""
    enclosure, _, number = slot.strip().partition(":")
    name = f"Drive /c0/e{enclosure}/s{number}" if enclosure else f"Drive /c0/s{number}"
    device = {
        "SN": f"      SN0{number}",
        "Manufacturer Id": "ATA     ",
        "Model Number": "EXAMPLE 960 ",
        "NAND Vendor": "NA",
        "WWN": f"5000C500A1B2C30{number}",
        "Firmware Revision": "FW01    ",
        "Firmware Release Number": "N/A",
        "Raw size": "894.252 GB [0x6fc81ab0 Sectors]",
        "Coerced size": "893.750 GB [0x6fb80000 Sectors]",
        "Non Coerced size": "893.752 GB [0x6fb81ab0 Sectors]",
        "Device Speed": "6.0Gb/s",
        "Link Speed": "6.0Gb/s",
        "NCQ setting": "Enabled",
        "Write Cache": "N/A",
        "Logical Sector Size": "512B",
        "Physical Sector Size": "4 KB",
        "Connector Name": "Port 0 - 3 ",
        **(attributes or {}),
    }
    detail = {
        f"{name} State": {"Shield Counter": 0, "Media Error Count": 0, "Drive Temperature": " 28C (82.40 F)"},
        f"{name} Device attributes": device,
        f"{name} Policies/Settings": {"Enclosure position": "1", "Sequence Number": 2, "Port Information": []},
        "Inquiry Data": "40 00 ff 3f ",
    }
    data = {name: [slot_row(slot, **listed)], f"{name} - Detailed Information": detail}
    return answer(data, description="Show Drive Information Succeeded.")


def virtual_parts(
    number: int, name: str, naa: str, *, slots: Sequence[str] = (), doing: str = "None", **row: object
) -> Any:
    """Return the three parts of an answer for each virtual drive."""
    group = number // 2
    known = {
        "DG/VD": f"{group}/{number}",
        "TYPE": "RAID5",
        "State": "Optl",
        "Access": "RW",
        "Consist": "Yes",
        "Cache": "NRWTD",
        "Cac": "-",
        "sCC": "ON",
        "Size": "1.745 TB",
        "Name": name,
    }
    properties = {
        "Strip Size": "64 KB",
        "Number of Blocks": 3749183488,
        "VD has Emulated PD": "Yes",
        "Span Depth": 1,
        "Number of Drives Per Span": len(slots),
        "Write Cache(initial setting)": "WriteThrough",
        "Disk Cache Policy": "Disk's Default",
        "Encryption": "None",
        "Data Protection": "None",
        "Active Operations": doing,
        "Exposed to OS": "Yes",
        "OS Drive Name": "/dev/sdb",
        "Creation Date": "01-02-2026",
        "Creation Time": "10:11:12 AM",
        "Emulation type": "default",
        "Is LD Ready for OS Requests": "Yes",
        "SCSI NAA Id": naa,
        "Unmap Enabled": "N/A",
    }
    return {
        f"/c0/v{number}": [{**known, **row}],
        f"PDs for VD {number}": [slot_row(slot, State="Onln", DG=group) for slot in slots],
        f"VD{number} Properties": properties,
    }


OURS, THEIRS = "6000000000000000a1b2c3d4e5f60718", "6000000000000000ffffffffffffffff"
SLOTS = ("252:0", "252:1", "252:2")


def virtual(name: str = NAME, **how: Any) -> str:
    """Return the answer about all virtual drives: a foreign one, and the one with the given name."""
    slots = how.pop("slots", SLOTS[::-1])  # a controller has them in an order of its own
    return answer(
        {
            **virtual_parts(0, "photos", THEIRS, slots=("252:6", "252:7")),
            **virtual_parts(3, name, OURS, slots=slots, **how),
        }
    )


def operation(status: str, what: str = "INIT", progress: object = "-") -> str:
    """Return the answer about an operation of a virtual drive."""
    row = {"VD": 3, "Operation": what, "Progress%": progress, "Status": status, "Estimated Time Left": "-"}
    return answer({"VD Operation Status": [row]})


def make_disk(root: Path, naa: str = OURS, **files: str) -> None:
    """Create sdb; ``__`` in the name of a file stands for ``/``."""
    block = root / "sys/devices/pci0/host0/block/sdb"
    known = {"dev": "8:16", "size": "2048", "device__wwid": f"naa.{naa}", **files}
    for name, text in known.items():
        path = block / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    for place in ("sys/block/sdb", "sys/class/block/sdb", "sys/dev/block/8:16"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).symlink_to(block)
    (root / "dev").mkdir()
    (root / "dev/sdb").touch()


def test_the_requested_virtual_drive_is_created(stage: Stage) -> None:
    """Level, slots, name, policies and strip; background work is off; it is fully initialized, and found by number."""
    make_disk(stage.root)
    stage.play(
        "storcli64",
        Rule(when=("/c0/vall",), says=virtual()),
        Rule(when=("add",), says=ADDED),
        Rule(when=("/c0/v3", "autobgi=off"), says=SET),
        Rule(when=("/c0/v3", "init", "full"), says=STARTED),
    )
    asked = slots(write_policy="write through", read_policy="no read ahead", io_policy="direct")
    made = Storcli(asked, NAME, root=stage.root)
    assert made.create(asked.members, stage.evidence / "array", clean=False) == stage.root / "dev/sdb"
    assert stage.commands_without("show") == [
        [
            "storcli64",
            "/c0",
            "add",
            "vd",
            "type=raid5",
            f"name={NAME}",
            "drives=252:0,252:1,252:2",
            "wt",
            "nora",
            "direct",
            "strip=64",
            "J",
        ],
        ["storcli64", "/c0/v3", "set", "autobgi=off", "J"],
        ["storcli64", "/c0/v3", "start", "init", "full", "force", "J"],
    ]
    assert ("Strip Size", "64 KB") in made.properties(Path("/dev/sdb"))


def test_a_virtual_drive_without_redundancy_is_not_initialized(stage: Stage) -> None:
    """RAID 0 has no redundancy to make consistent; drives without an enclosure are named by their slots."""
    make_disk(stage.root)
    listed = virtual(slots=(" :1", " :0"), TYPE="RAID0")
    stage.play("storcli64", Rule(when=("/c0/vall",), says=listed), Rule(when=("add",), says=ADDED))
    asked = slots(level=0, members=(":0", ":1"), chunk="")
    Storcli(asked, NAME, root=stage.root).create(asked.members, stage.evidence / "array", clean=False)
    assert stage.commands_without("show") == [
        ["storcli64", "/c0", "add", "vd", "type=raid0", f"name={NAME}", "drives=0,1", "J"]
    ]
    with pytest.raises(ValueError, match="an enclosure for all members, or for none"):
        slots(level=0, members=("252:1", ":3"))


def test_a_virtual_drive_of_wrong_slots_is_not_initialized(stage: Stage) -> None:
    """If the controller created the virtual drive from other slots, nothing more is done to it."""
    make_disk(stage.root)
    listed = virtual(slots=("252:0", "252:1", "252:6"))
    stage.play("storcli64", Rule(when=("/c0/vall",), says=listed), Rule(when=("add",), says=ADDED))
    with pytest.raises(ArrayError, match="is made of 252:0, 252:1, 252:6, not of 252:0, 252:1, 252:2"):
        Storcli(slots(), NAME, root=stage.root).create(SLOTS, stage.evidence / "array", clean=False)
    assert [command[2] for command in stage.commands_without("show")] == ["add"]


def test_another_drive_under_the_name_is_not_the_array(stage: Stage) -> None:
    """The kernel's device must have the number that the controller reports."""
    make_disk(stage.root, THEIRS)
    stage.play("storcli64", Rule(when=("/c0/vall",), says=virtual()), Rule(says=ADDED))
    with pytest.raises(ArrayError, match=r"did not appear as /dev/sdb \(/dev/sdb is naa"):
        Storcli(slots(), NAME, root=stage.root).create(SLOTS, stage.evidence / "array", clean=True)


def test_only_the_virtual_drive_of_that_name_is_deleted(stage: Stage) -> None:
    """It is deleted by its random name; nothing is deleted if no virtual drive, or two, have that name."""
    stage.play("storcli64", Rule(when=("/c0/vall",), says=virtual()), Rule(when=("del",), says=DELETED))
    Storcli(slots(), NAME, root=stage.root).delete(())
    assert stage.commands_without("show") == [["storcli64", "/c0/v3", "del", "force", "J"]]
    none = ("No VDs have been configured", "No VD's have been configured.")
    for message in (virtual("ptsffffffffffff"), *(answer(description=empty) for empty in none), refusal(none[1])):
        stage.play("storcli64", Rule(when=("/c0/vall",), says=message))
        Storcli(slots(), NAME, root=stage.root).delete(())
        found = find(f"storcli 0 {NAME}", stage.root)
        assert found is not None
        assert found.read() == "none"
    twice = answer({**virtual_parts(0, NAME, THEIRS), **virtual_parts(3, NAME, OURS)})
    stage.play("storcli64", Rule(when=("/c0/vall",), says=twice))
    with pytest.raises(ArrayError, match=f"virtual drives 0 and 3 are both {NAME}"):
        Storcli(slots(), NAME, root=stage.root).delete(())


@pytest.mark.parametrize(
    "text",
    [
        answer({"Virtual Drives": [{"VD Info": {"DG/VD": "0/1", "Name": NAME}}]}),
        answer(virtual_parts(3, NAME, OURS), number=1),
        answer(virtual_parts(3, NAME, OURS)).replace("/c0/v3", "/c1/v3"),
        answer(),
    ],
)
def test_an_unknown_list_of_virtual_drives_is_an_error(stage: Stage, text: str) -> None:
    """From another format, another controller's list, or no list, nobody knows whether the virtual drive exists."""
    stage.play("storcli64", Rule(when=("/c0/vall",), says=text))
    with pytest.raises(ArrayError):
        Storcli(slots(), NAME, root=stage.root).delete(())
    found = find(f"storcli 0 {NAME}", stage.root)
    assert found is not None
    assert found.read() is None


def test_a_virtual_drive_in_use_is_not_deleted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual drive that a killed run left and somebody has mounted remains; the number identifies its device."""
    monkeypatch.setattr(storcli, "_TRANSIENT_SECONDS", 0.01)
    make_disk(stage.root)
    mounts = stage.root / "proc/self/mountinfo"
    mounts.write_text("30 1 8:16 / /srv rw - ext4 /dev/sdb rw\n")
    stage.play("storcli64", Rule(when=("/c0/vall",), says=virtual()), Rule(when=("del",), says=DELETED))
    with pytest.raises(ArrayError, match=r"virtual drive 3 is not deleted: .*mounted at /srv"):
        Storcli(slots(), NAME, root=stage.root).delete(())
    assert stage.commands_without("show") == []
    mounts.write_text("")
    Storcli(slots(), NAME, root=stage.root).delete(())
    assert len(stage.commands_without("show")) == 1


@pytest.mark.parametrize(("text", "wwid"), [(OURS, "t10.LSI foo"), ("N/A", f"naa.{OURS}"), ("N/A", "")])
def test_a_virtual_drive_without_a_number_is_not_deleted_while_in_use(
    text: str, wwid: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If controller or kernel reports no number, nothing is deleted unless the layout's device is free."""
    monkeypatch.setattr(storcli, "_TRANSIENT_SECONDS", 0.01)
    make_disk(stage.root, device__wwid=wwid)
    mounts = stage.root / "proc/self/mountinfo"
    mounts.write_text("30 1 8:16 / /srv rw - ext4 /dev/sdb rw\n")
    known = virtual().replace(OURS, text)
    stage.play("storcli64", Rule(when=("/c0/vall",), says=known), Rule(when=("del",), says=DELETED))
    for ours in (Storcli(slots(), NAME, root=stage.root), Storcli.from_record("storcli", 0, NAME, root=stage.root)):
        with pytest.raises(ArrayError, match="virtual drive 3 is not deleted"):
            ours.delete(())
    assert stage.commands_without("show") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            refusal("Add VD Failed", Ctrl=0, Status="Failed", ErrCd=255, ErrMsg="Drive not found"),
            "add vd .* failed: Add VD Failed; Drive not found",
        ),
        (refusal("no space", VD="0 KB", ErrCd=13, Status="Failed", Description="no space"), "add vd .*: no space$"),
        (refusal("None", Drive="/c0/e252/s0", Status="Failure", ErrCd=45, ErrMsg="-"), "add vd .* failed: error 45"),
        (answer(None, {"VD": 3, "Status": "Failed", "ErrCd": 255, "ErrMsg": "no"}), "failed: no$"),
        (refusal("Controller 0 not found"), "failed: Controller 0 not found"),
        ("syntax error, unexpected TOKEN_COLON\n", "invalid answer"),
        ('{"Controllers": []}', "invalid answer"),
    ],
)
def test_a_refusal_of_the_controller_is_quoted(stage: Stage, text: str, message: str) -> None:
    """A failure of the command or of a part is reported with description and detail, whatever the exit code is."""
    stage.play("storcli64", Rule(when=("add",), says=text))
    with pytest.raises(ArrayError, match=message):
        Storcli(slots(), NAME).create(("252:0",), stage.evidence / "array", clean=True)


def test_text_around_an_answer_is_ignored(stage: Stage) -> None:
    """Lines before and after the JSON, and control characters in names, are ignored."""
    says = drive_answer("252:0").replace("EXAMPLE 960 ", "EXAMPLE\t960 ")
    stage.play(
        "storcli64",
        Rule(when=("/c0/e252/s0",), says=f"Generating detailed summary.\n{says}\nbye\n"),
        Rule(when=("/c0/e252/s1",), says=drive_answer("252:1")),
    )
    first, _ = Storcli(slots(level=1, members=SLOTS[:2], chunk=""), root=stage.root).members()
    assert first.model == "EXAMPLE\t960"


def test_members_of_a_controller_are_free_or_refused(stage: Stage) -> None:
    """Unconfigured good, in no group; serial, model, firmware and size are the drive's own."""
    answers = [Rule(when=(f"/c0/e252/s{slot}",), says=drive_answer(f"252:{slot}")) for slot in range(3)]
    stage.play("storcli64", *answers)
    found = Slots(slots(), root=stage.root).read()
    assert [entry.serial for entry in found] == ["SN00", "SN01", "SN02"]
    assert (found[0].path, found[0].firmware, found[0].capacity_bytes) == ("252:0", "FW01", 0x6FC81AB0 * 512)
    assert (found[0].model, found[0].rotational) == ("EXAMPLE 960", False)
    taken = (
        {"State": "Onln", "DG": 0},
        {"DG": "F"},
        {"DG": 0},
        {"State": "JBOD"},
        {"State": "GHS"},
        {"State": "UGUnsp"},
        {"State": "UBad"},
    )
    for message in (
        *(drive_answer("252:0", **value) for value in taken),
        drive_answer("252:0").replace('"DG": "-", ', ""),
    ):
        stage.play("storcli64", Rule(when=("/c0/e252/s0",), says=message))
        with pytest.raises(TargetBusy, match="the drive in slot 252:0 is not free"):
            Slots(slots(), root=stage.root).read()
    stage.play("storcli64", Rule(when=("/c0/e252/s0",), says=drive_answer("252:0", None, **{"EID:Slt": "252:3"})))
    with pytest.raises(TargetBusy, match="does not report the drive in slot 252:0"):
        Slots(slots(), root=stage.root).read()


@pytest.mark.parametrize("files", [{"device__vpd_pg80": "\0\x80\0\x04SN00"}, {"device__wwid": "naa.5000c500a1b2c300"}])
def test_a_drive_that_is_also_a_disk_of_the_kernel_is_refused(stage: Stage, files: dict[str, str]) -> None:
    """Controllers with IR firmware report a drive as free that the host has as a disk, and may have mounted."""
    make_disk(stage.root, **files)
    stage.play("storcli64", Rule(when=("/c0/e252/s0",), says=drive_answer("252:0")))
    with pytest.raises(TargetBusy, match=r"slot 252:0 is not free \(it is also .*/dev/sdb"):
        Slots(slots(), root=stage.root).read()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("894.252 GB [0x6fc81ab0 Sectors]", 0x6FC81AB0 * 512),
        ("5.457 TB [0x575428000 Sectors]", None),
        ("894.252 GB [0xdf90356 Sectors]", 0xDF90356 * 4096),
        ("9.095 TiB [0x48c400000 Sectors]", 0x48C400000 * 512),
        ("Unknown", None),
    ],
)
def test_the_size_of_a_drive_agrees_with_both_figures(text: str, size: int | None) -> None:
    """The sector size is the one with which both figures agree; if none does, the size is unknown."""
    assert size_bytes(text) == size


def test_a_drive_without_a_serial_number_has_none(stage: Stage) -> None:
    """A placeholder is not a serial number that an operator could confirm; a slot may have no enclosure."""
    stage.play(
        "storcli64",
        *(
            Rule(when=(f"/c0/s{slot}",), says=drive_answer(f" :{slot}", {"SN": "N/A", "WWN": "NA"}))
            for slot in range(2)
        ),
    )
    found = Slots(slots(level=0, members=(":0", ":1")), root=stage.root).read()
    assert [(entry.serial, entry.identity) for entry in found] == [("", ":0"), ("", ":1")]


def test_members_of_a_controller_stay_the_same(stage: Stage) -> None:
    """If a slot has another drive than the confirmed one, the run ends before anything is created."""
    answers = [Rule(when=(f"/c0/e252/s{slot}",), says=drive_answer(f"252:{slot}")) for slot in range(3)]
    stage.play("storcli64", *answers)
    members = Slots(slots(), root=stage.root)
    with members.claimed(confirmed=False):
        pass
    with members.claimed(confirmed=True):
        pass
    stage.play("storcli64", *answers[:2], Rule(when=("/c0/e252/s2",), says=drive_answer("252:2", {"SN": "SN09"})))
    with pytest.raises(HostFailed, match="other drives"), members.claimed(confirmed=True):
        pass


@pytest.mark.long
def test_the_run_waits_for_the_initialization(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until no operation is in progress and the controller reports it as consistent; if not optimal, it failed."""
    idle = (Rule(when=("init",), says=operation("Not in progress")), Rule(when=("bgi",), says=operation("-", "BGI")))
    stage.state = "made"
    stage.play(
        "storcli64",
        Rule(when=("/c0/vall",), state="made", says=virtual(Consist="No")),  # what was started does not show yet
        Rule(when=("bgi",), state="made", then="init", says=operation("-", "BGI")),
        Rule(when=("/c0/vall",), state="init", says=virtual(Consist="No")),
        Rule(when=("init",), state="init", then="check", says=operation("In progress", progress=5)),
        Rule(when=("/c0/vall",), state="check", then="done", says=virtual(doing="Consistency Check (36%)")),
        Rule(when=("/c0/vall",), says=virtual()),
        *idle,
    )
    ticks: list[float] = []
    Storcli(slots(), NAME).wait(Path("/dev/sdb"), lambda seconds, _: ticks.append(seconds))
    assert len(ticks) == 3
    stage.play("storcli64", Rule(when=("/c0/vall",), says=virtual(State="Dgrd")), *idle)
    with pytest.raises(ArrayError, match="is Dgrd, not optimal"):
        Storcli(slots(), NAME).wait(Path("/dev/sdb"))
    monkeypatch.setattr(storcli, "_OPERATION_START_SECONDS", 0.01)
    stage.play("storcli64", Rule(when=("/c0/vall",), says=virtual(Consist="No")), *idle)
    with pytest.raises(ArrayError, match="is not consistent, and no operation is in progress"):
        Storcli(slots(), NAME).wait(Path("/dev/sdb"))


def test_the_version_names_program_controller_and_firmware(stage: Stage) -> None:
    """perccli answers as storcli does, under its own name."""
    says = answer(
        {"Product Name": "PERC H740P Mini ", "FW Package Build": "51.16.0-4076", "FW Version": "5.160.02-3552"}
    )
    stage.play("perccli64", Rule(when=("/c0", "show"), says=says))
    made = Storcli(slots(controller="perccli"))
    assert made.version() == "perccli 007.2705.0000.0000; PERC H740P Mini, firmware 5.160.02-3552"
    foreign = refusal("None", Ctrl=0, Status="Failed", ErrCd=59, ErrMsg="Incomplete foreign configuration")
    stage.play("perccli64", Rule(when=("/c0", "show"), says=foreign))
    assert made.version().startswith("perccli version unknown")


# -- a purge of all members -------------------------------------------------------------------------------------------


class SimulatedController:
    """A controller whose array is a loop device; it requires free members, as mdadm does."""

    place = f"mdadm {UUID}"

    def __init__(self, device: Path) -> None:
        self.device = device
        self.did: list[str] = []

    def version(self) -> str:
        return "mdadm v4.2"

    def create(self, members: Sequence[str], evidence: Path, *, clean: bool) -> Path:
        for name in members:
            os.close(os.open(name, os.O_RDWR | os.O_EXCL))
        self.did.append(f"create {evidence.name} {clean}")
        return self.device

    def wait(self, device: Path, tick: Tick | None = None) -> None:
        del device, tick
        self.did.append("wait")

    def properties(self, device: Path) -> tuple[tuple[str, str], ...]:
        del device
        return (("Layout", "2"),)

    def delete(self, members: Sequence[str], evidence: Path | None = None) -> None:
        del members, evidence
        os.close(os.open(self.device, os.O_RDWR | os.O_EXCL))  # nobody may hold it
        self.did.append("delete")

    def exists(self) -> bool:
        return True

    def clean_up(self) -> None:
        self.did.append("clean up")


@contextmanager
def loops(folder: Path, *sizes: int) -> Iterator[list[Path]]:
    """Yield loop devices with foreign data."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(loop_device(filled(folder / f"disk{number}.img", MIB // 4), size))
            for number, size in enumerate(sizes)
        ]


@contextmanager
def assembled_array(folder: Path, **how: Any) -> Iterator[tuple[ArrayPurger, SimulatedController]]:
    """Yield the purger of an assembled array of three loop devices, and the controller."""
    need_root()
    (folder / "evidence").mkdir()
    with loops(folder, 4 * MIB, 4 * MIB, 4 * MIB, 8 * MIB) as (*members, device):
        asked = layout(members=tuple(map(str, members)))
        drives, made = Drives(asked, discard_data=False), SimulatedController(device)
        with drives.claimed(confirmed=False) as claim:
            assert len(claim) == 3
        known = AssembledArray(asked, made)
        known.create(drives.read(), folder / "evidence/00000-array", clean=True)
        wipc = Preconditioning(passes=2, thread_count=1, queue_depth=4, io_engines=("libaio",))
        each = Purger(requested=how.pop("wanted", "blkdiscard"), **how)
        try:
            yield ArrayPurger(array=known, members=drives, member_purger=each, preconditioning=wipc), made
        finally:
            known.close()


@pytest.mark.long
def test_each_member_is_purged_proven_and_written_over(tmp_path: Path) -> None:
    """The array is released, each member is purged with its own proof and overwritten twice; the array is recreated."""
    evidence = tmp_path / "evidence"
    with assembled_array(tmp_path) as (purger, made):
        target = purger.array.target
        purged = purger.purge(target, 7, evidence / "00000-purge")
        assert purged.method == "blkdiscard, each of 3 members, then 2 x SEQ writes"
        assert (purged.samples, purged.survivors) == (3 * 64, 0)
        assert [deviation.actual for deviation in purged.deviations] == ["blkdiscard"]
        assert made.did == ["create 00000-array True", "delete", "create 00000-purge-after False", "wait"]
        target.require_same("Round 1", "RND 4 KiB")
        with pytest.raises(OSError, match="busy"):
            os.open(target.dut.path, os.O_RDWR | os.O_EXCL)
        assert target.dut.array is not None
        for number in (1, 2, 3):
            (job,) = (evidence / f"00000-purge-member{number}-wipc").glob("00001-*-r0.json")
            (done,) = json.JSONDecoder().raw_decode(job.read_text().partition("\n{")[2].join(("{", "")))[0]["jobs"]
            assert done["write"]["total_ios"] == 2 * 4 * MIB // (128 * 1024)
        assert len({content(tmp_path / f"disk{number}.img") for number in range(3)}) == 3


@pytest.mark.long
@pytest.mark.parametrize("allowed", [False, True])
def test_a_member_that_is_not_purged_is_reported(tmp_path: Path, allowed: bool) -> None:
    """The purge of the array fails; with --allow-unpurged it is not proven, and the report names the member."""
    lie = "sh -c 'case $0 in */loop*) test $0 = $(ls $0) && blkdiscard --force --length 4096 $0;; esac' {device}"
    with assembled_array(tmp_path, wanted="auto", command=lie, allow_unpurged=allowed) as (purger, made):
        evidence = tmp_path / "evidence/00000-purge"
        if not allowed:
            with pytest.raises(PurgeFailed, match="reported success, but"):
                purger.purge(purger.array.target, 7, evidence)
            assert made.did[-1] == "delete"
            return
        purged = purger.purge(purger.array.target, 7, evidence)
        assert purged.survivors
        assert all("NOT PROVEN" in deviation.actual for deviation in purged.deviations)
        assert "not proven" in purged.label


@pytest.mark.long
def test_a_recreated_array_that_differs_ends_the_run(tmp_path: Path) -> None:
    """With another size or name of the array, the plan of the run is not valid."""
    with assembled_array(tmp_path) as (purger, made), loop_device(filled(tmp_path / "other.img", 6 * MIB)) as other:
        made.device = other
        purger.array.release()
        with pytest.raises(HostFailed, match="the recreated array's path was"):
            purger.array.create(purger.members.read(), tmp_path / "evidence/00001-array", clean=True)


def test_the_write_caches_of_all_members_are_summarised(tmp_path: Path) -> None:
    """A state that all share is reported once; otherwise each is reported, and the state of the array is unknown."""
    kinds: list[Mapping[str, Any]] = [{"write_cache": "enabled"}, {"write_cache": "enabled"}]
    duts = [samples.dut(path=f"/dev/none{number}", kind="loop device", **kind) for number, kind in enumerate(kinds)]
    status = MemberCaches(duts, "disabled").expected_status()
    assert status.state == "enabled"
    assert status.source.startswith("each member: ")
    mixed = MemberCaches([duts[0], dataclasses.replace(duts[1], write_cache="disabled")], "disabled")
    assert mixed.expected_status().state == "unknown"
    assert "none0 enabled" in mixed.expected_status().source
    protected = [dataclasses.replace(duts[0], write_cache=state) for state in ("none", "disabled")]
    assert MemberCaches(protected, "disabled").expected_status().state == "disabled"
    assert mixed.after_purge(tmp_path / "evidence") == ((), ())


# -- the command line -------------------------------------------------------------------------------------------------


def write_array_file(folder: Path, made_of: Sequence[Path] = tuple(map(Path, THREE)), **keys: object) -> str:
    """Write the file of an array, and return the target."""
    known = {"format": 1, "controller": "mdadm", "level": 5, "chunk": "64 KiB", "members": [*map(str, made_of)]}
    lines = (f"{key} = {json.dumps(value)}" for key, value in {**known, **keys}.items())
    (folder / "array.toml").write_text("\n".join(lines))
    return f"array:{folder}/array.toml"


def run(*argv: str) -> int:
    """Run a command line."""
    return main(["iops", *argv, "--progress", "none", "--to", "none", "--purge", "blkdiscard"])


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the kernel has the md driver, which the kernel of the tests may not have."""
    monkeypatch.setattr("snia_pts.arrays.setup.require_driver", lambda _: None)


def test_a_kernel_without_the_driver_is_refused(tmp_path: Path, stage: Stage) -> None:
    """The level has to be among the personalities of the kernel, or a module that modprobe finds."""
    (stage.root / "proc").mkdir(exist_ok=True)
    stage.play("modprobe", Rule(when=("md-raid6",)), Rule(exits=1))
    for text, level, there in (
        ("", 5, False),
        ("Personalities : [raid6] [raid5] [raid4]\n", 5, True),
        ("Personalities : [raid1]\n", 5, False),
        ("Personalities : [raid1] [raid10]\n", 10, True),
        ("", 6, True),
    ):
        (stage.root / "proc/mdstat").write_text(text)
        asked = layout(level=level, members=("/dev/a", "/dev/b", "/dev/c", "/dev/d"))
        if there:
            mdadm.require_driver(asked, stage.root)
        else:
            with pytest.raises(TargetUnfit, match=f"no md driver for RAID {level}"):
                mdadm.require_driver(asked, stage.root)


@pytest.mark.skipif(Path("/proc/mdstat").exists(), reason="this kernel has the md driver")
def test_plan_and_run_refuse_a_kernel_without_the_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--plan and the run are refused with the same message, and neither creates a folder."""
    need_program("mdadm", "mdadm")
    messages = []
    with loops(tmp_path, 8 * MIB, 8 * MIB, 8 * MIB) as members:
        for options in (("--plan",), ("--run-dir", str(tmp_path / "run"))):
            assert run(write_array_file(tmp_path, members), "--discard-data", *options) == 10
            messages.append(capsys.readouterr().err)
    assert messages[0] == messages[1]
    assert not (tmp_path / "run").exists()


def names_of_arrays() -> list[Path]:
    """Return the names of arrays in /dev."""
    return sorted((*Path("/dev").glob("md*"), *Path("/dev").glob("md/*")))


@pytest.mark.long
@pytest.mark.skipif(Path("/proc/mdstat").exists(), reason="this kernel has the md driver, and would make the array")
@pytest.mark.usefixtures("driver")
def test_a_failed_creation_leaves_evidence_and_no_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the real mdadm fails, the folder in the message has its output, and no name is left in /dev."""
    need_program("mdadm", "mdadm")
    before = names_of_arrays()
    with loops(tmp_path, 8 * MIB, 8 * MIB, 8 * MIB) as members:
        contents = [content(item) for item in members]
        options = ("--serial", ",".join(entry.name for entry in members), "--discard-data")
        assert run(write_array_file(tmp_path, members), *options, "--run-dir", str(tmp_path / "run")) == 13
        assert [content(each) for each in members] == contents
    assert f"The evidence is in {tmp_path}/run/evidence." in capsys.readouterr().err
    answer = json.loads((tmp_path / "run/evidence/00000-array-create.process.json").read_text())
    assert answer["exit_code"] != 0
    assert names_of_arrays() == before


@pytest.mark.long
@pytest.mark.usefixtures("driver")
def test_a_plan_of_an_array(tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: Stage) -> None:
    """The plan knows its size, and that it is not a drive, before anything is created."""
    stage.play("mdadm")
    with loops(tmp_path, 8 * MIB, 8 * MIB, 8 * MIB) as members:
        assert run(write_array_file(tmp_path, members), "--plan", "--json", "--discard-data") == 0
        plan = json.loads(capsys.readouterr().out)
    assert plan["dut"]["capacity_bytes"] == 2 * 8 * MIB
    assert plan["dut"]["model"].startswith("RAID 5 of 3 x loop device")
    assert {"device under test", "purge"} <= {deviation["what"] for deviation in plan["deviations"]}


@pytest.mark.long
@pytest.mark.usefixtures("driver")
def test_a_plan_of_an_array_counts_each_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: Stage
) -> None:
    """An overwrite, and the two passes before the array is recreated, cover each whole member.

    Other serial numbers, and a member in use, are refused.
    """
    stage.play("mdadm")
    with loops(tmp_path, 8 * MIB, 8 * MIB, 8 * MIB) as members:
        words = ("iops", write_array_file(tmp_path, members), "--discard-data", "--plan", "--json")
        assert main([*words, "--purge", "overwrite"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert main([*words, "--serial", "another"]) == 9
        make_ext4(members[1])
        with mounted(members[1], tmp_path / "m"):
            assert main(words) == 7
    assert plan["shortest"]["steps"][0]["written_bytes"] == (1 + 2) * 3 * 8 * MIB


@pytest.mark.long
@pytest.mark.usefixtures("driver")
def test_a_member_that_is_refused_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: Stage
) -> None:
    """A member that is mounted, named twice, a file, or not confirmed is refused, and all members are unchanged."""
    stage.play("mdadm")
    options = ("--serial", "no", "--discard-data", "--run-dir", str(tmp_path / "run"))
    with loops(tmp_path, 8 * MIB, 8 * MIB, 8 * MIB) as members, ExitStack() as stack:
        before = [content(item) for item in members]
        again = Path(f"/dev/shm/{tmp_path.parent.name}-{os.getpid()}")  # noqa: S108 - names begin with /dev
        again.symlink_to(members[0])
        stack.callback(again.unlink)
        assert run(write_array_file(tmp_path, [*members[:2], again]), *options) == 2
        assert f"{members[0]} and {again} are the same drive" in capsys.readouterr().err
        again.unlink()
        os.mknod(again, 0o60600, members[0].stat().st_rdev)  # another node of the drive
        assert run(write_array_file(tmp_path, [*members[:2], again]), *options) == 2
        assert f"{members[0]} and {again} are the same drive" in capsys.readouterr().err
        assert run(write_array_file(tmp_path, members), *options) == 9
        assert "'no' are not the serial numbers or names of its members" in capsys.readouterr().err
        assert [content(entry) for entry in members] == before
        make_ext4(members[2])
        with mounted(str(members[2]), tmp_path / "mnt"):
            assert run(write_array_file(tmp_path, members), *options) == 7
        assert f"{members[2]} is in use: it is mounted at" in capsys.readouterr().err
        assert [content(each) for each in members[:2]] == before[:2]
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.usefixtures("driver")
def test_a_failed_creation_leaves_its_members_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: Stage
) -> None:
    """The error of mdadm is reported, nothing is measured, and neither a restore record nor a claim is left."""
    refused = "mdadm: Fail to create md when using /sys/module/md_mod/parameters/new_array"
    stage.play("mdadm", Rule(when=("--create",), exits=1, complains=refused), Rule(when=("--scan",)), Rule())
    with loops(tmp_path, 8 * MIB, 8 * MIB, 8 * MIB) as members:
        serials = ",".join(entry.name for entry in members)
        options = ("--serial", serials, "--discard-data", "--run-dir", str(tmp_path / "run"))
        assert run(write_array_file(tmp_path, members), *options) == 13
        assert "mdadm --create failed: mdadm: Fail to create md" in capsys.readouterr().err
        for item in members:
            os.close(os.open(item, os.O_RDWR | os.O_EXCL))
    assert not (tmp_path / "run/array").exists()


@pytest.mark.parametrize(
    ("keys", "options", "code"),
    [
        ({"level": 3}, (), 3),
        ({}, ("--size", "1G"), 2),
        ({}, ("--member-run", "nowhere"), 14),
        ({"controller": "storcli", "members": ["252:0", "252:1", "252:2"], "device": "/dev/sdb"}, (), 10),
    ],
)
def test_invalid_options_of_an_array_are_refused(
    tmp_path: Path, keys: dict[str, Any], options: tuple[str, ...], code: int
) -> None:
    """A file with mistakes, an option for files, and a purge of members that the controller hides."""
    assert run(write_array_file(tmp_path, **keys), *options) == code


# -- what is reported -------------------------------------------------------------------------------------------------


def result(test: str = "iops", **changes: Any) -> Any:
    """Return a result on an array of three."""
    made = BuiltArray(
        layout=layout(measured=MemberRates(disk_mb_per_second=500.0)),
        version="mdadm v4.2; md of Linux 6.1",
        members=tuple(map(member, THREE)),
        properties=(("Layout", "2"),),
        speeds=Speeds(iops=((0, 8000.0), (100, 82000.0)), source="run 1"),
    )
    device = samples.dut(kind="virtual device", array=made, model="RAID 5 of 3 x EXAMPLE")
    return samples.result_of(test, device=device, **changes)


def _table(page: Page) -> Table:
    """Return the first table of a page."""
    table = page.blocks[0]
    assert isinstance(table, Table)
    return table


def test_the_array_is_in_the_result() -> None:
    """result.xml has layout, version and members, and is valid; that of a single drive has none of these."""
    root = etree.fromstring(result_xml(result()))
    (element,) = root.iterfind("dut/array")
    assert (element.get("level"), element.get("chunk_bytes"), element.get("controller")) == ("5", "65536", "mdadm")
    assert [item.get("serial") for item in element.iterfind("member")] == ["Ssdb", "Ssdc", "Ssdd"]
    assert etree.fromstring(result_xml(samples.iops_result())).find("dut/array") is None


def test_the_report_has_the_predictions() -> None:
    """Every mix of the 4 KiB row is beside its prediction, with the ratio; for throughput, the largest blocks."""
    shown = result()
    loop = shown.loop()
    (page,) = pages.predicted_iops_page(shown, loop)
    rows = {row[0]: row[1:] for row in _table(page).rows}
    assert set(rows) == {"100/0", "95/5", "65/35", "50/50", "35/65", "5/95", "0/100"}
    predicted = shown.facts.dut.array.predicted_iops(0)
    assert predicted == pytest.approx(3 / 4 * 2 / (1 / 8000 + 1 / 82000))
    small = [
        measurement.iops
        for window in loop.window_rounds
        for measurement in window.measurements
        if (measurement.stimulus.block_size_bytes, measurement.stimulus.read_percent) == (4096, 0)
    ]
    assert rows["0/100"][2] == f"{sum(small) / len(small) / predicted:.2f}"
    assert [table.title for table in pages.array_tables(shown)] == ["Array", "Members, in order"]

    throughput = result("throughput")
    loops_ = [item for item in throughput.loops if item.window]
    (page,) = pages.predicted_throughput_page(throughput, loops_)
    assert {row[1] for row in _table(page).rows} == {"1\N{NARROW NO-BREAK SPACE}000"}


def test_the_speed_of_a_member_comes_from_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--member-run reads the 4 KiB means over the window, by R/W mix; other tests have none, and drives accept none."""
    points = ("rounds.read_percents=[100, 0]", "rounds.block_sizes_kib=[4]", "rounds.point_seconds=1")
    tracked = 'steady_state.tracked=[{metric="iops",block_size_kib=4,read_percent=0}]'
    short = [word for item in (*points, tracked) for word in ("--set", item)]
    there = ("--run-dir", str(tmp_path / "run"), "--progress", "none", "--to", "none")
    assert main(["iops", "sim:enterprise-sata", *short, *there]) == 0
    found = _speeds(MemberRates(disk_iops=1.0), "array.toml", tmp_path / "run")
    root = etree.parse(tmp_path / "run/result.xml")
    reported = {
        int(element.attrib["read_percent"]): float(element.attrib["iops"])
        for element in root.iterfind("loop/window/point")
    }
    assert found is not None
    assert dict(found.iops) == pytest.approx(reported)
    assert _speeds(MemberRates(disk_iops=1.0), "array.toml", None) == Speeds(
        iops=((50, 1.0),), source="array.toml: disk_iops"
    )
    answer = next((tmp_path / "run/evidence").glob("00003-*.json"))
    answer.write_text(answer.read_text() + " ")
    with pytest.raises(RecordError, match=f"{answer.name}: its SHA-256 differs from the one in the journal"):
        _speeds(MemberRates(disk_iops=1.0), "array.toml", tmp_path / "run")
    assert main(["iops", "sim:enterprise-sata", "--member-run", str(tmp_path / "run"), "--plan"]) == 2
    assert "--member-run is for arrays" in capsys.readouterr().err


def test_the_report_of_a_drive_has_no_predictions() -> None:
    """The page of an array is not in the report of a drive."""
    alone = samples.iops_result()
    assert [*pages.array_tables(alone), *pages.predicted_iops_page(alone, alone.loop())] == []  # type: ignore[arg-type]


def test_a_skipped_sync_is_a_deviation() -> None:
    """sync = "skip" is a deviation of every test of the array."""
    (sync_deviation,) = _sync_deviations(layout(sync="skip"))
    assert isinstance(sync_deviation, Deviation)
    assert not [*_sync_deviations(layout())]
    assert not [*_sync_deviations(layout(level=0, sync="skip"))]
