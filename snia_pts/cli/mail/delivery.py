"""Writes the mail that tells of a run, and gives it to a server: what needs the libraries of mail."""

from __future__ import annotations

import smtplib
import socket
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from threading import Thread

from ...files import read_regular
from ...text import printable
from ...units import MB, capacity
from .config import MailConfig
from .notification import Notification

#: As long as nobody would wait for a mail, and as large as most servers take.
_MOST_SECONDS = 30.0
_LARGEST_REPORT_BYTES = 7 * MB
_LONGEST_SUBJECT = 200


def message(where: MailConfig, letter: Notification) -> EmailMessage:
    """Return the mail: no text of a device or file becomes more than the text of a header."""
    mail = EmailMessage()
    mail["From"], mail["To"] = where.sender, ", ".join(where.recipients)
    subject = printable(f"snia-pts: {letter.about}: {letter.verdict or 'done'}")
    mail["Subject"] = subject[:_LONGEST_SUBJECT]
    mail["Date"], mail["Message-ID"] = formatdate(localtime=True), make_msgid(domain=where.sender.partition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    head = f"{letter.about}, on {socket.gethostname()}: {letter.verdict or 'done'}"
    report, attached = _report(letter.report) if letter.report else (b"", "")
    lines = (head, "", *letter.said.getvalue().splitlines(), "", attached)
    mail.set_content("\n".join(map(_plain, lines)).strip() + "\n")
    if report and letter.report:
        mail.add_attachment(report, maintype="application", subtype="pdf", filename=letter.report.name)
    return mail


def _plain(line: str) -> str:
    """Return a line with plain spaces for the thin ones of numbers, and nothing that is no text."""
    return printable("".join(" " if letter.isspace() else letter for letter in line))


def _report(path: Path) -> tuple[bytes, str]:
    """Return the report and what is said of it; no bytes where there is none, or it cannot be sent."""
    if path.is_symlink() or not path.is_file():
        return b"", ""
    try:
        return read_regular(path, _LARGEST_REPORT_BYTES), f"{path.name} is attached."
    except OSError:
        return b"", f"{path.name} is not attached: it is larger than {capacity(_LARGEST_REPORT_BYTES)}, or unreadable."


def send(where: MailConfig, mail: EmailMessage) -> str:
    """Give a mail to the server, for a bounded time; returns why that failed, or nothing."""
    found: list[str] = []
    thread = Thread(target=lambda: found.append(_try_send(where, mail)), daemon=True)
    thread.start()
    thread.join(_MOST_SECONDS)
    return found[0] if found else f"{where.server} took more than {_MOST_SECONDS:g} s"


def _try_send(where: MailConfig, mail: EmailMessage) -> str:
    try:
        refused = _smtp_session(where, mail)
    except smtplib.SMTPRecipientsRefused as error:
        refused = error.recipients
    except smtplib.SMTPResponseException as error:
        return f"{where.server} says {_answer(error.smtp_code, error.smtp_error)}"
    except ssl.SSLCertVerificationError as error:
        return f"{where.server} does not prove who it is ({error.verify_message})"
    except (OSError, ValueError) as error:  # SMTPException is an OSError
        return f"{where.server}, port {where.port}: {getattr(error, 'strerror', None) or error}"
    return "; ".join(f"{each} is refused, {_answer(*answer)}" for each, answer in refused.items())


def _smtp_session(where: MailConfig, mail: EmailMessage) -> dict[str, tuple[int, bytes]]:
    """Return who is refused, and why, where somebody is not; raises OSError or ValueError."""
    if where.tls == "implicit":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            where.server, where.port, timeout=_MOST_SECONDS, context=where.authorities
        )
    else:
        server = smtplib.SMTP(where.server, where.port, timeout=_MOST_SECONDS)
    with server:
        if where.tls == "starttls":
            server.starttls(context=where.authorities)
        if where.user:
            server.login(where.user, where.password)
        return server.send_message(mail, where.sender, list(where.recipients))


def _answer(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}"
