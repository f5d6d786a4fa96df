"""Mail at the end of a run: its content, its confidentiality and integrity, and that it never affects a run."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from snia_pts.cli.commands import run as running
from snia_pts.cli.main import main
from snia_pts.cli.notifications import delivery as sending
from snia_pts.cli.notifications.config import MailConfig, load_mail_config
from snia_pts.cli.notifications.content import Notification
from snia_pts.cli.notifications.delivery import message
from snia_pts.cli.notifications.notification import notify_on_exit
from snia_pts.errors import DeviceFailed, HostFailed, Interrupted, LimitsMissed, NotConfirmed, SniaPtsError, SpecError
from snia_pts.record.folder import RunFolder
from snia_pts.runner import run as runner_run
from snia_pts.units import MB
from tests.drives import need_program, need_root

PASSWORD = "never-to-be-written-down"  # noqa: S105  # of a server on the loopback
FILE = """
format = 1
server = "mail.example.org"
sender = "lab@example.org"
recipients = ["a@example.org", "b@example.org"]
"""
SHORT = (
    "--seed",
    "1",
    "--progress",
    "none",
    "--max-rounds",
    "5",
    "--point-seconds",
    "1",
    "--set",
    "rounds.read_percents=[0]",
    "--set",
    "rounds.block_sizes_kib=[4.0]",
    "--set",
    "steady_state.tracked=[{metric = 'iops', block_size_kib = 4, read_percent = 0}]",
)


@dataclass(kw_only=True)
class Box:
    """A server on the loopback that records mails and logins.

    Without slots: aiosmtpd reads all attributes of its handler, and before Python 3.11.3 those of a dataclass with
    slots include a ``__weakref__`` that cannot be read.
    """

    port: int = 0
    refused: Sequence[str] = ()
    mails: list[EmailMessage] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:
        """Refuse unknown recipients."""
        if address in self.refused:
            return "550-nobody here\r\n550 of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        """Keep a mail."""
        read = message_from_bytes(envelope.content, policy=policy.default)
        read["X-Given-To"] = ",".join(envelope.rcpt_tos)
        self.mails.append(read)
        return "250 OK"

    def login(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, login: LoginPassword) -> AuthResult:
        """Record the login, and accept the correct password."""
        self.logins.append((login.login, login.password))
        return AuthResult(success=login.password == PASSWORD.encode(), handled=False)


def text_of(mail: EmailMessage) -> str:
    """Return the text of a mail."""
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


@contextmanager
def serving(box: Box, tls: ssl.SSLContext | None = None, *, implicit: bool = False) -> Iterator[Box]:
    """Serve a box on a port of the loopback."""
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def protocol() -> SMTP:
        starttls = None if implicit else tls
        return SMTP(
            box,
            hostname="localhost",
            tls_context=starttls,
            require_starttls=bool(starttls),
            auth_required=bool(starttls),
            auth_require_tls=not implicit,
            authenticator=box.login,
            loop=loops[0],
        )

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        server = await loops[0].create_server(protocol, "127.0.0.1", 0, ssl=tls if implicit else None)
        box.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        if talking := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(talking, timeout=5)
        for _ in range(10):  # run the callbacks of a closed connection
            await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield box
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)


@pytest.fixture
def box() -> Iterator[Box]:
    """A server without TLS."""
    with serving(Box()) as served:
        yield served


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of 127.0.0.1, and its key."""
    need_program("openssl", "openssl")
    place = tmp_path_factory.mktemp("tls")
    process = subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ],
        cwd=place,
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return place


def server_side(certificate: Path) -> ssl.SSLContext:
    """Return the server's half of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context


def mail_options(**options: Any) -> argparse.Namespace:
    """Return arguments as the parser returns them."""
    return argparse.Namespace(**{"mail": None, "mail_to": None, "mail_server": None, **options})


def written(folder: Path, text: str) -> Path:
    """Write a file for --mail, and the password beside it."""
    (folder / "password").touch(mode=0o600)
    (folder / "password").write_text(f"{PASSWORD}\n")
    path = folder / "mail.toml"
    path.write_text(text)
    return path


def with_user(box: Box, certificate: Path, tls: str, authority: str = "cert.pem") -> str:
    """Return a file that logs in at a box."""
    return (
        f'format = 1\nserver = "127.0.0.1"\nport = {box.port}\ntls = "{tls}"\nca_file = "{certificate / authority}"\n'
        'user = "lab"\npassword_file = "password"\nsender = "lab@example.org"\nrecipients = ["a@example.org"]\n'
    )


def run(folder: Path, *options: str, formats: str = "none") -> int:
    """Run a short test on a simulated drive."""
    return main(["iops", "sim:client-qlc", *SHORT, "--to", formats, "--run-dir", str(folder), *options])


def to(box: Box) -> tuple[str, ...]:
    """Return the options that mail to a box."""
    return ("--mail-to", "a@example.org", "--mail-server", f"127.0.0.1:{box.port}")


# -- where it goes ----------------------------------------------------------------------------------------------------


def test_mail_is_optional() -> None:
    """Without options no mail is sent."""
    assert load_mail_config(mail_options()) is None


def test_a_server_and_a_recipient_are_enough() -> None:
    """A local server is used at port 25 by default, and its name may be an address."""
    for argument, server, port in (
        ("relay", "relay", 25),
        ("relay.lab:2525", "relay.lab", 2525),
        ("[::1]", "::1", 25),
        ("[::1]:26", "::1", 26),
    ):
        where = load_mail_config(mail_options(mail_to=["a@example.org", "b@lab"], mail_server=argument))
        assert where is not None
        assert (where.server, where.port, where.tls) == (server, port, "none")
        assert where.recipients == ("a@example.org", "b@lab")
        assert where.sender.startswith("snia-pts@")


@pytest.mark.parametrize(("tls", "port"), [("none", 25), ("starttls", 587), ("implicit", 465)])
def test_a_file_is_read(tls: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default ports depend on the kind of TLS; --mail-to replaces the file's recipients."""
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    path = written(tmp_path, f'{FILE}tls = "{tls}"\n')
    where, other = (
        load_mail_config(mail_options(mail=path)),
        load_mail_config(mail_options(mail=path, mail_to=["c@example.org"])),
    )
    assert where is not None
    assert other is not None
    assert (where.port, where.recipients, where.sender) == (port, ("a@example.org", "b@example.org"), "lab@example.org")
    assert other.recipients == ("c@example.org",)
    assert not (tmp_path / "keys").exists()

    monkeypatch.setenv("LAB_PASSWORD", PASSWORD)
    for line in ('password_variable = "LAB_PASSWORD"', 'password_file = "password"'):
        logging_in = load_mail_config(mail_options(mail=written(tmp_path, f'{FILE}user = "lab"\n{line}\n')))
        assert logging_in is not None
        assert (logging_in.tls, logging_in.password) == ("starttls", PASSWORD)
        assert PASSWORD not in repr(logging_in)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--mail-to", "a@example.org"), "no mail server"),
        (("--mail-server", "relay"), "no recipient"),
        (("--mail-to", "lab", "--mail-server", "relay"), "'lab': not an e-mail address"),
        (("--mail-to", "a@b\nBcc: c@d", "--mail-server", "relay"), "not an e-mail address"),
        (("--mail-to", "a@b", "--mail-server", "user:secret@relay"), "not a server name"),
        (("--mail-to", "a@b", "--mail-server", "relay:0"), "not a server name"),
        (("--mail-to", "a@b", "--mail-server", "relay:65536"), "not a server name"),
        (("--mail", "mail.toml", "--mail-server", "relay"), "not allowed with --mail"),
    ],
)
def test_options_without_a_recipient_are_refused(
    options: Sequence[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal comes before the run starts: no folder and no target is created."""
    target = tmp_path / "x.img"
    argv = ["iops", str(target), "--size", "1G", "--run-dir", str(tmp_path / "run"), *options]
    assert main(argv) == 2
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_the_owner_is_that_of_the_file_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration of another user, replaced by one of root's after it was read, does not get root's password."""
    need_root()
    path = written(tmp_path, f'{FILE}user = "lab"\npassword_file = "password"\n')
    (own := tmp_path / "own.toml").write_bytes(path.read_bytes())
    os.chown(path, 65534, 65534)

    def replaced(*_: object) -> Iterator[str]:
        own.replace(path)
        yield from ()

    monkeypatch.setattr("snia_pts.cli.notifications.config._mistakes", replaced)
    with pytest.raises(SpecError, match="does not belong to user"):
        load_mail_config(mail_options(mail=path))


@pytest.mark.root
def test_another_user_s_file_reads_no_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its author could have root send any secret of root's environment to the author's server."""
    need_root()
    monkeypatch.setenv("BACKUP_TOKEN", PASSWORD)
    path = written(tmp_path, f'{FILE}user = "lab"\npassword_variable = "BACKUP_TOKEN"\n')
    os.chown(path, 65534, 65534)

    with pytest.raises(SpecError, match="belongs to another user"):
        load_mail_config(mail_options(mail=path))


@pytest.mark.root
def test_another_user_s_file_names_no_certificates_of_root(certificate: Path, tmp_path: Path) -> None:
    """The certificates of a file of another user must belong to that user."""
    need_root()
    path = written(tmp_path, f'{FILE}ca_file = "{certificate / "cert.pem"}"\n')
    assert load_mail_config(mail_options(mail=path))
    os.chown(path, 65534, 65534)

    with pytest.raises(SpecError, match="does not belong to the owner"):
        load_mail_config(mail_options(mail=path))


def test_a_named_pipe_in_place_of_certificates_is_refused(tmp_path: Path) -> None:
    """The command does not wait for its writer."""
    os.mkfifo(tmp_path / "ca.fifo")

    with pytest.raises(SpecError, match="not readable as certificates: it is not a regular"):
        load_mail_config(mail_options(mail=written(tmp_path, f'{FILE}ca_file = "ca.fifo"\n')))


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ('tls = "ssl"', "tls: 'ssl': expected"),
        ("port = 0", "port: 0: expected"),
        ('password = "secret"', "password: unknown key"),
        ('user = "lab"', "user: expected one of password_variable and password_file"),
        ('password_file = "password"', "neither without"),
        ('user = "lab"\npassword_variable = "NOT_SET_ANYWHERE"', "password_variable: 'NOT_SET_ANYWHERE'"),
        ('user = "lab"\npassword_file = "none"', "none: No such file"),
        ('user = "lab"\npassword_file = "open"', "chmod 600"),
        ('user = "lab"\npassword_file = "other"', "does not belong to user"),
        ('user = "lab"\npassword_file = "two"', "expected one line"),
        ('user = "lab"\npassword_file = "."', "it is not a regular file"),
        ('user = "lab"\npassword_file = "password"\ntls = "none"', "never sent without encryption"),
        ('ca_file = "none.pem"', "ca_file: 'none.pem': not readable"),
        ('ca_file = "two"', "ca_file: 'two': not readable"),
        ('sender = "lab\\nBcc: x@y"', "sender: 'lab\\nBcc: x@y': expected an address"),
        ('recipients = ["a@b", "c"]', "recipients: 'c': expected an address"),
        ("recipients = []", "recipients: expected an address, here or with --mail-to"),
        ('server = "mail:25"', "server: 'mail:25': expected"),
        ('server = "a mail"\nsender = "lab"', "2 mistakes"),
    ],
)
def test_every_mistake_of_the_file_is_reported_before_the_run(
    text: str, expected_text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its key and a remedy, but no secret; no target is created."""
    (tmp_path / "open").write_text("secret\n")
    (tmp_path / "open").chmod(0o640)
    (tmp_path / "other").write_text("secret\n")
    (tmp_path / "other").chmod(0o600)
    if "other" in text:
        need_root()
        os.chown(tmp_path / "other", 65534, 65534)
    (tmp_path / "two").touch(mode=0o600)
    (tmp_path / "two").write_text("secret\nsecret\n")
    keys = {line.split(" = ")[0] for line in text.splitlines()}
    rest = "\n".join(line for line in FILE.splitlines() if line.split(" = ")[0] not in keys)
    path, target = written(tmp_path, f"{rest}\n{text}\n"), tmp_path / "x.img"

    assert main(["iops", str(target), "--size", "1G", "--mail", str(path)]) == SpecError.exit_code
    err = capsys.readouterr().err
    assert expected_text in err
    assert f"The file of --mail {path} has " in err
    assert "docs/mail.rst" in err
    assert "secret" not in err
    assert not target.exists()


# -- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_finished_run_is_mailed_with_its_report(box: Box, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The subject has test, drive and verdict, the text is the terminal's, and the PDF is attached."""
    folder = tmp_path / "run"
    assert run(folder, *to(box), "--mail-to", "b@example.org", formats="pdf") == 0
    output = capsys.readouterr().out

    (mail,) = box.mails
    name = "Simulated client QLC SSD, serial SIM-CLIENT-QLC, 1.000 TB"
    assert mail["Subject"].startswith(f"snia-pts: IOPS test of {name}: ")
    assert "STEADY STATE" in mail["Subject"]
    assert mail["To"] == "a@example.org, b@example.org"
    assert mail["X-Given-To"] == "a@example.org,b@example.org"
    assert mail["Auto-Submitted"] == "auto-generated"
    for line in filter(None, output.splitlines()):
        assert " ".join(line.split()) in " ".join(text_of(box.mails[0]).split()), line
    assert "report.pdf is attached." in text_of(box.mails[0])
    (attached,) = mail.iter_attachments()
    assert (attached.get_filename(), attached.get_content_type()) == ("report.pdf", "application/pdf")
    assert attached.get_content() == (folder / "report.pdf").read_bytes()


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (Interrupted(cause="Terminated (SIGTERM)", step="Round 2", what="point 3"), "INTERRUPTED", 130),
        (DeviceFailed(step="WIPC", what="128 KiB", reason="Input/output error"), "FAILED", 12),
        (HostFailed(step="WIPC", what="fio", reason="no memory"), "FAILED", 13),
        (NotConfirmed(path="/dev/x", reason="stdin is not a terminal", confirmation="S1"), "FAILED", 9),
        (KeyboardInterrupt(), "INTERRUPTED", 130),
        (KeyboardInterrupt("Terminated (SIGTERM)"), "INTERRUPTED", 130),
        (OSError(28, "No space left on device", "/runs/x"), "FAILED", 13),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_stopped_or_failed_run_is_mailed(
    error: BaseException,
    text: str,
    code: int,
    box: Box,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The mail states whether the run was stopped or failed, with the terminal's text; the exit code is unchanged."""

    def failing(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(runner_run, "perform", failing)
    assert run(tmp_path / "run", *to(box)) == code
    (mail,) = box.mails
    assert mail["Subject"].endswith(f": {text}")
    if isinstance(error, KeyboardInterrupt):
        assert f"{error.args[0] if error.args else 'Stopped by the operator'} in step" in text_of(mail)
    if isinstance(error, SniaPtsError):
        assert capsys.readouterr().err.splitlines() == [line for line in text_of(box.mails[0]).splitlines()[2:] if line]
    assert not list(mail.iter_attachments())


def test_failed_limits_are_in_the_mail(box: Box, tmp_path: Path) -> None:
    """The mail of a finished run with failed limits states both."""
    limits = tmp_path / "limits.toml"
    limits.write_text(
        'format = 1\n[[limit]]\ntest = "iops"\nmetric = "iops"\nat = "RND 4 KiB 0/100"\nunit = "IOPS"\nminimum = 1e9\n'
    )
    assert run(tmp_path / "run", *to(box), "--limits", str(limits)) == LimitsMissed.exit_code
    assert "STEADY STATE" in box.mails[0]["Subject"]
    assert box.mails[0]["Subject"].endswith(", LIMITS NOT MET")
    assert "1 of 1 limits not met" in text_of(box.mails[0])
    assert "Key figures" in text_of(box.mails[0])


def test_device_names_cannot_add_mail_headers() -> None:
    """Line breaks in a model or a verdict are replaced; the headers of the mail are those the suite writes."""
    hostile = "X\r\nBcc: victim@example.org\r\n\r\nbody\x1b[2J\u202e \udcff"
    where = MailConfig(server="relay", port=25, sender="lab@example.org", recipients=("a@example.org",))
    letter = Notification(about=f"IOPS test of {hostile}", report=Path("/none/report.pdf"), verdict=hostile)
    letter.output.write(f"{hostile}\nnumbers: 1\N{NARROW NO-BREAK SPACE}234\n.\nthe end\n")
    mail = message(where, letter)

    read = message_from_bytes(mail.as_bytes(policy=policy.SMTP), policy=policy.default)
    assert sorted(read.keys()) == sorted(
        [
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "Auto-Submitted",
            "MIME-Version",
            "Content-Type",
            "Content-Transfer-Encoding",
        ]
    )
    assert "victim" in read["Subject"]
    text = text_of(read)
    assert "numbers: 1 234\n.\nthe end\n" in text
    assert not set(text) & set("\x1b\u202e\udcff")


def test_a_report_that_is_too_large_or_a_symlink_is_not_attached(tmp_path: Path) -> None:
    """A report that is too large is named instead; a symlink is not followed."""
    where = MailConfig(server="relay", port=25, sender="lab@example.org", recipients=("a@example.org",))
    large, link = tmp_path / "report.pdf", tmp_path / "summary.pdf"
    large.touch()
    os.truncate(large, 7 * MB + 1)
    link.symlink_to("/etc/passwd")
    for path, says in ((large, "report.pdf is not attached: it is larger than 7 MB"), (link, "")):
        mail = message(where, Notification(about="a test", report=path))
        assert says in text_of(mail)
        assert not list(mail.iter_attachments())


@pytest.mark.long
def test_several_tests_are_one_mail(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent at the end of `all`, with the summary."""
    monkeypatch.setattr(running, "BASIC", ("iops",))
    short = [word.replace("rounds.", "iops.rounds.") if "=" in word else word for word in SHORT]
    changed = [f"iops.{word}" if word.startswith("steady_state") else word for word in short]
    for option, key in (("--max-rounds", "iops.rounds.maximum"), ("--point-seconds", "iops.rounds.point_seconds")):
        place = changed.index(option)
        changed[place : place + 2] = ["--set", f"{key}={changed[place + 1]}"]
    folder = tmp_path / "all"
    argv = ["all", "sim:client-qlc", *changed, "--to", "pdf", "--run-dir", str(folder), *to(box)]
    assert main(argv) == 0
    (mail,) = box.mails
    assert mail["Subject"].startswith("snia-pts: 1 test of Simulated client QLC SSD")
    (attached,) = mail.iter_attachments()
    assert attached.get_content() == (folder / "summary.pdf").read_bytes()


def test_a_resumed_run_mails_only_with_its_own_options(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal cannot choose the recipients; resume has its own options."""
    first, second = tmp_path / "first", tmp_path / "second"
    with monkeypatch.context() as stopped:
        stopped.setattr(RunFolder, "stop_requested", property(lambda _: True))
        for folder in (first, second):
            assert run(folder, *to(box)) == 130
    assert [mail["Subject"].endswith("INTERRUPTED") for mail in box.mails] == [True, True]

    assert main(["resume", str(first), "--progress", "none"]) == 0
    assert len(box.mails) == 2
    assert main(["resume", str(second), "--progress", "none", *to(box)]) == 0
    assert "STEADY STATE" in box.mails[2]["Subject"]


# -- how it is sent ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_a_login_uses_tls_and_stays_secret(
    tls: str, certificate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server gets the password after its certificate is verified; no file of the run, nor the mail, has it."""
    with serving(Box(), server_side(certificate), implicit=tls == "implicit") as box:
        path = written(tmp_path, with_user(box, certificate, tls))
        assert run(tmp_path / "run", "--mail", str(path), formats="rst") == 0

    assert capsys.readouterr().err == ""
    assert box.logins == [(b"lab", PASSWORD.encode())]
    assert PASSWORD not in box.mails[0].as_string()
    left = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(left) > 5
    assert not [file for file in left if PASSWORD.encode() in file.read_bytes()]


def test_nothing_is_sent_to_a_server_without_a_valid_certificate(
    certificate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No password or mail is sent to a server with an untrusted certificate or without TLS."""
    with serving(Box(), server_side(certificate)) as box:
        text = "".join(
            line for line in with_user(box, certificate, "starttls").splitlines(keepends=True) if "ca_file" not in line
        )
        assert run(tmp_path / "one", "--mail", str(written(tmp_path, text))) == 0
    assert "TLS certificate verification failed for 127.0.0.1 (self-signed certificate)" in capsys.readouterr().err
    assert (box.logins, box.mails) == ([], [])

    with serving(Box()) as plain:
        path = written(tmp_path, with_user(plain, certificate, "starttls"))
        assert run(tmp_path / "two", "--mail", str(path)) == 0
    assert "STARTTLS extension not supported" in capsys.readouterr().err
    assert (plain.logins, plain.mails) == ([], [])


def test_a_wrong_password_is_reported(certificate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the server's words, on one line."""
    with serving(Box(), server_side(certificate)) as box:
        path = written(tmp_path, with_user(box, certificate, "starttls"))
        (tmp_path / "password").write_text("wrong-one\n")
        assert run(tmp_path / "run", "--mail", str(path)) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snia-pts: The mail to a@example.org was not sent: 127.0.0.1 answered 535 ")
    assert "wrong-one" not in line


def test_rejected_recipients_are_reported_and_the_others_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rejected recipient does not affect the others; if all are rejected, all are listed."""
    with serving(Box(refused=["a@example.org"])) as box:
        assert run(tmp_path / "one", *to(box), "--mail-to", "b@example.org") == 0
        assert "a@example.org was refused: 550 nobody here" in capsys.readouterr().err
        assert box.mails[0]["X-Given-To"] == "b@example.org"
        assert run(tmp_path / "two", *to(box)) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "a@example.org was refused: 550 nobody here" in line
    assert len(box.mails) == 1


def test_no_run_waits_endlessly_for_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that keeps sending data costs a bounded time, and the run keeps its exit code."""
    monkeypatch.setattr(sending, "_TIMEOUT_SECONDS", 0.3)
    done = threading.Event()

    def drip(listening: socket.socket) -> None:
        talking, _ = listening.accept()
        with talking:
            for _ in range(100):
                talking.sendall(b"220-wait\r\n")
                if done.wait(0.05):
                    break

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        assert run(tmp_path / "run", *to(Box(port=listening.getsockname()[1]))) == 0
        done.set()
        thread.join()
    out, err = capsys.readouterr()
    assert "run folder: " in out
    assert err == "snia-pts: The mail to a@example.org was not sent: 127.0.0.1: timeout after 0.3 s.\n"


def test_an_unreachable_server_does_not_change_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run's result is printed first, then that no mail was sent; the exit code is the run's."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        box = Box(port=unused.getsockname()[1])
    assert run(tmp_path / "run", *to(box)) == 0
    assert "Connection refused" in capsys.readouterr().err

    def failing(*_arguments: object, **_options: object) -> None:
        raise DeviceFailed(step="WIPC", what="128 KiB", reason="Input/output error")

    monkeypatch.setattr(runner_run, "perform", failing)
    assert run(tmp_path / "other", *to(box)) == DeviceFailed.exit_code
    first, *_, last = capsys.readouterr().err.splitlines()
    assert "The device failed" in first
    assert "was not sent" in last


def test_an_error_in_the_mail_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An error while a mail is created does not change the run's outcome."""

    def failing(*_arguments: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("snia_pts.cli.notifications.notification.message", failing)
    where = MailConfig(server="relay", port=25, sender="lab@example.org", recipients=("a@example.org",))
    afterwards: list[Callable[[], None]] = []
    with notify_on_exit(where, afterwards) as letter:
        letter.about = "a test"
        print("printed")
    for tell in afterwards:
        tell()
    out, err = capsys.readouterr()
    assert out == "printed\n"
    assert err == "snia-pts: The mail to a@example.org was not sent: RuntimeError: a fault.\n"
