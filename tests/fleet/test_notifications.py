"""What happens to runs and drives of a lab is sent once to each channel; a failure loses nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest

from snia_pts.cli.main import main
from snia_pts.cli.notifications import webhook
from snia_pts.cli.notifications.config import MailConfig
from snia_pts.fleet.messages import _send_mail
from snia_pts.fleet.notifications import LabEvent, notify
from tests.fleet.labs import TestLab, until
from tests.fleet.test_rights import run_of, with_hosts
from tests.test_mail import Box, serving, text_of
from tests.test_webhook import Receiver, receiving


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_PAUSES", ())


@pytest.fixture(name="hosts")
def _hosts(lab: TestLab) -> TestLab:
    """A lab with the hosts h1 and h2, and a run on each: on the drives A and B."""
    return with_hosts(lab, "h1", "h2")


def controller(lab: TestLab) -> str:
    """Return the URL of the controller, which has fewer rights than the owner."""
    return lab.url.replace("lab@", "lab_controller@")


def report(
    lab: TestLab, serial: str, *states: str, code: int | None = None, verdict: str = "", message: str = ""
) -> UUID:
    """Report states of the run on a drive, as its agent does; return the run."""
    run_id = run_of(lab, serial)
    with lab.as_agent("h1" if serial == "A" else "h2") as connection:
        for state in states:
            values = (run_id, state, code, verdict, message)
            connection.execute("SELECT lab_report(%s, %s, %s, %s, %s, '/runs/x')", values)
    return run_id


def collect(lab: TestLab, folder: Path, *options: str) -> int:
    """Call the command as a timer does; return its exit code."""
    words = ["--runs", str(folder / "home"), "--store", str(folder / "store.sqlite")]
    return main(["lab", "collect", "--database", controller(lab), *words, *options])


def hook(lab: TestLab, folder: Path, receiver: Receiver) -> int:
    """Collect with a webhook."""
    return collect(lab, folder, "--webhook", receiver.url)


def test_each_end_of_a_run_calls_the_webhook_once(hosts: TestLab, tmp_path: Path) -> None:
    """A finished run has its verdict, a lost one the reason and the hold; a run that goes on ends again."""
    with receiving() as receiver:
        report(hosts, "A", "running")
        assert hook(hosts, tmp_path, receiver) == 0
        assert receiver.messages == []

        verdict = "STEADY STATE"
        finished = report(hosts, "A", "finished", code=0, verdict=verdict, message=verdict)
        lost = report(hosts, "B", "running", "lost", message="Its process disappeared.")
        for _ in range(2):
            assert hook(hosts, tmp_path, receiver) == 0
        first, second = receiver.messages
        assert (first["format"], first["event"], first["host"], first["run"]) == (1, "finished", "h1", "/runs/x")
        assert (first["run_id"], first["test"], first["exit_code"]) == (str(finished), "iops", 0)
        assert (first["verdicts"], first["error"]) == (["STEADY STATE"], "")
        assert first["drive"] == {"model": "M", "serial": "A", "held": ""}
        assert (second["event"], second["run_id"], second["exit_code"]) == ("lost", str(lost), None)
        assert second["error"] == "Its process disappeared."
        assert second["drive"] == {"model": "M", "serial": "B", "held": f"run {lost} is lost"}

        with hosts.open() as opened:
            opened.release("B")
        report(hosts, "B", "running", "finished")
        assert hook(hosts, tmp_path, receiver) == 0
        assert [message["event"] for message in receiver.messages] == ["finished", "lost", "finished"]
        assert receiver.messages[2]["drive"]["held"] == ""


def test_a_mail_says_that_the_drive_is_held(hosts: TestLab, tmp_path: Path) -> None:
    """The subject has test, drive and state; the text has the run, its host, its folder and the reasons."""
    run_id = report(hosts, "B", "running", "lost", message="Its process disappeared.")
    with serving(Box()) as box:
        options = ("--mail-to", "lab@example.org", "--mail-server", f"127.0.0.1:{box.port}")
        for _ in range(2):
            assert collect(hosts, tmp_path, *options) == 0
    (mail,) = box.mails
    assert mail["Subject"] == "snia-pts: iops of M, serial B: LOST, DRIVE HELD"
    lines = text_of(mail).splitlines()
    assert lines[0] == "iops of M, serial B, on h2: LOST, DRIVE HELD"
    assert lines[2] == "Its process disappeared."
    assert lines[4:] == [
        f"Run: {run_id}",
        "Folder on its host: /runs/x",
        f"Nothing new starts on the drive: run {run_id} is lost",
    ]


def test_a_hold_and_a_hot_drive_are_messages(hosts: TestLab, tmp_path: Path) -> None:
    """The message of a hold names the drive and the reason, that of a hot drive also its run."""
    run_id = report(hosts, "A", "running")
    with hosts.as_agent("h1") as connection:
        connection.execute("SELECT lab_report_live(%s, '{}', '[]', 'It has 80 °C; it warns at 80 °C.')", (run_id,))
    with hosts.open() as opened:
        opened.hold("B", "the cable is replaced")
    with receiving() as receiver, serving(Box()) as box:
        mail = ("--mail-to", "lab@example.org", "--mail-server", f"127.0.0.1:{box.port}")
        for _ in range(2):
            assert collect(hosts, tmp_path, *mail, "--webhook", receiver.url) == 0
    hot, hold = receiver.messages
    assert (hot["event"], hot["run_id"], hot["error"]) == ("hot", str(run_id), "")
    assert (hot["drive"]["serial"], hot["detail"]) == ("A", "It has 80 °C; it warns at 80 °C.")
    assert (hold["event"], hold["run_id"], hold["host"]) == ("hold", "", "h2")
    assert hold["drive"] == {"model": "M", "serial": "B", "held": "the cable is replaced"}
    assert hold["detail"] == "the cable is replaced"
    assert [mail["Subject"] for mail in box.mails] == [
        "snia-pts: iops of M, serial A: DRIVE HOT",
        "snia-pts: drive M, serial B: DRIVE HELD",
    ]
    assert "the cable is replaced" in text_of(box.mails[1])


def test_the_subject_of_a_mail_has_the_outcome(hosts: TestLab) -> None:
    """The verdict alone says that the run finished and met its limits."""
    outcomes = {
        ("finished", 0): "STEADY STATE",
        ("finished", 19): "STEADY STATE, LIMITS NOT MET",
        ("failed", 15): "STEADY STATE, FAILED",
        ("failed", 12): "STEADY STATE, FAILED, DRIVE HELD",
    }
    with serving(Box()) as box:
        config = MailConfig(server="127.0.0.1", port=box.port, sender="a@example.org", recipients=("b@example.org",))
        for state, code in outcomes:
            report(hosts, "A", "running", state, code=code, verdict="STEADY STATE")
            assert list(notify(controller(hosts), {"mail": partial(_send_mail, config)})) == []
    subjects = [mail["Subject"] for mail in box.mails]
    assert subjects == [f"snia-pts: iops of M, serial A: {outcome}" for outcome in outcomes.values()]


def test_a_message_that_fails_is_sent_by_the_next_call(
    hosts: TestLab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure is one line, and neither the exit code nor the other channel changes."""
    runs = [report(hosts, serial, "running", "failed", message="no") for serial in "AB"]
    with receiving(400, 200) as receiver, serving(Box()) as box:
        mail = ("--mail-to", "lab@example.org", "--mail-server", f"127.0.0.1:{box.port}")
        for requests in (1, 3, 3):
            assert collect(hosts, tmp_path, *mail, "--webhook", receiver.url) == 0
            assert len(receiver.requests) == requests
    assert [message["run_id"] for message in receiver.messages] == [str(run) for run in (runs[0], *runs)]
    assert len(box.mails) == 2
    said = "snia-pts: A message was not sent (webhook): it answered 400. The next call sends it again.\n"
    assert capsys.readouterr().err.count(said) == 1


def test_an_old_end_is_not_sent(hosts: TestLab) -> None:
    """The first call sends the ends of a day, not the history of the lab."""
    old, recent = (report(hosts, serial, "running", "stopped") for serial in "AB")
    hosts.query("UPDATE lab_event SET at = at - interval '25 hours' WHERE run_id = %s", old)
    sent = list[LabEvent]()

    def send(event: LabEvent) -> str:
        sent.append(event)
        return ""

    assert list(notify(controller(hosts), {"webhook": send})) == []
    assert [(event.run and event.run.run_id, event.kind) for event in sent] == [(recent, "stopped")]


@pytest.mark.parametrize(("reason", "senders"), [("", ["first"]), ("no answer", ["first", "second"])])
def test_two_processes_send_a_message_once(hosts: TestLab, reason: str, senders: list[str]) -> None:
    """The second one waits for the first one, and sends the message only if the first one has failed."""
    report(hosts, "A", "running", "finished")
    waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    used = list[str]()

    def send_second(_event: LabEvent) -> str:
        used.append("second")
        return ""

    second = Thread(target=lambda: list(notify(controller(hosts), {"webhook": send_second})))

    def send_first(_event: LabEvent) -> str:
        used.append("first")
        second.start()
        until(lambda: hosts.query(waiting), "the second process waits")
        return reason

    assert list(notify(controller(hosts), {"webhook": send_first})) == ([("webhook", reason)] if reason else [])
    second.join()
    assert used == senders
