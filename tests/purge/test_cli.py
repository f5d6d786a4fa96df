"""The purge options: which are refused, which deviations a plan reports, and how an unproven purge is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lxml import etree

from snia_pts.cli.main import main
from tests.drives import MIB, filled

SHORT = (
    "--set",
    "rounds.read_percents=[0]",
    "--set",
    "rounds.block_sizes_kib=[4]",
    "--set",
    'steady_state.tracked=[{metric="iops",block_size_kib=4,read_percent=0}]',
    "--point-seconds",
    "0.1",
    "--max-rounds",
    "5",
    "--overwrite",
    "--progress",
    "log",
)


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "x.img", 8 * MIB)


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("x.img", "--purge", "none", "--purge-command", "tool {device}"), 2, "not allowed with"),
        (("x.img", "--purge-command", "tool /dev/sda"), 2, "does not name the drive"),
        (("x.img", "--purge-command", "{device}"), 2, "does not name the drive"),
        (("x.img", "--purge-command", "tool '{device}"), 2, "No closing quotation"),
        (("x.img", "--purge-command", ""), 2, "does not name the drive"),
        (("x.img", "--purge-command", "no-such-tool {device}"), 4, "Such tools come from the drive's vendor"),
        (("x.img", "--purge-command", "tool {serial}"), 10, "no serial number"),
        (("sim:optane", "--purge-command", "tool {device}"), 2, "--purge-command is for real targets"),
        (("sim:optane", "--allow-unpurged"), 2, "--allow-unpurged is for real targets"),
    ],
)
def test_invalid_purge_options_are_refused(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], code: int, text: str
) -> None:
    """Each has its message, a remedy and its exit code, and leaves the target unchanged."""
    before = Path("x.img").read_bytes()

    assert main(("iops", *argv, "--overwrite", "--plan") if argv[0] == "x.img" else ("iops", *argv, "--plan")) == code
    message = capsys.readouterr().err
    assert text in message
    assert len(message.strip().splitlines()) >= 2
    assert Path("x.img").read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "actual"),
    [
        ((), "punch-hole"),
        (("--purge", "overwrite"), "overwrite with zeros"),
        (("--purge", "none"), "not purged"),
        (("--purge-command", "fallocate -p -l 8MiB {device}"), None),
        (("--allow-unpurged",), "punch-hole"),
    ],
)
def test_a_plan_lists_the_purge_deviation(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], actual: str | None
) -> None:
    """A plan lists a deviation for punch-hole, overwrite and no purge, but not for a vendor's command."""
    assert main(("iops", "x.img", *SHORT, *argv, "--plan", "--json")) == 0
    output = json.loads(capsys.readouterr().out)["deviations"]

    assert [deviation["actual"] for deviation in output if deviation["what"] == "purge"] == (
        [] if actual is None else [actual]
    )


def purge_of(run: Path) -> dict[str, str]:
    """Return the attributes of the purge in result.xml."""
    (element,) = etree.parse(run / "result.xml").findall("{*}purge")
    return {str(key): str(value) for key, value in element.attrib.items()}


@pytest.mark.long
def test_an_unproven_purge_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A purge that leaves data has its own exit code; nothing is measured."""
    assert main(("iops", "x.img", *SHORT, "--purge-command", "true {device}", "--run-dir", "run")) == 11
    assert "vendor command: true {device} reported success, but 64 of 64 blocks" in capsys.readouterr().err
    assert not list(Path("run/evidence").glob("00001*"))


@pytest.mark.long
def test_a_run_with_an_unproven_purge_reports_it(capsys: pytest.CaptureFixture[str]) -> None:
    """With --allow-unpurged the run finishes; output, result and report say that the purge is not proven."""
    argv = ("--purge-command", "true {device}", "--allow-unpurged", "--to", "rst", "--run-dir", "run")
    assert main(("iops", "x.img", *SHORT, *argv)) == 0
    text = "vendor command: true {device}, NOT PROVEN: the purge reported success, but 64 of 64 blocks"

    assert text in capsys.readouterr().out
    assert purge_of(Path("run")) | {"started": "", "seconds": ""} == {
        "part": "",
        "method": "vendor command: true {device}",
        "samples": "64",
        "survivors": "64",
        "started": "",
        "seconds": "",
        "evidence": "00000-purge",
    }
    assert "(not proven)" in Path("run/report.rst").read_text()
    assert etree.parse("run/result.xml").xpath("string(//@conformant)") == "false"


@pytest.mark.long
def test_a_purge_command_is_not_run_by_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    """The command is split into words as a shell splits it; ``;`` is an ordinary argument."""
    argv = ("--purge-command", "fallocate -p -l 8MiB '{device}' ; touch shell", "--run-dir", "run")
    assert main(("iops", "x.img", *SHORT, *argv)) == 11
    assert "unexpected number of arguments" in capsys.readouterr().err
    assert not Path("shell").exists()


@pytest.mark.long
def test_a_command_that_truncates_the_target_is_a_failed_purge(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of a failed purge, not that of a refused target."""
    argv = ("--purge-command", "truncate -s 0 {device}", "--run-dir", "run")
    assert main(("iops", "x.img", *SHORT, *argv)) == 11
    assert "left a target that cannot be tested: the file is empty" in capsys.readouterr().err


@pytest.mark.long
def test_a_purge_command_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A vendor's command that purges is no deviation; result and report contain the command."""
    argv = ("--purge-command", "fallocate -p -l 8MiB {device}", "--to", "rst", "--run-dir", "run")
    assert main(("iops", "x.img", *SHORT, *argv)) == 0
    assert "purge:" not in capsys.readouterr().out
    assert purge_of(Path("run"))["method"] == "vendor command: fallocate -p -l 8MiB {device}"
    assert "fallocate -p -l 8MiB" in Path("run/report.rst").read_text()


@pytest.mark.long
def test_a_placeholder_in_the_path_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Every placeholder of the command is replaced once; the path itself may contain another one."""
    neighbour, before = Path("x.img"), Path("x.img").read_bytes()
    filled(Path("x{serial}.img"), 8 * MIB)
    argv = ("--purge-command", "fallocate -p -l 8MiB {device}", "--run-dir", "run")

    assert main(("iops", "x{serial}.img", *SHORT, *argv)) == 0, capsys.readouterr().err
    assert neighbour.read_bytes() == before


@pytest.mark.long_but_first
@pytest.mark.parametrize("form", ["dev:{device}", "x{device}y"])
def test_a_purge_command_gets_the_claimed_file(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Wherever the placeholder is in a word, the command opens the claimed file, even if another file has its name."""
    victim, before = filled(Path("victim"), 8 * MIB), Path("victim").read_bytes()
    Path("tool").write_text(
        "#!/bin/sh\nmv victim x.img\nname=/${1#*/}\nfallocate -p -l 8MiB ${name%y}\ncat x.img >victim\n"
    )
    Path("tool").chmod(0o755)
    argv = ("--purge-command", f"./tool {form}", "--run-dir", "run")

    assert main(("iops", "x.img", *SHORT, *argv)) == 13, capsys.readouterr().err
    assert victim.read_bytes() == before
