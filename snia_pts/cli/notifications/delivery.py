"""Writes the mail about a run and sends it.  Only this module imports the mail libraries."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from threading import Thread

from ...files import read_regular
from ...text import printable
from ...units import MB, capacity
from .config import MailConfig
from .content import Notification

_TIMEOUT_SECONDS = 30.0
#: Most servers accept a mail of this size.
_MAX_REPORT_BYTES = 7 * MB
_MAX_SUBJECT_LENGTH = 200


def message(config: MailConfig, notification: Notification) -> EmailMessage:
    """Return the mail about a run.  Line feeds in device names or paths are replaced, so they cannot add headers."""
    mail = EmailMessage()
    mail["From"], mail["To"] = config.sender, ", ".join(config.recipients)
    subject = printable(f"snia-pts: {notification.about}: {notification.verdict or 'done'}")
    mail["Subject"] = subject[:_MAX_SUBJECT_LENGTH]
    mail["Date"], mail["Message-ID"] = formatdate(localtime=True), make_msgid(domain=config.sender.partition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    summary = f"{notification.about}, on {notification.host}: {notification.verdict or 'done'}"
    report, note = _read_report(notification.report) if notification.report else (b"", "")
    lines = (summary, "", *notification.output.getvalue().splitlines(), "", note)
    mail.set_content("\n".join(map(_printable_line, lines)).strip() + "\n")
    if report and notification.report:
        mail.add_attachment(report, maintype="application", subtype="pdf", filename=notification.report.name)
    return mail


def _printable_line(line: str) -> str:
    """Return a printable line with plain spaces instead of the narrow ones in numbers."""
    return printable("".join(" " if character.isspace() else character for character in line))


def _read_report(path: Path) -> tuple[bytes, str]:
    """Return the report and a note about it; no bytes if there is none, or if it cannot be sent."""
    if path.is_symlink() or not path.is_file():
        return b"", ""
    try:
        return read_regular(path, _MAX_REPORT_BYTES), f"{path.name} is attached."
    except OSError:
        return b"", f"{path.name} is not attached: it is larger than {capacity(_MAX_REPORT_BYTES)} or unreadable."


def send(config: MailConfig, mail: EmailMessage) -> str:
    """Send a mail within a timeout; return why that failed, or an empty text."""
    failures: list[str] = []
    thread = Thread(target=lambda: failures.append(_try_send(config, mail)), daemon=True)
    thread.start()
    thread.join(_TIMEOUT_SECONDS)
    return failures[0] if failures else f"{config.server}: timeout after {_TIMEOUT_SECONDS:g} s"


def _try_send(config: MailConfig, mail: EmailMessage) -> str:
    try:
        refused = _smtp_session(config, mail)
    except smtplib.SMTPRecipientsRefused as error:
        refused = error.recipients
    except smtplib.SMTPResponseException as error:
        return f"{config.server} answered {_answer(error.smtp_code, error.smtp_error)}"
    except ssl.SSLCertVerificationError as error:
        return f"TLS certificate verification failed for {config.server} ({error.verify_message})"
    except (OSError, ValueError) as error:  # SMTPException is an OSError
        return f"{config.server}, port {config.port}: {getattr(error, 'strerror', None) or error}"
    return "; ".join(f"{address} was refused: {_answer(*answer)}" for address, answer in refused.items())


def _smtp_session(config: MailConfig, mail: EmailMessage) -> dict[str, tuple[int, bytes]]:
    """Send the mail; return each recipient that the server refused, with its answer.

    Raises SMTPRecipientsRefused if it refused all of them; OSError or ValueError for any other failure.
    """
    if config.tls == "implicit":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            config.server, config.port, timeout=_TIMEOUT_SECONDS, context=config.authorities
        )
    else:
        server = smtplib.SMTP(config.server, config.port, timeout=_TIMEOUT_SECONDS)
    with server:
        if config.tls == "starttls":
            server.starttls(context=config.authorities)
        if config.user:
            server.login(config.user, config.password)
        return server.send_message(mail, config.sender, list(config.recipients))


def _answer(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode('utf-8', 'replace') if isinstance(text, bytes) else text}"
