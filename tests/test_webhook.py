"""Webhooks: signed messages about the end of a run, repeated for a while, which cost the run nothing."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.cli.notifications import webhook
from snia_pts.cli.notifications.webhook import (
    WebhookConfig,
    load_webhook_config,
    public_command_line,
    send,
    webhook_on_exit,
)
from snia_pts.errors import Interrupted, UsageError
from snia_pts.lab.observation.telemetry import warning_celsius
from snia_pts.record.folder import RunFolder
from snia_pts.runner.events import Event, FolderCreated, OutcomeRecorded, ignore_event
from tests.samples import dut, iops_result
from tests.test_mail import SHORT

SECRET = "0123456789abcdef-never-written"  # noqa: S105  # of a server on the loopback


@dataclass(kw_only=True)
class Receiver:
    """A server on the loopback: its answers in order, the last one again and again; 0 never answers."""

    answers: tuple[int, ...] = (200,)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/token-in-the-path"

    @property
    def messages(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]


@contextmanager
def receiving(*answers: int) -> Iterator[Receiver]:
    """Serve a receiver."""
    receiver = Receiver(answers=answers or (200,))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append((self.path, dict(self.headers), body))
            code = receiver.answers[min(len(receiver.requests), len(receiver.answers)) - 1]
            if not code:
                receiver.released.wait(60)
                return
            self.send_response(code)
            if code == 302:
                self.send_header("Location", f"{receiver.url}/elsewhere")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.released.set()
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_PAUSES", (0.01, 0.02))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def test_a_finished_run_sends_one_signed_message(
    tmp_path: Path, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The body names run, test, drive and verdict; the signature is that of the documentation; nothing leaks."""
    folder = tmp_path / "run"
    with receiving() as receiver:
        options = ("--webhook", receiver.url, "--webhook-secret", str(secret))
        assert main(["iops", "sim:enterprise-nvme", "--run-dir", str(folder), "--to", "none", *SHORT, *options]) == 0

    ((path, headers, body),) = receiver.requests
    message = json.loads(body)
    assert path == "/hook/token-in-the-path"
    assert headers["Content-Type"] == "application/json"
    signed = headers["X-Snia-Pts-Timestamp"].encode() + b"." + body
    assert headers["X-Snia-Pts-Signature"] == f"sha256={hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()}"
    assert (message["format"], message["event"], message["error"]) == (1, "finished", "")
    assert message["run"] == str(folder)
    assert message["drive"]["serial"] == "SIM-ENTERPRISE-NVME"
    assert len(message["verdicts"]) == 1
    files = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"--webhook" in files
    assert b"token-in-the-path" not in files
    assert SECRET.encode() not in files
    assert "webhook" not in capsys.readouterr().err


def test_a_failure_to_send_does_not_change_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing listens: one line, without the path of the address."""
    with receiving() as receiver:
        url = receiver.url
    arguments = ["iops", "sim:enterprise-nvme", "--run-dir", str(tmp_path / "run"), "--to", "none", *SHORT]
    assert main([*arguments, "--webhook", url]) == 0
    error = capsys.readouterr().err
    assert "The webhook at 127.0.0.1 was not called: Connection refused." in error
    assert "token-in-the-path" not in error


@pytest.mark.parametrize(
    ("answers", "requests", "reason"),
    [
        ((200,), 1, ""),
        ((503, 500, 200), 3, ""),
        ((429, 204), 2, ""),
        ((503,), 3, "it answered 503"),
        ((400,), 1, "it answered 400"),
        ((302,), 1, "it answered 302"),
    ],
)
def test_only_answers_that_may_change_are_tried_again(answers: tuple[int, ...], requests: int, reason: str) -> None:
    """All attempts have the same body; a redirect is not followed."""
    with receiving(*answers) as receiver:
        assert send(WebhookConfig(url=receiver.url), b"{}") == reason
    assert [(path, body) for path, _, body in receiver.requests] == [("/hook/token-in-the-path", b"{}")] * requests
    assert all("X-Snia-Pts-Signature" not in headers for _, headers, _ in receiver.requests)


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt, and all of them, are bounded."""
    monkeypatch.setattr(webhook, "_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(webhook, "_TOTAL_SECONDS", 0.3)
    with receiving(0) as receiver:
        assert send(WebhookConfig(url=receiver.url), b"{}") in ("timed out", "TimeoutError", "no answer within 0 s")


def test_an_unverified_certificate_gets_no_message() -> None:
    """A server without TLS, too, is an error."""
    with receiving() as receiver:
        assert send(WebhookConfig(url=receiver.url.replace("http:", "https:")), b"{}")
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("error", "event"), [(Interrupted(cause="SIGTERM", step="Round 1", what="x"), "stopped"), (OSError("no"), "failed")]
)
def test_the_end_of_a_run_is_named(error: Exception, event: str, tmp_path: Path) -> None:
    """A run that is stopped or fails has its reason; a run without a folder sends nothing."""
    created = FolderCreated(folder=RunFolder(path=tmp_path), title="IOPS test", dut=dut())

    def fail(config: WebhookConfig, events: tuple[Event, ...], afterwards: list[Any]) -> None:
        with webhook_on_exit(config, ignore_event, afterwards) as on_event:
            for one in events:
                on_event(one)
            raise error

    with receiving() as receiver:
        for events in ((created,), ()):
            afterwards: list[Any] = []
            with pytest.raises(type(error)):
                fail(WebhookConfig(url=receiver.url), events, afterwards)
            for call in afterwards:
                call()
    (message,) = receiver.messages
    assert message["event"] == event
    assert str(error) in message["error"]


def test_a_hot_drive_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3 degrees below the drive's warning temperature on, while the run goes on."""
    monkeypatch.setattr(webhook, "warning_celsius", lambda _path: 75.0)
    point = next(iter(iops_result().measurements))
    seen: list[Event] = []
    afterwards: list[Any] = []
    with (
        receiving() as receiver,
        webhook_on_exit(WebhookConfig(url=receiver.url), seen.append, afterwards) as on_event,
    ):
        on_event(FolderCreated(folder=RunFolder(path=tmp_path), title="IOPS test", dut=replace(dut(), kind="drive")))
        for celsius in (60.0, 71.9, 72.0, 80.0):
            telemetry: Any = SimpleNamespace(celsius=celsius)
            outcome = replace(point, telemetry=telemetry)
            on_event(OutcomeRecorded(step=SimpleNamespace(), position=0, outcome=outcome))  # type: ignore[arg-type]
        on_event.__self__._thread.join()  # type: ignore[attr-defined]
    (message,) = receiver.messages
    assert (message["event"], message["celsius"], message["warning_celsius"]) == ("hot", 72.0, 75.0)
    assert len(seen) == 5
    assert len(afterwards) == 1


def test_the_kernel_reports_the_warning_temperature(tmp_path: Path) -> None:
    """hwmon has millidegrees in temp1_max; without a sensor there is none."""
    device = tmp_path / "sys/devices/pci/nvme/nvme0/nvme0n1"
    hwmon = device.parent / "hwmon0"
    hwmon.mkdir(parents=True)
    device.mkdir()
    (device / "device").symlink_to("..")
    for name, value in (("name", "nvme"), ("temp1_input", "40850"), ("temp1_max", "81850")):
        (hwmon / name).write_text(f"{value}\n")
    (tmp_path / "sys/class/block").mkdir(parents=True)
    (tmp_path / "sys/class/block/nvme0n1").symlink_to(device)
    assert warning_celsius("/dev/nvme0n1", tmp_path) == 81.85
    assert warning_celsius("/dev/sda", tmp_path) is None


@pytest.mark.parametrize(
    "url", ["", "ftp://x/", "https://", "https://user:word@x/", "http://x:99999/", "https://x/a b", "lab.example.org"]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    """The message does not repeat it: it may contain a secret."""
    with pytest.raises(UsageError, match=r"^--webhook: not a web address\.") as refused:
        load_webhook_config(argparse.Namespace(webhook=url, webhook_secret=None))
    assert not url or url not in str(refused.value).replace("https://lab.example.org/hook", "")


def test_a_secret_that_others_may_read_is_refused(secret: Path) -> None:
    """As are a short one, several lines, a missing file, and a secret without an address."""

    def load(path: Path, url: str | None = "https://x/") -> WebhookConfig | None:
        return load_webhook_config(argparse.Namespace(webhook=url, webhook_secret=path))

    config = load(secret)
    assert config is not None
    assert config.secret == SECRET.encode()
    assert SECRET not in repr(config)
    with pytest.raises(UsageError, match="no address"):
        load(secret, None)
    secret.chmod(0o640)
    with pytest.raises(UsageError, match="other users may read it"):
        load(secret)
    secret.chmod(0o600)
    for text in ("short\n", f"{SECRET}\n{SECRET}\n", ""):
        secret.write_text(text)
        with pytest.raises(UsageError, match="expected one line"):
            load(secret)
    with pytest.raises(UsageError, match="No such file"):
        load(secret.with_name("nothing"))


def test_the_journal_has_only_the_host_of_the_address() -> None:
    """Both spellings of the option."""
    words = ("snia-pts", "iops", "--webhook", "https://x/secret", "--webhook=http://y:1/secret?a=b", "https://z/kept")
    assert public_command_line(words) == (
        *words[:3], "https://x/...", "--webhook=http://y:1/...", "https://z/kept",
    )  # fmt: skip
