"""The configuration of a host decides which drives are destroyed, and how they are purged."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from snia_pts.errors import RequestRefused, SpecError
from snia_pts.fleet import configuration as module
from snia_pts.fleet import drive_facts
from snia_pts.fleet.configuration import read_configuration
from snia_pts.fleet.request import RequestOptions, RunRequest
from snia_pts.fleet.run_options import resume_options, run_options
from tests.strategies import dut

_TEXT = """
format = 1
host = "rack1-host3"
database = "postgresql://agent@lab/lab"
state_folder = "/var/lib/snia-pts/agent"
run_folder = "/var/lib/snia-pts/runs"
purges = ["auto", "nvme-format"]

[[drive]]
serial = "S1"

[[drive]]
serial = "S2"
target = "/dev/disk/by-path/pci-0000:01:00.0-nvme-1"
discard_data = true
purge_command = "vendor-tool --erase"

[[drive]]
serial = "FILE"
target = "/srv/trial"
size = "1 GiB"
overwrite = true

[[drive]]
serial = "SIM"
target = "sim:enterprise-nvme"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a configuration and returns its path."""

    def write_file(text: str) -> Path:
        path = tmp_path / "agent.toml"
        path.write_text(text)
        return path

    return write_file


def _request(serial: str, **options: str) -> RunRequest:
    return RunRequest(
        run_id=uuid.uuid4(),
        serial=serial,
        model="M",
        test="iops",
        options=RequestOptions(**options),  # type: ignore[arg-type]  # texts only
    )


def _mistakes(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        read_configuration(path)
    return caught.value.mistakes


def test_a_request_for_a_drive_that_is_not_listed_is_refused(write: Callable[[str], Path]) -> None:
    """The sentence names the drive and the host."""
    configuration = read_configuration(write(_TEXT))
    with pytest.raises(RequestRefused, match="the host rack1-host3 has no drive S3 that may be destroyed"):
        configuration.drive(_request("S3"))
    assert configuration.drive(_request("S1")).serial == "S1"


def test_only_purges_that_the_host_allows_are_accepted(write: Callable[[str], Path]) -> None:
    """A purge command is a method of the drive that has one; its text never comes from a request."""
    configuration = read_configuration(write(_TEXT))
    for serial, purge in (("S1", "ata-sanitize-block"), ("S1", "none"), ("S1", "command")):
        with pytest.raises(RequestRefused, match=f"does not allow the purge method {purge}"):
            configuration.drive(_request(serial, purge=purge))
    request = _request("S2", purge="command")
    drive = configuration.drive(request)
    (options,) = run_options(request, drive, Path("/runs/x"))
    assert (options.purge_command, options.purge_method) == ("vendor-tool --erase", "command")
    assert resume_options(request, drive, "/dev/x", from_purge=False).purge_command == "vendor-tool --erase"


def test_what_destroys_data_is_that_of_the_configuration(write: Callable[[str], Path]) -> None:
    """Of a drive, the request confirms only the serial number, which the run compares with that of the drive."""
    configuration = read_configuration(write(_TEXT))
    allowed = {}
    for serial in configuration.drives:
        request = _request(serial)
        (options,) = run_options(request, configuration.drive(request), Path("/runs/x"))
        allowed[serial] = (
            options.serial,
            options.target,
            options.overwrite,
            options.discard_data,
            options.purge_command,
            options.size_bytes,
        )
    assert allowed == {
        "S1": ("S1", "/dev/null", False, False, None, None),
        "S2": ("S2", "/dev/disk/by-path/pci-0000:01:00.0-nvme-1", False, True, None, None),
        "FILE": ("FILE", "/srv/trial", True, False, None, 1 << 30),
        "SIM": (None, "sim:enterprise-nvme", False, False, None, None),
    }


def test_all_tests_have_one_folder_and_their_own_seeds(write: Callable[[str], Path]) -> None:
    """A request for all tests is a suite of the four basic ones."""
    configuration = read_configuration(write(_TEXT))
    request = RunRequest(
        run_id=uuid.uuid4(),
        serial="SIM",
        model="M",
        test="all",
        options=RequestOptions(seed=7, overrides=("iops.rounds.maximum=7",)),
    )
    options = run_options(request, configuration.drive(request), Path("/runs/x"))
    assert [test.test for test in options] == ["iops", "throughput", "latency", "wsat"]
    assert [test.overrides for test in options] == [("rounds.maximum=7",), (), (), ()]
    assert len({test.seed for test in options}) == 4
    assert {test.run_folder for test in options} == {Path("/runs/x")}


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (_TEXT.replace('"/var/lib/snia-pts/runs"', '"runs"'), "run_folder: 'runs': expected an absolute path"),
        (_TEXT.replace('"S2"', '"S1"'), "drive 2.serial: 'S1': expected each serial number once"),
        (_TEXT.replace("1 GiB", "1 GiX"), "drive 3.size: '1 GiX': expected a size like 1 GB"),
        (_TEXT.replace("purges", "purge"), "purge: unknown key; did you mean purges?"),
        (_TEXT.partition("[[drive]]")[0], "drive: missing; expected one or more [[drive]] tables"),
        (_TEXT + "\nserials = 1", "drive 4.serials: unknown key; did you mean serial?"),
        ("side_by_side = 0" + _TEXT, "side_by_side: 0: expected a number of at least 1"),
    ],
)
def test_a_mistake_in_the_configuration_is_named(write: Callable[[str], Path], text: str, mistake: str) -> None:
    """Nothing is tested by a configuration with a mistake."""
    assert _mistakes(write(text)).strip() == mistake


def test_a_configuration_that_others_could_change_is_refused(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It decides which data are destroyed."""
    path = write(_TEXT)
    monkeypatch.setattr(module, "tampering_risk", lambda path: f"{path} belongs to mallory")
    assert _mistakes(path) == f"  this file decides which data are destroyed, and {path} belongs to mallory"


def test_the_password_of_the_database_is_not_in_the_text_of_a_configuration(write: Callable[[str], Path]) -> None:
    """Logs and tracebacks may print the value."""
    configuration = read_configuration(write(_TEXT.replace("agent@", "agent:secret@")))
    assert "secret" in configuration.database
    assert "secret" not in repr(configuration)


@pytest.mark.parametrize(
    ("serial", "expected"),
    [("S2", [("S2", "EXAMPLE 960"), ("SIM", "sim:enterprise-nvme")]), ("S3", [("SIM", "sim:enterprise-nvme")])],
)
def test_a_drive_with_a_path_is_reported_with_its_model(
    serial: str, expected: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request names that model; if another drive is at the path, the drive is not here."""
    monkeypatch.setattr(drive_facts, "read_inventory", list)
    path, found = tmp_path / "drive", dut(model="EXAMPLE 960", serial=serial, kind="drive")
    monkeypatch.setattr(drive_facts, "drive_at", lambda target: found if target == str(path) else None)
    file = tmp_path / "agent.toml"
    file.write_text(_TEXT.replace("/dev/disk/by-path/pci-0000:01:00.0-nvme-1", str(path)))
    present = drive_facts.present_drives(read_configuration(file))
    assert [(drive["serial"], drive["model"]) for drive in present if drive["serial"] != "FILE"] == expected
