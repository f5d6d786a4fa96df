"""ATA Sanitize Device and Security Erase: whatever happens, the drive is not left locked without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from snia_pts.errors import PurgeFailed, TargetUnfit
from snia_pts.lab.purge import METHODS, PurgeCapability, available_methods, method
from snia_pts.lab.purge.ata import Security
from snia_pts.lab.purge.choice import choose
from snia_pts.lab.purge.method import MethodUnavailable
from tests.purge.playing import Canned, Rule, Stage, recorded, staged

READING = ("-I", "--sanitize-status")
ACCESS = ["hdparm", "--user-master", "u"]
IDLE = "\n/dev/sda:\nIssuing SANITIZE_STATUS command\nSanitize status:\n    State:    SD0 Sanitize Idle\n"
DONE = f"{IDLE}    Last Sanitize Operation Completed Without Error\n"
FROZEN = IDLE.replace("SD0 Sanitize Idle", "SD1 Sanitize Frozen")


def going(percent: int) -> str:
    """Return hdparm's word of a sanitize that goes on."""
    state = IDLE.replace("SD0 Sanitize Idle", "SD2 Sanitize operation In Process")
    return f"{state}    Progress: 0x{percent * 655:x} ({percent}%)\n"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A SATA drive."""
    with staged(tmp_path, monkeypatch, "sdq", "ATA") as made:
        yield made


def secured(stage: Stage, *first: Rule, name: str = "ata-security-only", erases: bool = True) -> None:
    """Let a drive keep a password, its state, as ACS-3 says: set, and cleared by an erase or by disabling."""
    stage.play(
        "hdparm",
        *first,
        Rule(when=("-I",), state="snia-pts", says=recorded("ata-security-only-password")),
        Rule(when=("-I",), state="foreign", says=recorded("ata-security-only-password")),
        Rule(when=("-I",), says=recorded(name)),
        Rule(when=("--security-set-pass", "snia-pts"), state="", then="snia-pts", needs="evidence/*-password.txt"),
        Rule(when=("--security-erase", "snia-pts"), state="snia-pts", then="", erases=stage.path if erases else ""),
        Rule(when=("--security-disable", "snia-pts"), state="snia-pts", then=""),
        Rule(when=("--security-disable",), state="foreign", complains="SECURITY_UNLOCK: Input/output error\n", exits=5),
    )


# -- what a drive says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "flags", "minutes"),
    [
        ("ata-ssd", {"supported", "supported: enhanced erase"}, {"": 2, "ENHANCED": 8}),
        ("ata-ssd-password", {"supported", "supported: enhanced erase", "enabled"}, {"": 2, "ENHANCED": 8}),
        ("ata-ssd-locked", {"supported", "supported: enhanced erase", "enabled", "locked"}, {"": 2, "ENHANCED": 8}),
        ("ata-ssd-frozen", {"supported", "supported: enhanced erase", "frozen"}, {"": 2, "ENHANCED": 8}),
        ("ata-security-only", {"supported"}, {"": 508}),
        ("ata-security-only-frozen", {"supported", "frozen"}, {"": 508}),
        ("ata-ide-hd", set(), {}),
    ],
)
def test_the_state_of_security_is_read(name: str, flags: set[str], minutes: dict[str, int]) -> None:
    """What hdparm 9.65 prints of each state, "not" and "more than" included."""
    assert Security.read(recorded(name)) == Security(flags=frozenset(flags), minutes=minutes)


def offered(name: str, identity: str, status: str = IDLE, *, without: str = "") -> PurgeCapability | MethodUnavailable:
    """Ask a drive for a method; ``without`` a word of what it is said to say."""
    says = recorded(identity).replace(without, "")
    try:
        return METHODS[name].query(Canned({"identify": says, "sanitize-status": status}))
    except MethodUnavailable as refused:
        return refused


@pytest.mark.parametrize(
    ("name", "identity", "status", "text", "remedy"),
    [
        ("ata-sanitize-block", "ata-security-only", IDLE, "not support this sanitize", ""),
        ("ata-sanitize-crypto", "ata-ide-hd", IDLE, "not support this sanitize", ""),
        ("ata-sanitize-block", "ata-ssd", FROZEN, "frozen", "Suspend the host"),
        ("ata-sanitize-block", "ata-ssd", going(3), "in progress", "Wait"),
        ("ata-security-erase", "ata-ide-hd", IDLE, "not support this Security Erase", ""),
        ("ata-security-erase", "ata-ssd-frozen", IDLE, "frozen until it loses power", "Suspend the host"),
        ("ata-security-erase-enhanced", "ata-security-only", IDLE, "not support this Security Erase", ""),
        ("ata-security-erase-enhanced", "ata-ssd-frozen", IDLE, "frozen until", "unplug the drive"),
    ],
)
def test_what_a_drive_lacks_is_not_on_offer(name: str, identity: str, status: str, text: str, remedy: str) -> None:
    """What it has not is told apart from what is frozen, which has a remedy."""
    found = offered(name, identity, status)

    assert isinstance(found, MethodUnavailable)
    assert text in str(found)
    assert remedy in found.remedy
    assert bool(found.remedy) == bool(remedy)


@pytest.mark.parametrize("without", ["BLOCK_ERASE_EXT command", "SANITIZE feature set"])
def test_a_sanitize_needs_the_set_and_the_command(without: str) -> None:
    """A drive may have the feature set without one of its commands."""
    assert isinstance(offered("ata-sanitize-block", "ata-ssd", without=without), MethodUnavailable)
    assert isinstance(offered("ata-sanitize-crypto", "ata-ssd", without="BLOCK_ERASE_EXT command"), PurgeCapability)


@pytest.mark.parametrize("name", ["ata-security-erase", "ata-security-erase-enhanced"])
def test_a_drive_that_takes_no_more_passwords_is_left_alone(name: str) -> None:
    """After five wrong attempts a drive answers to no password until it loses power: that is the remedy."""
    assert isinstance(offered(name, "ata-ssd-locked"), PurgeCapability)
    drive = Canned({"identify": recorded("ata-ssd-locked").replace("\tnot\texpired", "\t\texpired")})
    with pytest.raises(MethodUnavailable, match="too many password attempts") as refused:
        METHODS[name].query(drive)

    assert "Unplug its power" in refused.value.remedy


@pytest.mark.parametrize(
    ("name", "identity", "seconds"),
    [
        ("ata-security-erase", "ata-ssd", 120.0),
        ("ata-security-erase-enhanced", "ata-ssd", 480.0),
        ("ata-security-erase", "ata-security-only", 30480.0),
        ("ata-sanitize-block", "ata-ssd", None),
    ],
)
def test_the_drive_says_how_long_it_takes(name: str, identity: str, seconds: float | None) -> None:
    """The minutes of Identify Device set the limit of an erase, with two hours' grace: more than hdparm's own."""
    found = offered(name, identity)
    untold = offered("ata-security-erase", "ata-ssd", without="2min for SECURITY ERASE UNIT. ")

    assert isinstance(untold, PurgeCapability)
    assert untold.seconds is None
    assert isinstance(found, PurgeCapability)
    assert found.seconds == seconds
    assert found.timeout_seconds == (12 * 3600 if seconds is None else 2 * seconds + 7200)


# -- Sanitize Device -------------------------------------------------------------------------------------------------


def sanitizing(stage: Stage, end: str = DONE) -> None:
    """Let a drive with everything sanitize in two looks, and end with a status."""
    stage.play(
        "hdparm",
        Rule(when=("-I",), says=recorded("ata-ssd-frozen")),
        Rule(when=("--sanitize-status",), state="", says=IDLE),
        Rule(when=("--sanitize-status",), state="begun", then="half", says=going(1)),
        Rule(when=("--sanitize-status",), state="half", then="done", says=going(60)),
        Rule(when=("--sanitize-status",), state="done", says=end),
        Rule(when=("--yes-i-know-what-i-am-doing",), then="begun", erases=stage.path),
    )


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("auto", "--sanitize-block-erase"),
        ("ata-sanitize-block", "--sanitize-block-erase"),
        ("ata-sanitize-crypto", "--sanitize-crypto-scramble"),
    ],
)
def test_a_drive_is_sanitized_to_the_end(stage: Stage, name: str, option: str) -> None:
    """The first method for ATA needs no password and no thawed security; it is looked at until it is done."""
    sanitizing(stage)
    purge = stage.purge(name)

    assert purge.method.startswith("ATA Sanitize, ")
    assert (purge.samples, purge.survivors, purge.deviations) == (64, 0, ())
    assert stage.acted(*READING) == [["hdparm", "--yes-i-know-what-i-am-doing", option, stage.path]]


def test_a_sanitize_that_does_not_say_so_has_failed(stage: Stage) -> None:
    """Idle again without the word that it completed is a failure, though the data may be gone."""
    sanitizing(stage, end=IDLE)
    with pytest.raises(PurgeFailed, match="status is not Completed Without Error"):
        stage.purge()


def test_a_sanitize_without_end_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit, and the drive's own word how far it came."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.3)
    sanitizing(stage)
    stage.play(
        "hdparm",
        Rule(when=("-I",), says=recorded("ata-ssd")),
        Rule(when=("--yes-i-know-what-i-am-doing",), then="begun"),
        Rule(when=("--sanitize-status",), state="begun", says=going(60)),
        Rule(says=IDLE),
    )
    with pytest.raises(PurgeFailed, match="failed: it is at 60% after"):
        stage.purge()


# -- Security Erase ----------------------------------------------------------------------------------------------------


def test_a_drive_is_erased(stage: Stage) -> None:
    """The password is set, the drive erased, which clears the password; not before the note of it is kept."""
    secured(stage)
    purge = stage.purge()

    assert purge.label == "ATA Security Erase (proven on 64 blocks)"
    assert purge.deviations == ()
    assert stage.acted(*READING) == [
        [*ACCESS, "--security-set-pass", "snia-pts", stage.path],
        [*ACCESS, "--security-erase", "snia-pts", stage.path],
    ]
    assert stage.state == ""
    assert sorted(path.name.removeprefix("00000-purge") for path in stage.evidence.iterdir()) == [
        "-identify-erased.process.json",
        "-identify-set.process.json",
        "-identify.process.json",
        "-password.txt",
        "-set-password.process.json",
        ".process.json",
    ]
    note = (stage.evidence / "00000-purge-password.txt").read_text()
    assert "The ATA user password snia-pts of" in note
    assert f"hdparm --user-master u --security-disable snia-pts {stage.path}" in note
    assert note.index("about to be set") < note.index("is cleared")


def test_an_erase_that_lies_leaves_no_password(stage: Stage) -> None:
    """A drive that keeps the data is found out, and is not locked."""
    secured(stage, erases=False)
    with pytest.raises(PurgeFailed, match="ATA Security Erase reported success, but 64 of 64 blocks"):
        stage.purge()

    assert stage.state == ""


def test_an_erase_that_fails_leaves_no_password(stage: Stage) -> None:
    """Where the erase fails the password stays set: it is cleared, and the tool's word is told."""
    failing = Rule(when=("--security-erase",), complains="SECURITY_ERASE: Input/output error\n", exits=5)
    secured(stage, failing)
    with pytest.raises(PurgeFailed, match="failed: SECURITY_ERASE: Input/output error"):
        stage.purge()

    assert stage.acted(*READING)[-1] == [*ACCESS, "--security-disable", "snia-pts", stage.path]
    assert stage.state == ""


def test_a_drive_that_stays_locked_is_told_with_the_way_out(stage: Stage) -> None:
    """Where the password cannot be cleared, the operator reads the password and the command that clears it."""
    secured(
        stage,
        Rule(when=("--security-erase",), exits=5),
        Rule(when=("--security-disable",), complains="SECURITY_UNLOCK: Input/output error\n", exits=5),
    )
    with pytest.raises(PurgeFailed, match="left the drive with the password snia-pts: failed: SECURITY_UNLOCK") as lost:
        stage.purge()

    assert lost.value.hint == (
        f"Unlock it: hdparm --user-master u --security-disable snia-pts {stage.path} (docs/purge.rst)."
    )
    assert "is cleared" not in (stage.evidence / "00000-purge-password.txt").read_text()


def test_a_password_that_stays_though_it_was_cleared_is_told(stage: Stage) -> None:
    """A drive that says success when the password is cleared, and keeps it, is told as locked."""
    secured(stage, Rule(when=("--security-erase",), exits=5), Rule(when=("--security-disable",)))
    with pytest.raises(
        PurgeFailed, match="left the drive with the password snia-pts: failed: the password is still set"
    ):
        stage.purge()


def test_a_drive_that_takes_no_password_is_not_erased(stage: Stage) -> None:
    """A drive that says success when the password is set, and has none set then, is not trusted further (QEMU's)."""
    secured(stage, Rule(when=("--security-set-pass",)))
    with pytest.raises(PurgeFailed, match="accepted the password, but reports none set"):
        stage.purge()

    assert not any("--security-erase" in command for command in stage.commands)


class Stopped(Exception):
    """Something that is no failure of the purge."""


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, Stopped])
def test_ctrl_c_leaves_no_password(stage: Stage, stopped: type[BaseException]) -> None:
    """Ctrl-C while the drive erases ends the tool, and the password is cleared before the run ends."""
    secured(stage, Rule(when=("--security-erase",), seconds=60))

    def tick(seconds: float, written: int) -> None:
        raise stopped

    with pytest.raises(stopped):
        stage.purge(tick=tick)

    assert stage.state == ""
    assert "is cleared" in (stage.evidence / "00000-purge-password.txt").read_text()


_KILLED = """
import pathlib, sys
from tests.purge.playing import Stage
stage = Stage.__new__(Stage)
stage.drive, stage.evidence, stage.root = map(pathlib.Path, sys.argv[1:])
stage.purge()
"""


def test_a_crash_leaves_a_note_and_the_next_purge_clears_the_password(stage: Stage, tmp_path: Path) -> None:
    """SIGKILL of the suite between password and end of the erase: the note is there, and the next purge unlocks."""
    secured(stage, Rule(when=("--security-erase",), state="snia-pts", then="erasing", seconds=60))
    script = tmp_path / "killed.py"
    script.write_text(_KILLED)
    suite = subprocess.Popen(
        [sys.executable, str(script), stage.path, str(stage.evidence), str(stage.root)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    while stage.state != "erasing":
        assert suite.poll() is None
        time.sleep(0.02)
    suite.send_signal(signal.SIGKILL)
    suite.wait()
    note = (stage.evidence / "00000-purge-password.txt").read_text()
    assert "is about to be set" in note
    assert "is cleared" not in note

    secured(stage)
    stage.state = "snia-pts"
    assert stage.purge().survivors == 0
    assert stage.state == ""
    unlocking = [*ACCESS, "--security-disable", "snia-pts", stage.path]
    setting = [*ACCESS, "--security-set-pass", "snia-pts", stage.path]
    assert stage.commands.index(unlocking) < len(stage.commands) - 1 - stage.commands[::-1].index(setting)


def test_somebody_elses_password_stays(stage: Stage) -> None:
    """A drive with another password is not erased: one attempt with the suite's, and the word what to do."""
    secured(stage)
    stage.state = "foreign"
    with pytest.raises(PurgeFailed, match="failed: SECURITY_UNLOCK"):
        stage.purge()

    assert stage.state == "foreign"
    assert stage.acted(*READING) == [[*ACCESS, "--security-disable", "snia-pts", stage.path]]


def test_a_password_that_stays_although_it_was_taken_is_somebody_elses(stage: Stage) -> None:
    """A drive that says success to the wrong password, and keeps its own, is not erased."""
    secured(stage, Rule(when=("--security-disable",)))
    stage.state = "foreign"
    with pytest.raises(PurgeFailed, match="a password is set that is not the suite's") as failed:
        stage.purge()

    assert "--security-disable PASSWORD" in failed.value.hint
    assert not any("--security-set-pass" in command for command in stage.commands)


# -- choosing ----------------------------------------------------------------------------------------------------------


def test_what_is_on_offer_is_listed_in_order(stage: Stage) -> None:
    """A drive with everything, thawed: the one without a password first."""
    stage.play("hdparm", Rule(when=("-I",), says=recorded("ata-ssd")), Rule(when=("--sanitize-status",), says=DONE))

    assert available_methods(stage.tools().dut, stage.root) == (
        "ata-sanitize-block",
        "ata-security-erase",
        "ata-security-erase-enhanced",
        "ata-sanitize-crypto",
        "blkdiscard",
        "overwrite",
    )


def test_a_frozen_drive_is_not_purged_by_something_less(stage: Stage) -> None:
    """A drive that could be erased if it were thawed is refused, with the way to thaw it; nothing is changed on it."""
    before = stage.drive.read_bytes()
    stage.play("hdparm", Rule(when=("-I",), says=recorded("ata-security-only-frozen")))
    with pytest.raises(
        TargetUnfit, match=r"cannot be purged in its present state \(ata-security-erase: its security is frozen"
    ) as unfit:
        choose(stage.tools(), "auto")

    assert "Suspend the host and wake it" in unfit.value.hint
    assert "Available: blkdiscard, overwrite, none" in unfit.value.hint
    assert stage.acted(*READING) == []
    assert stage.drive.read_bytes() == before


def test_a_drive_of_qemu_has_no_security_erase(stage: Stage) -> None:
    """QEMU's ide-hd says success to an erase, but does not say that it has one: it is not on offer, even by name."""
    stage.play("hdparm", Rule(when=("-I",), says=recorded("ata-ide-hd")))

    assert available_methods(stage.tools().dut, stage.root) == ("blkdiscard", "overwrite")
    with pytest.raises(
        TargetUnfit, match="ata-security-erase is not available for it: the drive does not support this"
    ):
        choose(stage.tools(), "ata-security-erase")
