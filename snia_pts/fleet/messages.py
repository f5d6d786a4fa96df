"""The mails and webhook messages about the runs and drives of a lab."""

from __future__ import annotations

from functools import partial

from ..cli.notifications import delivery, webhook
from ..cli.notifications.config import MailConfig
from ..cli.notifications.content import Notification
from ..cli.notifications.webhook import WebhookConfig, message_body
from ..errors import LimitsMissed
from .notifications import ENDS, Channel, LabEvent, Send


def message_senders(mail: MailConfig | None, hook: WebhookConfig | None) -> dict[Channel, Send]:
    """Return the functions that send messages, one for each channel that is configured."""
    senders: dict[Channel, Send] = {}
    if mail:
        senders["mail"] = partial(_send_mail, mail)
    if hook:
        senders["webhook"] = partial(_call_webhook, hook)
    return senders


def _send_mail(config: MailConfig, event: LabEvent) -> str:
    """Send a mail; return why that failed, or an empty text."""
    drive = f"{event.model or 'unknown model'}, serial {event.serial}"
    notification = Notification(
        about=f"{event.run.test} of {drive}" if event.run else f"drive {drive}",
        verdict=", ".join(_outcomes(event)),
        host=event.host,
    )
    run = event.run
    lines = {
        "": _cause(event),
        "Ended: " if event.kind in ENDS else "Time: ": f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}, {event.kind}",
        "Run: ": str(run.run_id) if run else "",
        "Campaign: ": run.campaign if run else "",
        "Folder on its host: ": run.folder if run else "",
        "Nothing new starts on the drive: ": event.held if event.held != event.message else "",
    }
    notification.output.writelines(f"{name}{value}\n" for name, value in lines.items() if value)
    return delivery.send(config, delivery.message(config, notification))


def _cause(event: LabEvent) -> str:
    """Return the message of an event; empty for a run with exit code 0, whose message is its verdict."""
    return "" if event.run and event.run.exit_code == 0 else event.message


def _outcomes(event: LabEvent) -> list[str]:
    """Return what a person must know of an event, for the subject of a mail."""
    verdict = event.run.verdict if event.run else ""
    outcomes = {
        verdict: bool(verdict),
        "DRIVE HOT": event.kind == "hot",
        event.kind.upper(): event.kind in ENDS and (event.kind != "finished" or not verdict),
        "LIMITS NOT MET": event.run is not None and event.run.exit_code == LimitsMissed.exit_code,
        "DRIVE HELD": bool(event.held),
    }
    # A drive may be released before the message about its hold is sent.
    return [outcome for outcome, applies in outcomes.items() if applies] or ["DRIVE RELEASED"]


def _call_webhook(config: WebhookConfig, event: LabEvent) -> str:
    """Send the message of the webhook; return why that failed, or an empty text."""
    run = event.run
    body = message_body(
        event.kind,
        event.at.astimezone(),
        event.host,
        run=run.folder if run else "",
        run_id=str(run.run_id) if run else "",
        campaign=run.campaign if run else "",
        test=run.test if run else "",
        drive={"model": event.model, "serial": event.serial, "held": event.held},
        verdicts=[run.verdict] if run and run.verdict else [],
        exit_code=run.exit_code if run else None,
        error=_cause(event) if event.kind in ENDS else "",
        detail="" if event.kind in ENDS else event.message,
    )
    return webhook.send(config, body)
