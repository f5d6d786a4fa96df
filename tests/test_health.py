"""A drive's health: the output of nvme-cli and smartctl, and the difference of two readings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import ToolMissing
from snia_pts.lab.device import ata_features
from snia_pts.lab.device.health import read_health
from snia_pts.lab.device.health import smart_log as read_smart_log
from snia_pts.lab.process import program as process
from snia_pts.model.health import Health, HealthValue, Role, alarms, changes, uncounted_io, write_amplification
from snia_pts.results.warnings import run_warnings
from snia_pts.units import capacity
from tests import samples
from tests.purge.playing import recorded
from tests.strategies import dut

GIB = 1 << 30
#: hdparm -I of a SATA SSD.
IDENTIFY = recorded("ata-ssd")
#: nvme smart-log -o json, nvme-cli 2.3; what counts of it.
SMART = {
    "critical_warning": 0,
    "temperature": 311,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 2,
    "endurance_grp_critical_warning_summary": 0,
    "data_units_read": 1000,
    "data_units_written": 2_000_000,
    "host_read_commands": 5,
    "host_write_commands": 69641,
    "controller_busy_time": 12,
    "power_cycles": 3,
    "power_on_hours": 900,
    "unsafe_shutdowns": 1,
    "media_errors": 0,
    "num_err_log_entries": 4,
    "warning_temp_time": 0,
    "critical_comp_time": 0,
    "temperature_sensor_1": 311,
    "thm_temp1_trans_count": 0,
    "thm_temp2_trans_count": 0,
    "thm_temp1_total_time": 0,
    "thm_temp2_total_time": 0,
}
#: nvme get-log -i 0xC0 -l 512 -b, Log Page Version 2: 2 TB written on the media, 1 TB read.
OCP = b"".join(
    (
        (2 * 10**12).to_bytes(16, "little"),
        (10**12).to_bytes(16, "little"),
        bytes(494 - 32),
        b"\x02\0",
        bytes.fromhex("C5AF1028EABFF2A49C4F6F7CC914D5AF"),
    )
)
OCP_FIGURES = 27
ATA = {
    "smart_status": {"passed": True},
    "temperature": {"current": 31},
    "power_on_time": {"hours": 77},
    "ata_smart_attributes": {
        "table": [
            {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 0, "string": "0"}},
            {
                "id": 194,
                "name": "Temperature_Celsius",
                "raw": {"value": 0x2A_0014_001F, "string": "31 (Min/Max 20/42)"},
            },
            {"id": 199, "name": "UDMA_CRC_Error_Count", "raw": {"value": 3, "string": "3"}},
            {"id": 241, "name": "Host_Writes_32MiB", "raw": {"value": 320, "string": "320"}},
            {"id": 242, "name": "Total_LBAs_Read", "raw": {"value": 0x1F00, "string": "0x000000001f00"}},
            {"id": 249, "name": "NAND_Writes_1GiB", "raw": {"value": 25, "string": "25"}},
        ]
    },
    "ata_device_statistics": {
        "pages": [
            {
                "number": 1,
                "table": [
                    {"name": "Logical Sectors Written", "value": 2048, "flags": {"valid": True}},
                    {"name": "Logical Sectors Read", "value": 4096, "flags": {"valid": False}},
                    {"name": "Number of Interface CRC Errors", "value": 3, "flags": {"valid": True}},
                ],
            }
        ]
    },
}
SAS = {
    "smart_status": {"passed": False},
    "temperature": {"current": 29},
    "scsi_grown_defect_list": 2,
    "scsi_error_counter_log": {
        "read": {"gigabytes_processed": "12.500", "total_uncorrected_errors": 1},
        "write": {"gigabytes_processed": "3.250", "total_uncorrected_errors": 0},
    },
    "scsi_percentage_used_endurance_indicator": 4,
}

#: nvme get-feature --feature-id=2 and nvme id-ctrl -o json of QEMU's drive.
POWER = {
    "get_feature": "get-feature:0x02 (Power Management), Current value:0x00000000\n",
    "id_ctrl": recorded("nvme-id-ctrl"),
}


class Drive:
    """A drive whose tools give the specified answers; each answer may be a failure."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
        self.asked: list[str] = []
        self.answers = answers
        monkeypatch.setattr("snia_pts.lab.device.health.process.run", self.run)

    def run(
        self, argv: Sequence[str], *, evidence: Path, timeout_seconds: float, stdout_file: Path | None = None
    ) -> process.Finished:
        assert timeout_seconds <= 30
        self.asked.append(" ".join(argv))
        answer = {**POWER, **self.answers}[argv[1].replace("-", "_") if argv[0] == "nvme" else argv[0]]
        if isinstance(answer, Exception):
            raise answer
        evidence.with_suffix(".process.json").write_text("x")
        if stdout_file:
            stdout_file.write_bytes(b"" if isinstance(answer, str) else answer)
            text = answer if isinstance(answer, str) else ""
        else:
            text = answer if isinstance(answer, str) else json.dumps(answer)
        return process.Finished(
            argv=tuple(argv),
            exit_code=0,
            timed_out=text == "never",
            stopped_seconds=None,
            unkillable_pid=None,
            started="",
            started_monotonic_ns=0,
            ended_monotonic_ns=0,
            stdout=text,
            stderr="the tool's words\n",
        )


NVME = dut(bus="NVMe", path="/dev/nvme0n1")


def values(health: Health | None) -> dict[str, float]:
    assert health
    return {figure.name: figure.value for figure in health.figures}


# -- what tools answer ------------------------------------------------------------------------------------------------


def test_two_logs_of_an_nvme_drive_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data units are converted to bytes, kelvins to degrees Celsius; bytes on the media come from the OCP log."""
    drive = Drive(monkeypatch, smart_log=SMART, get_log=OCP)
    health = read_health(NVME, tmp_path)

    assert drive.asked == [
        "nvme smart-log /dev/nvme0n1 -o json",
        "nvme get-log /dev/nvme0n1 -i 0xC0 -l 512 -b",
        "nvme get-feature /dev/nvme0n1 --feature-id=2",
        "nvme id-ctrl /dev/nvme0n1 -o json",
    ]
    assert values(health)["Data Units Written"] == 2_000_000 * 512_000
    assert values(health)["Composite Temperature"] == 38
    assert values(health)["Physical Media Units Written"] == 2 * 10**12
    assert len(values(health)) == 21 + OCP_FIGURES
    assert health is not None
    assert health.unread == ()
    assert health.evidence == (
        "00000-health-smart-log.process.json",
        "00000-health-ocp.process.json",
        "00000-health-ocp.bin",
        "00000-health-power-state.process.json",
        "00000-health-id-ctrl.process.json",
    )
    assert (tmp_path / "00000-health-ocp.bin").read_bytes() == OCP


@pytest.mark.parametrize(
    "other",
    [
        {"percent_used": None, "percentage_used": 2},
        {"data_units_written": "2000000"},
        {"data_units_written": 2000000.0},
        {"critical_warning": {"value": 0, "available_spare": 0}},
    ],
    ids=str,
)
def test_the_output_of_other_versions_of_nvme_cli_is_parsed(
    other: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers may be texts, floats or parts of an object, and keys have had other names."""
    Drive(monkeypatch, smart_log={**SMART, **other}, get_log=OCP)
    found = values(read_health(NVME, tmp_path))
    Drive(monkeypatch, smart_log=SMART, get_log=OCP)

    assert found == values(read_health(NVME, tmp_path))


def test_attributes_and_statistics_of_a_sata_drive_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw values as smartctl reads them; bytes only if the name, or the ATA standard, defines the unit."""
    drive = Drive(monkeypatch, smartctl=ATA, hdparm=IDENTIFY)
    health = read_health(dut(path="/dev/sda"), tmp_path)
    figures = values(health)

    assert drive.asked == ["smartctl -j -a -l devstat /dev/sda", "hdparm -I /dev/sda"]
    assert figures["194 Temperature_Celsius"] == 31
    assert figures["242 Total_LBAs_Read"] == 0x1F00
    assert figures["Host_Writes_32MiB, in bytes"] == 320 * 32 * (1 << 20)
    assert figures["NAND_Writes_1GiB, in bytes"] == 25 * GIB
    assert figures["Logical Sectors Written"] == 2048 * 512
    assert "Logical Sectors Read" not in figures  # the drive says that it is not valid
    assert figures["SMART status failed"] == 0
    assert health is not None
    faults = [figure.name for figure in health.figures if figure.role == "fault"]
    assert faults == ["Number of Interface CRC Errors", "5 Reallocated_Sector_Ct", "199 UDMA_CRC_Error_Count"]


def test_the_features_of_a_sata_drive_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As hdparm prints them for each drive; what a drive does not list is not supported."""
    Drive(monkeypatch, smartctl=ATA, hdparm=IDENTIFY)
    health = read_health(dut(path="/dev/sda"), tmp_path)
    assert health is not None
    assert {entry.name: entry.text for entry in health.texts} == {
        "NCQ": "supported, queue depth 32",
        "Write cache": "enabled",
        "Look-ahead": "not supported",
        "TRIM": "not supported",
        "Sanitize": "block erase, crypto scramble",
        "Security Mode": "supported",
    }
    assert (health.unread, health.evidence[1]) == ((), "00000-health-identify.process.json")

    more = (
        "\t   *\tGen1 signaling speed (1.5Gb/s)\n\t   *\tGen3 signaling speed (6.0Gb/s)\n\t    \tLook-ahead\n"
        "\t   *\tData Set Management TRIM supported (limit 8 blocks)\n"
        "\t   *\tDeterministic read ZEROs after TRIM\n\t   *\tOVERWRITE_EXT command\n"
    )
    Drive(monkeypatch, smartctl=ATA, hdparm=IDENTIFY.replace("\t   *\tNOP cmd\n", more).replace("*\tWrite", " \tWrite"))
    health = read_health(dut(path="/dev/sda"), tmp_path)
    assert health is not None
    assert {entry.name: entry.text for entry in health.texts} == {
        "Maximum interface speed": "6.0Gbit/s",
        "NCQ": "supported, queue depth 32",
        "Write cache": "disabled",
        "Look-ahead": "disabled",
        "TRIM": "supported, limit 8 blocks, deterministic read ZEROs after TRIM",
        "Sanitize": "block erase, crypto scramble, overwrite",
        "Security Mode": "supported",
    }

    hard_disk = recorded("ata-ide-hd")
    assert {entry.name: entry.text for entry in ata_features.parse(hard_disk)}["Sanitize"] == "not supported"
    assert {entry.name: entry.text for entry in ata_features.parse(hard_disk.replace("(NCQ)", ""))}["NCQ"] == (
        "not supported"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ToolMissing(program="hdparm", package="hdparm"), "hdparm"),
        ("never", "hdparm had no answer in 20 s"),
        ("/dev/sda:\nSG_IO: bad/missing sense data\n", "hdparm -I: its output lists no features (the tool's words)"),
    ],
    ids=lambda item: str(item)[:20],
)
def test_features_that_cannot_be_read_are_reported(
    answer: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of the other log are there."""
    Drive(monkeypatch, smartctl=ATA, hdparm=answer)
    health = read_health(dut(path="/dev/sda"), tmp_path)

    assert health is not None
    (reported,) = health.unread
    assert reason in reported
    assert health.figures
    assert health.texts == ()


def test_the_log_pages_of_a_sas_drive_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gigabytes are texts with a fraction; a failed SMART status is reported without a previous reading."""
    Drive(monkeypatch, smartctl=SAS)
    health = read_health(dut(path="/dev/sda", bus="SCSI"), tmp_path)

    assert values(health)["Bytes processed, write"] == 3.25e9
    assert values(health)["Grown defect list"] == 2
    assert [what for what, _ in alarms(health, None)] == ["state of the drive"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ToolMissing(program="nvme", package="nvme-cli"), "nvme"),
        (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
        ("NVMe status: Invalid Command Opcode\n", "its output is not JSON (the tool's words)"),
        ("[" * 100_000, "its output is not JSON"),
        ("[]", "its output is not a JSON object"),
        ("{}", "its output has no figure of the drive"),
        ({"data_units_written": 10**400}, "its output has no figure of the drive"),
        ({"media_errors": float("nan")}, "its output has no figure of the drive"),
        ({"media_errors": -(10**30), "temperature": True}, "its output has no figure of the drive"),
    ],
    ids=lambda item: str(item)[:30],
)
def test_a_missing_answer_of_tool_or_drive_is_reported(
    answer: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every failure is a sentence in the reading; the values of other logs are present."""
    Drive(monkeypatch, smart_log=answer, get_log=OCP)
    health = read_health(NVME, tmp_path)

    assert health is not None
    (reported,) = health.unread
    assert reason in reported
    assert {figure.source for figure in health.figures} == {"OCP log C0h"}
    assert len(health.figures) == OCP_FIGURES


@pytest.mark.parametrize(
    ("value", "states", "text"),
    [
        ("Current value:00000000", [{"max_power": 2500, "flags": 0}], "0, at most 25 W"),
        ("Current value:0x00000002", [{}, {}, {"max_power": 82500, "max_power_scale": 1}], "2, at most 8.25 W"),
        ("Current value:0x00000021", [{}, {"max_power": 900, "flags": 3}], "1, at most 0.09 W"),
        ("Current value:0x00000001", [{"max_power": 900}], "1"),
        ("Current value:0x00000000", [{"max_power": 0, "flags": 0}], "0"),
        ("Current value:0x00000000", [{"max_power": "x"}], "0"),
        ("Current value:0x00000000", "x", "0"),
    ],
)
def test_the_power_state_has_its_maximum_power(
    value: str, states: Any, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundredths or ten-thousandths of a watt by the state's scale; a drive that does not report it has the number."""
    Drive(monkeypatch, smart_log=SMART, get_log=OCP, get_feature=f"get-feature:0x02, {value}", id_ctrl={"psds": states})
    health = read_health(NVME, tmp_path)

    assert health is not None
    assert health.unread == ()
    assert [entry.text for entry in health.texts if entry.name == "Power state"] == [text]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
        ("never", "nvme had no answer in 20 s"),
        ("NVMe status: Invalid Field\n", "nvme get-feature: its output has no power state (the tool's words)"),
    ],
    ids=lambda item: str(item)[:20],
)
def test_a_power_state_that_is_not_read_is_a_sentence(
    answer: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reading has its other values, and no power state."""
    Drive(monkeypatch, smart_log=SMART, get_log=OCP, get_feature=answer)
    health = read_health(NVME, tmp_path)

    assert health is not None
    (sentence,) = health.unread
    assert reason in sentence
    assert "Power state" not in {entry.name for entry in health.texts}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ToolMissing(program="nvme", package="nvme-cli"), "nvme"),
        ("never", "nvme had no answer in 20 s"),
        (
            "NVMe status: Invalid Log Page\n",
            "OCP log C0h: its output has 0 bytes, expected 512 (the tool's words)",
        ),
        (OCP[:100], "OCP log C0h: its output has 100 bytes, expected 512 (the tool's words)"),
        (bytes(512), f"OCP log C0h: its GUID is {'0' * 32}, expected AFD514C97C6F4F9CA4F2BFEA2810AFC5 (the"),
        (OCP[:494] + b"\x09" + OCP[495:], "OCP log C0h: Log Page Version 9 is not known, so only the fields common"),
    ],
    ids=lambda item: str(item)[:20],
)
def test_a_page_that_is_not_read_is_a_sentence(
    answer: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With invalid data in place of OCP's page, the reading has the SMART log, and the bytes are evidence."""
    Drive(monkeypatch, smart_log=SMART, get_log=answer)
    health = read_health(NVME, tmp_path)

    assert health is not None
    (sentence,) = health.unread
    assert sentence.startswith(reason)
    assert sum(figure.source == "NVMe SMART log" for figure in health.figures) == 21
    if isinstance(answer, bytes):
        assert (tmp_path / "00000-health-ocp.bin").read_bytes() == answer


def test_the_bytes_of_a_real_program_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of nvme writes the raw page to its standard output: no byte is decoded as text."""
    page = bytes(range(128, 256)) + OCP[128:]
    (tmp_path / "page").write_bytes(page)
    program = tmp_path / "nvme"
    program.write_text(f'#!/bin/sh\n[ "$1" = get-log ] && exec cat {tmp_path}/page\necho "{{}}"\n')
    program.chmod(0o755)
    find = process.find
    monkeypatch.setattr(process, "find", lambda name: str(program) if name == "nvme" else find(name))
    (tmp_path / "evidence").mkdir()
    health = read_health(NVME, tmp_path / "evidence")

    assert health is not None
    assert values(health)["End to End Detected Errors"] == int.from_bytes(page[72:76], "little")
    assert (tmp_path / "evidence" / "00000-health-ocp.bin").read_bytes() == page


def test_write_amplification_of_two_readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes on the media from OCP's page, by the host from the SMART log: 3 GB for 2000 data units of 512 000 bytes."""
    Drive(monkeypatch, smart_log=SMART, get_log=OCP)
    before = read_health(NVME, tmp_path)
    written = {**SMART, "data_units_written": SMART["data_units_written"] + 2000}
    Drive(monkeypatch, smart_log=written, get_log=(2 * 10**12 + 3 * 10**9).to_bytes(16, "little") + OCP[16:])
    found = write_amplification(before, read_health(NVME, tmp_path))

    assert found is not None
    assert (found.media_bytes, found.host_bytes) == (3 * 10**9, 1_024_000_000)
    assert found.media_source == "Physical Media Units Written, OCP log C0h"


def test_a_drive_that_does_not_answer_is_queried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query would take its whole time limit."""
    drive = Drive(monkeypatch, smart_log="never", get_log=OCP)
    health = read_health(NVME, tmp_path)

    assert len(drive.asked) == 1
    assert health is not None
    assert len(health.unread) == 1


def test_hostile_names_are_stored_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name from a drive or its tool is stored as one line of limited length."""
    name = 'x\ud800\n<b>"' + "y" * 10_000
    table = [{"id": 1, "name": name, "raw": {"value": 1, "string": "1"}}, {"id": "5", "name": 7}, 3, None]
    Drive(monkeypatch, hdparm=IDENTIFY, smartctl={"ata_smart_attributes": {"table": table * 300}})
    health = read_health(dut(), tmp_path)

    assert health is not None
    assert len(health.figures) == 200
    (name,) = {figure.name for figure in health.figures}
    assert name.startswith('1 x? <b>"yyy')
    assert len(name) < 130
    name.encode()


@pytest.mark.parametrize("kind", ["file", "loop device", "virtual device"])
def test_other_targets_than_drives_are_not_queried(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and virtual devices of the kernel have no health log."""
    assert read_health(dut(kind=kind), tmp_path) is None
    assert Drive(monkeypatch).asked == []


def test_evidence_of_an_earlier_reading_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings have the number of the last measurement; a second one has the next number."""
    Drive(monkeypatch, smart_log=SMART, get_log=OCP)
    names = [read_health(NVME, tmp_path), read_health(NVME, tmp_path)]
    (tmp_path / "00012-rnd-4096b-r0.fio").touch()
    names.append(read_health(NVME, tmp_path))

    assert [name.evidence[0] for name in names if name] == [
        "00000-health-smart-log.process.json",
        "00001-health-smart-log.process.json",
        "00012-health-smart-log.process.json",
    ]


# -- two readings -----------------------------------------------------------------------------------------------------


def reading(**values_by_name: float) -> Health:
    """Return a reading of a few figures."""
    roles = {"host": "host written", "media": "media written", "errors": "fault", "hot": "heat", "state": "state"}
    figures = tuple(
        HealthValue(name=name, value=value, unit="", source="log", role=roles.get(name, ""))  # type: ignore[arg-type]
        for name, value in values_by_name.items()
    )
    return Health(read_at="", figures=figures, unread=(), evidence=())


def test_every_figure_has_a_change() -> None:
    """A figure of only one reading is included, without a difference."""
    found = {
        change.name: (change.before, change.after, change.difference)
        for change in changes(reading(a=1, b=2), reading(a=4, c=5))
    }

    assert found == {"a": (1, 4, 3), "b": (2, None, None), "c": (None, 5, None)}


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        (reading(host=100, media=300), reading(host=300, media=800), 2.5),
        (reading(host=100, media=300), reading(host=100, media=800), None),
        (reading(host=100, media=300), reading(host=50, media=800), None),
        (reading(host=100), reading(host=200), None),
        (reading(host=100, media=300), None, None),
        (None, reading(host=100, media=300), None),
    ],
)
def test_write_amplification_needs_both(before: Health | None, after: Health | None, factor: float | None) -> None:
    """Bytes on the media divided by bytes of the host between two readings; None if one is missing or decreased."""
    found = write_amplification(before, after)

    assert (found.factor if found else None) == factor


def test_only_new_faults_are_alarms() -> None:
    """Faults and heat from before the test are no alarm; a state that the drive warns of always is one."""
    before, after = reading(errors=3, hot=10, state=0), reading(errors=3, hot=10, state=0)
    assert list(alarms(before, after)) == []

    worse = reading(errors=4, hot=12, state=4)
    assert [what for what, _ in alarms(before, worse)] == [
        "state of the drive",
        "faults of the drive",
        "heat of the drive",
    ]
    assert dict(alarms(before, worse))["faults of the drive"] == "new during the test: errors is 4, and was 3"
    assert list(alarms(before, replace(before, figures=()))) == []


@pytest.mark.parametrize(
    ("role", "after", "what"),
    [
        ("power", 6, "power of the drive"),
        ("power", 5, None),
        ("host written", 4, "counters of the drive"),
        ("media written", 4, "counters of the drive"),
        ("media written", 6, None),
        ("host read", 4, "counters of the drive"),
        ("count", 4, "counters of the drive"),
        ("count", 6, None),
        ("fault", 4, "counters of the drive"),
        ("power", 4, "counters of the drive"),
        ("pending", 4, None),
        ("pending", 6, "faults of the drive"),
        ("spare", 6, "counters of the drive"),
        ("spare", 4, None),
        ("", 4, None),
    ],
)
def test_alarms_of_power_and_of_counters(role: Role, after: float, what: str | None) -> None:
    """A power cycle during the test is an alarm, and so is a count that decreases, or a reserve that increases."""
    before = reading(errors=0, hot=0, state=0)
    figure = HealthValue(name="x", value=5, unit="", source="log", role=role)
    readings = (replace(before, figures=(replace(figure, value=value),)) for value in (5, after))

    found = list(alarms(*readings))
    assert [name for name, _ in found] == ([what] if what else [])
    assert all(f"x is {after}, and was 5" in detail for _, detail in found)


def test_power_cycles_of_an_interrupted_test_are_no_alarm() -> None:
    """The power may have failed in the interruption, which the report states."""
    figure = HealthValue(name="x", value=5, unit="", source="log", role="power")
    before, after = (replace(reading(errors=0, hot=0, state=0), figures=(replace(figure, value=n),)) for n in (5, 6))

    assert list(alarms(before, after)) != []
    assert list(alarms(before, after, interrupted=True)) == []


def smart_log(**changes: int) -> Health:
    """Return a reading of an NVMe drive's SMART log with some other values."""
    return Health(read_at="", figures=tuple(read_smart_log({**SMART, **changes}, dut())), unread=(), evidence=())


@pytest.mark.parametrize(
    ("written", "read", "units_written", "units_read", "warned"),
    [
        (10**13, 10**12, 19_531_250, 1_953_125, []),
        (10**13, 10**12, 17_700_000, 1_770_000, []),  # 9.4 % fewer: GiB that are called GB, and more
        (10**13, 10**12, 17_000_000, 1_953_125, ["Data Units Written"]),
        (10**13, 10**12, 19_531_250, 0, ["Data Units Read"]),
        (10**13, 10**12, 0, 0, ["Data Units Written", "Data Units Read"]),
        (10**13, 10**12, 10**9, 10**9, []),  # other programs wrote, too
        (2 * 10**9, 10**9, 0, 0, []),  # less than nominal units may hide
    ],
)
def test_host_io_that_the_drive_did_not_count_is_a_warning(
    written: int, read: int, units_written: int, units_read: int, warned: list[str]
) -> None:
    """The drive's log increases at least by the I/O of the test, within its units; the warning has both figures."""
    after = smart_log(
        data_units_written=SMART["data_units_written"] + units_written,
        data_units_read=SMART["data_units_read"] + units_read,
    )
    found = list(uncounted_io(smart_log(), after, written_bytes=written, read_bytes=read))

    assert [detail.partition(",")[0] for _, detail in found] == warned
    for _, detail in found:
        assert capacity(written) in detail or capacity(read) in detail
    if warned == ["Data Units Written"]:
        assert "increased by 8.704 TB, but the test alone wrote 10 TB" in found[0][1]


def test_a_log_that_lost_counts_with_the_power_is_not_judged_by_them() -> None:
    """For an interrupted test, the drive's log must show that it was not powered on again."""
    before, after, again = smart_log(), smart_log(data_units_written=2_000_001), smart_log(power_cycles=4)
    silent = replace(before, figures=tuple(figure for figure in before.figures if figure.role != "power"))

    assert list(uncounted_io(before, after, written_bytes=10**12, read_bytes=0, interrupted=True))
    assert not list(uncounted_io(before, again, written_bytes=10**12, read_bytes=0, interrupted=True))
    assert not list(uncounted_io(silent, silent, written_bytes=10**12, read_bytes=0, interrupted=True))
    assert list(uncounted_io(silent, silent, written_bytes=10**12, read_bytes=0))


def test_a_log_that_contradicts_the_test_is_a_warning_of_the_result() -> None:
    """Power-on hours that decrease, spare blocks that increase, and I/O of the run that was not counted."""
    result = samples.iops_result()
    lying = smart_log(power_on_hours=899, avail_spare=101, data_units_written=2_000_002)
    facts = replace(result.facts, health=smart_log())
    details = [
        warning.detail
        for warning in run_warnings(replace(result, facts=facts, health_after=lying))
        if warning.what == "counters of the drive"
    ]

    assert "Power On Hours is 899, and was 900" in details[0]
    assert "Available Spare is 101, and was 100" in details[1]
    assert f"increased by 1.024 MB, but the test alone wrote {capacity(result.written_bytes)}" in details[2]
    assert f"increased by 0 B, but the test alone read {capacity(result.read_bytes)}" in details[3]
    assert not [item for item in run_warnings(samples.iops_result()) if item.what == "counters of the drive"]
