"""Sends the events of a run to a web address, as signed JSON.

A message is sent in the background while the run goes on, and at its end after its last line on the terminal.  A
failure costs the run nothing: it is one line.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import IO, Any
from urllib.parse import urlsplit

from ...errors import Interrupted, SniaPtsError, UsageError, stop_error
from ...files import read_private
from ...lab.observation.telemetry import is_hot, warning_celsius
from ...model.measurement import Measurement, Sample
from ...runner.events import Event, FolderCreated, OnEvent, OutcomeRecorded, TestFinished
from ...text import json_values, printable

#: All attempts to send one message end within this time; each has the shorter timeout.
_TOTAL_SECONDS, _TIMEOUT_SECONDS = 30.0, 10.0
#: The pauses between attempts.
_PAUSES = (1.0, 2.0, 4.0, 8.0)
_MIN_SECRET_BYTES, _MAX_SECRET_BYTES = 16, 1024
_MAX_REASON_LENGTH = 200
#: Answers after which another attempt may succeed.
_RETRIED = (408, 425, 429)
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookConfig:
    """The address of the messages, and the secret that signs them."""

    url: str
    secret: bytes = field(default=b"", repr=False)

    @property
    def host(self) -> str:
        """The host of the address; the rest of it may be a secret."""
        return urlsplit(self.url).hostname or ""


def load_webhook_config(arguments: argparse.Namespace) -> WebhookConfig | None:
    """Return the webhook of the command line, None without one; raises UsageError."""
    url: str | None = arguments.webhook
    if url is None:
        if arguments.webhook_secret is not None:
            raise UsageError(detail="--webhook-secret: no address is given.", hint="Give it with --webhook URL.")
        return None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, valid = None, False
    if not valid or parts is None or not url.isascii() or not url.isprintable() or " " in url or "@" in parts.netloc:
        hint = "For example --webhook https://lab.example.org/hook, without a user or a password."
        raise UsageError(detail="--webhook: not a web address.", hint=hint)
    secret = b"" if arguments.webhook_secret is None else _read_secret(arguments.webhook_secret)
    return WebhookConfig(url=url, secret=secret)


def public_command_line(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line for the journal: of the address of a webhook, whose path may be a secret, only the host."""
    public: list[str] = []
    for word in words:
        option, equals, url = word.partition("=")
        if option == "--webhook" and equals:
            public.append(f"{option}={_public_url(url)}")
        else:
            public.append(_public_url(word) if public and public[-1] == "--webhook" else word)
    return tuple(public)


def _public_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/..."


def _read_secret(path: Path) -> bytes:
    """Return the only line of a file that only this user may read; raises UsageError."""
    try:
        secret = read_private(path, _MAX_SECRET_BYTES + 1, os.geteuid()).removesuffix(b"\n")
    except OSError as error:
        reason, hint = error.strerror or str(error), "Name a file with one line, which only you may read."
        raise UsageError(detail=f"--webhook-secret {path}: {reason}.", hint=hint) from None
    if b"\n" in secret or not _MIN_SECRET_BYTES <= len(secret) <= _MAX_SECRET_BYTES:
        detail = f"--webhook-secret {path}: expected one line of {_MIN_SECRET_BYTES} to {_MAX_SECRET_BYTES} bytes."
        raise UsageError(detail=detail, hint="openssl rand -hex 32 makes a secret.")
    return secret


@contextmanager
def webhook_on_exit(
    config: WebhookConfig | None, on_event: OnEvent, afterwards: list[Callable[[], None]]
) -> Iterator[OnEvent]:
    """Yield the receiver of the events of a run, which sends messages; append to ``afterwards`` that of its end.

    Nothing is sent without ``config``, or for a run without a folder.
    """
    if config is None:
        yield on_event
        return
    messages = _Messages(config, on_event)
    try:
        yield messages.on_event
    except BaseException as error:
        messages.record_error(error)
        raise
    finally:
        if messages.run:
            afterwards.append(messages.send_end)


class _Messages:
    """The messages about a run."""

    def __init__(self, config: WebhookConfig, on_event: OnEvent) -> None:
        self._config, self._on_event = config, on_event
        self.run: dict[str, Any] = {}
        self._verdicts: list[str] = []
        self._event, self._error = "finished", ""
        self._warning_celsius: float | None = None
        self._sent_hot = False
        self._thread: Thread | None = None

    def on_event(self, event: Event) -> None:
        """Receive an event of the run."""
        match event:
            case FolderCreated():
                self.run = {
                    "run": str(event.folder.path),
                    "test": event.title,
                    "drive": {"model": event.dut.model, "serial": event.dut.serial, "path": event.dut.path},
                }
                self._warning_celsius = None if event.dut.simulated else warning_celsius(event.dut.path)
            case TestFinished():
                self._verdicts.append(event.result.verdict)
            case OutcomeRecorded():
                self._check_temperature(event.outcome)
        self._on_event(event)

    def _check_temperature(self, outcome: object) -> None:
        """Send a message once if the drive is hot."""
        if self._sent_hot or self._warning_celsius is None or not isinstance(outcome, Measurement | Sample):
            return
        celsius = outcome.telemetry.celsius if outcome.telemetry else None
        if celsius is not None and is_hot(celsius, self._warning_celsius):
            self._sent_hot = True
            body = self._body("hot", celsius=celsius, warning_celsius=self._warning_celsius)
            self._thread = Thread(target=partial(_send_or_say, self._config, body), daemon=True)
            self._thread.start()

    def record_error(self, error: BaseException) -> None:
        """Record why the run ended early."""
        if isinstance(error, KeyboardInterrupt):
            error = stop_error(error)
        self._event = "stopped" if isinstance(error, Interrupted) else "failed"
        hint = error.full_hint if isinstance(error, SniaPtsError) else ""
        self._error = f"{error} {hint}".strip()

    def send_end(self) -> None:
        """Send the message about the end of the run."""
        if self._thread is not None:
            self._thread.join(_TOTAL_SECONDS)
        _send_or_say(self._config, self._body(self._event, error=self._error))

    def _body(self, event: str, **values: object) -> bytes:
        values = {**self.run, "verdicts": list(self._verdicts), **values}
        return message_body(event, datetime.now().astimezone(), socket.gethostname(), **values)


def message_body(event: str, at: datetime, host: str, **values: object) -> bytes:
    """Return the JSON of a message about something that happened to a run on a host."""
    document = {"format": 1, "event": event, "time": at.isoformat(timespec="seconds"), "host": host, **values}
    return json.dumps(json_values(document), allow_nan=False).encode()


def _send_or_say(config: WebhookConfig, body: bytes) -> None:
    try:
        reason = send(config, body)
    except KeyboardInterrupt:
        reason = "interrupted"
    except Exception as error:  # noqa: BLE001  # no failure of a message may hide the result
        reason = type(error).__name__
    if reason:
        with suppress(OSError):
            text = f"The webhook at {config.host} was not called: {printable(reason)[:_MAX_REASON_LENGTH]}."
            print(f"snia-pts: {text}", file=sys.stderr)


def send(config: WebhookConfig, body: bytes) -> str:
    """Send a message; return why all attempts failed, or an empty text.

    Attempts that may succeed later are repeated, with growing pauses, within ``_TOTAL_SECONDS``.
    """
    end = time.monotonic() + _TOTAL_SECONDS
    reason = ""
    for pause in (0.0, *_PAUSES):
        if pause and time.monotonic() + pause >= end:
            break
        time.sleep(pause)
        reason, again = _bounded_attempt(config, body, min(_TIMEOUT_SECONDS, max(0.1, end - time.monotonic())))
        if not again:
            break
    return reason


def _bounded_attempt(config: WebhookConfig, body: bytes, seconds: float) -> tuple[str, bool]:
    """Send once within some seconds, also to a server that answers slowly; see ``_attempt``."""
    results: list[tuple[str, bool]] = []
    thread = Thread(target=lambda: results.append(_attempt(config, body, seconds)), daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else (f"no answer within {seconds:.0f} s", True)


def _attempt(config: WebhookConfig, body: bytes, seconds: float) -> tuple[str, bool]:
    """Send once; return why that failed, empty if it did not, and whether another attempt may succeed."""
    stamp = str(int(time.time()))
    headers = {"Content-Type": "application/json", "User-Agent": "snia-pts", "X-Snia-Pts-Timestamp": stamp}
    if config.secret:
        headers["X-Snia-Pts-Signature"] = f"sha256={signature(config.secret, stamp, body)}"
    try:
        request = urllib.request.Request(config.url, data=body, headers=headers)  # noqa: S310  # checked: http(s)
        with _opener().open(request, timeout=seconds):
            return "", False
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered {error.code}", error.code >= _SERVER_ERROR or error.code in _RETRIED
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            return f"TLS certificate verification failed ({error.reason.verify_message})", False
        return str(getattr(error.reason, "strerror", None) or error.reason), True
    except (OSError, HTTPException) as error:
        return getattr(error, "strerror", None) or type(error).__name__, True


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of the timestamp, a full stop and the body, in hexadecimal digits."""
    return hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the message is for the address that the operator named."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Return None, so that the redirect is an error."""


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that verifies certificates, and uses no proxy of the environment."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirects()
    )
