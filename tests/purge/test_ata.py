"""ATA Sanitize Device and Security Erase: no failure leaves the drive locked without a message."""

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

QUERIES = ("-I", "--sanitize-status")
ACCESS = ["hdparm", "--user-master", "u"]
IDLE = "\n/dev/sda:\nIssuing SANITIZE_STATUS command\nSanitize status:\n    State:    SD0 Sanitize Idle\n"
DONE = f"{IDLE}    Last Sanitize Operation Completed Without Error\n"
FROZEN = IDLE.replace("SD0 Sanitize Idle", "SD1 Sanitize Frozen")


def in_progress(percent: int) -> str:
    """Return hdparm's output for a sanitize in progress."""
    state = IDLE.replace("SD0 Sanitize Idle", "SD2 Sanitize operation In Process")
    return f"{state}    Progress: 0x{percent * 655:x} ({percent}%)\n"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A SATA drive."""
    with staged(tmp_path, monkeypatch, "sdq", "ATA") as stage:
        yield stage


def secured(stage: Stage, *first: Rule, name: str = "ata-security-only", erases: bool = True) -> None:
    """Let the drive handle its password as ACS-3 says: an erase or a disable clears it. The state is the password."""
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


# -- capabilities ----------------------------------------------------------------------------------------------------


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
def test_security_state_is_parsed(name: str, flags: set[str], minutes: dict[str, int]) -> None:
    """The flags and times are parsed from hdparm 9.65's output for each state, including "not" and "more than"."""
    assert Security.read(recorded(name)) == Security(flags=frozenset(flags), minutes=minutes)


def capability(
    name: str, identity: str, status: str = IDLE, *, without: str = ""
) -> PurgeCapability | MethodUnavailable:
    """Return whether a drive supports a method; ``without`` is removed from the drive's identity."""
    identify = recorded(identity).replace(without, "")
    try:
        return METHODS[name].query(Canned({"identify": identify, "sanitize-status": status}))
    except MethodUnavailable as reason:
        return reason


@pytest.mark.parametrize(
    ("name", "identity", "status", "text", "remedy"),
    [
        ("ata-sanitize-block", "ata-security-only", IDLE, "not support this sanitize", ""),
        ("ata-sanitize-crypto", "ata-ide-hd", IDLE, "not support this sanitize", ""),
        ("ata-sanitize-block", "ata-ssd", FROZEN, "frozen", "Suspend the host"),
        ("ata-sanitize-block", "ata-ssd", in_progress(3), "in progress", "Wait"),
        ("ata-security-erase", "ata-ide-hd", IDLE, "not support this Security Erase", ""),
        ("ata-security-erase", "ata-ssd-frozen", IDLE, "frozen until it loses power", "Suspend the host"),
        ("ata-security-erase-enhanced", "ata-security-only", IDLE, "not support this Security Erase", ""),
        ("ata-security-erase-enhanced", "ata-ssd-frozen", IDLE, "frozen until", "unplug the drive"),
    ],
)
def test_unsupported_and_frozen_methods_are_unavailable(
    name: str, identity: str, status: str, text: str, remedy: str
) -> None:
    """An unsupported method has no remedy; a method that is frozen or busy has one."""
    unavailable = capability(name, identity, status)

    assert isinstance(unavailable, MethodUnavailable)
    assert text in str(unavailable)
    assert remedy in unavailable.remedy
    assert bool(unavailable.remedy) == bool(remedy)


@pytest.mark.parametrize("without", ["BLOCK_ERASE_EXT command", "SANITIZE feature set"])
def test_sanitize_needs_the_feature_set_and_the_command(without: str) -> None:
    """A sanitize is unavailable without the feature set or its own command; another command's absence is irrelevant."""
    assert isinstance(capability("ata-sanitize-block", "ata-ssd", without=without), MethodUnavailable)
    assert isinstance(capability("ata-sanitize-crypto", "ata-ssd", without="BLOCK_ERASE_EXT command"), PurgeCapability)


@pytest.mark.parametrize("name", ["ata-security-erase", "ata-security-erase-enhanced"])
def test_expired_password_attempts_make_security_erase_unavailable(name: str) -> None:
    """After five wrong attempts a drive accepts no password until a power cycle; the remedy names the power cycle."""
    assert isinstance(capability(name, "ata-ssd-locked"), PurgeCapability)
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
def test_time_limit_follows_the_estimate_of_the_drive(name: str, identity: str, seconds: float | None) -> None:
    """The limit is twice the time in Identify Device plus two hours, or 12 hours if the drive reports no time."""
    reported = capability(name, identity)
    unreported = capability("ata-security-erase", "ata-ssd", without="2min for SECURITY ERASE UNIT. ")

    assert isinstance(unreported, PurgeCapability)
    assert unreported.seconds is None
    assert isinstance(reported, PurgeCapability)
    assert reported.seconds == seconds
    assert reported.timeout_seconds == (12 * 3600 if seconds is None else 2 * seconds + 7200)


# -- Sanitize Device -------------------------------------------------------------------------------------------------


def sanitizing(stage: Stage, end: str = DONE) -> None:
    """Let a drive that supports all methods complete a sanitize after two status queries, with the status ``end``."""
    stage.play(
        "hdparm",
        Rule(when=("-I",), says=recorded("ata-ssd-frozen")),
        Rule(when=("--sanitize-status",), state="", says=IDLE),
        Rule(when=("--sanitize-status",), state="begun", then="half", says=in_progress(1)),
        Rule(when=("--sanitize-status",), state="half", then="done", says=in_progress(60)),
        Rule(when=("--sanitize-status",), state="done", says=end),
        Rule(when=("--yes-i-know-what-i-am-doing",), then="begun", erases=stage.path),
    )


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("auto", "--sanitize-block-erase"),
        ("ata-sanitize-block", "--sanitize-block-erase"),
        ("ata-sanitize-crypto", "--sanitize-crypto-scramble"),
    ],
)
def test_a_drive_is_sanitized_to_the_end(stage: Stage, name: str, option: str) -> None:
    """Sanitize is the first choice for ATA even if security is frozen; it is polled until the drive reports the end."""
    sanitizing(stage)
    purge = stage.purge(name)

    assert purge.method.startswith("ATA Sanitize, ")
    assert (purge.samples, purge.survivors, purge.deviations) == (64, 0, ())
    assert stage.commands_without(*QUERIES) == [["hdparm", "--yes-i-know-what-i-am-doing", option, stage.path]]


def test_sanitize_without_a_success_status_fails(stage: Stage) -> None:
    """A purge fails if the drive is idle again but does not report success, even if the data is gone."""
    sanitizing(stage, end=IDLE)
    with pytest.raises(PurgeFailed, match="status is not Completed Without Error"):
        stage.purge()


@pytest.mark.long
def test_a_sanitize_that_does_not_end_times_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sanitize that exceeds its time limit fails; the message has the last progress that the drive reported."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.3)
    sanitizing(stage)
    stage.play(
        "hdparm",
        Rule(when=("-I",), says=recorded("ata-ssd")),
        Rule(when=("--yes-i-know-what-i-am-doing",), then="begun"),
        Rule(when=("--sanitize-status",), state="begun", says=in_progress(60)),
        Rule(says=IDLE),
    )
    with pytest.raises(PurgeFailed, match="failed: it is at 60% after"):
        stage.purge()


# -- Security Erase ----------------------------------------------------------------------------------------------------


def test_security_erase_sets_the_password_and_erases(stage: Stage) -> None:
    """The purge writes the password note, sets the password, and erases the drive, which clears the password."""
    secured(stage)
    purge = stage.purge()

    assert purge.label == "ATA Security Erase (proven on 64 blocks)"
    assert purge.deviations == ()
    assert stage.commands_without(*QUERIES) == [
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


def test_an_erase_that_keeps_the_data_fails_without_a_password(stage: Stage) -> None:
    """A purge fails if the drive reports success but keeps the data; no password stays set."""
    secured(stage, erases=False)
    with pytest.raises(PurgeFailed, match="ATA Security Erase reported success, but 64 of 64 blocks"):
        stage.purge()

    assert stage.state == ""


def test_a_failed_erase_leaves_no_password(stage: Stage) -> None:
    """If the erase fails, the suite clears the password, and the message has the tool's error."""
    failing = Rule(when=("--security-erase",), complains="SECURITY_ERASE: Input/output error\n", exits=5)
    secured(stage, failing)
    with pytest.raises(PurgeFailed, match="failed: SECURITY_ERASE: Input/output error"):
        stage.purge()

    assert stage.commands_without(*QUERIES)[-1] == [*ACCESS, "--security-disable", "snia-pts", stage.path]
    assert stage.state == ""


def test_a_drive_that_stays_locked_is_reported_with_the_command_to_unlock_it(stage: Stage) -> None:
    """If the password cannot be cleared, the error has the password and the command that clears it."""
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


def test_a_password_that_is_still_set_after_disabling_is_reported(stage: Stage) -> None:
    """If the drive reports success for disabling the password but keeps it, the error says that it is still set."""
    secured(stage, Rule(when=("--security-erase",), exits=5), Rule(when=("--security-disable",)))
    with pytest.raises(
        PurgeFailed, match="left the drive with the password snia-pts: failed: the password is still set"
    ):
        stage.purge()


def test_a_drive_that_does_not_store_the_password_is_not_erased(stage: Stage) -> None:
    """If the drive accepts a password but then reports none set, as QEMU's does, no erase command is sent."""
    secured(stage, Rule(when=("--security-set-pass",)))
    with pytest.raises(PurgeFailed, match="accepted the password, but reports none set"):
        stage.purge()

    assert not any("--security-erase" in command for command in stage.commands)


class Stopped(Exception):
    """An exception that is not a PurgeFailed."""


@pytest.mark.long_but_first
@pytest.mark.parametrize("stopped", [KeyboardInterrupt, Stopped])
def test_an_interrupted_erase_leaves_no_password(stage: Stage, stopped: type[BaseException]) -> None:
    """If Ctrl-C or another exception interrupts the erase, the suite clears the password before it ends."""
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


@pytest.mark.long
def test_a_crash_leaves_a_note_and_the_next_purge_clears_the_password(stage: Stage, tmp_path: Path) -> None:
    """After SIGKILL during the erase the note says that a password may be set, and the next purge clears it."""
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


def test_another_password_is_left_alone(stage: Stage) -> None:
    """If another password is set, the suite tries its own once, fails, and sends no other command."""
    secured(stage)
    stage.state = "foreign"
    with pytest.raises(PurgeFailed, match="failed: SECURITY_UNLOCK"):
        stage.purge()

    assert stage.state == "foreign"
    assert stage.commands_without(*QUERIES) == [[*ACCESS, "--security-disable", "snia-pts", stage.path]]


def test_a_password_that_disabling_does_not_clear_is_not_overwritten(stage: Stage) -> None:
    """If the drive reports success for the wrong password but keeps its own, the suite sets no password and fails."""
    secured(stage, Rule(when=("--security-disable",)))
    stage.state = "foreign"
    with pytest.raises(PurgeFailed, match="a password is set that is not the suite's") as failed:
        stage.purge()

    assert "--security-disable PASSWORD" in failed.value.hint
    assert not any("--security-set-pass" in command for command in stage.commands)


# -- choice ------------------------------------------------------------------------------------------------------------


def test_available_methods_are_in_order_of_preference(stage: Stage) -> None:
    """For a drive that supports all methods and is not frozen, Sanitize, which needs no password, comes first."""
    stage.play("hdparm", Rule(when=("-I",), says=recorded("ata-ssd")), Rule(when=("--sanitize-status",), says=DONE))

    assert available_methods(stage.tools().dut, stage.root) == (
        "ata-sanitize-block",
        "ata-security-erase",
        "ata-security-erase-enhanced",
        "ata-sanitize-crypto",
        "blkdiscard",
        "overwrite",
    )


def test_a_frozen_drive_is_refused(stage: Stage) -> None:
    """The automatic choice refuses a frozen drive, says how to unfreeze it, and leaves the drive unchanged."""
    before = stage.drive.read_bytes()
    stage.play("hdparm", Rule(when=("-I",), says=recorded("ata-security-only-frozen")))
    with pytest.raises(
        TargetUnfit, match=r"cannot be purged in its present state \(ata-security-erase: its security is frozen"
    ) as unfit:
        choose(stage.tools(), "auto")

    assert "Suspend the host and wake it" in unfit.value.hint
    assert "Available: blkdiscard, overwrite, none" in unfit.value.hint
    assert stage.commands_without(*QUERIES) == []
    assert stage.drive.read_bytes() == before


def test_security_erase_is_unavailable_on_a_qemu_drive(stage: Stage) -> None:
    """QEMU's ide-hd does not list Security Erase, so it is unavailable even if requested by name."""
    stage.play("hdparm", Rule(when=("-I",), says=recorded("ata-ide-hd")))

    assert available_methods(stage.tools().dut, stage.root) == ("blkdiscard", "overwrite")
    with pytest.raises(
        TargetUnfit, match="ata-security-erase is not available for it: the drive does not support this"
    ):
        choose(stage.tools(), "ata-security-erase")
