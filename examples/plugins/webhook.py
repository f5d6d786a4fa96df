"""A notification: sends the end of a run as JSON to the address in the environment variable SNIA_PTS_WEBHOOK."""

import json
import os
import urllib.request

from snia_pts.runner.notifications import RunEnd

_TIMEOUT_SECONDS = 10


def send(end: RunEnd) -> None:
    """Send one message; any error is shown as a notice, and does not affect the run."""
    message = {
        "run": str(end.path),
        "test": end.title,
        "drive": end.drive,
        "verdicts": [result.verdict for result in end.results],
        "error": None if end.error is None else str(end.error),
    }
    request = urllib.request.Request(  # noqa: S310  # the operator chooses the address
        os.environ["SNIA_PTS_WEBHOOK"],
        data=json.dumps(message).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
        pass


def register(registries):
    """Add the notification; every run for which the plugin is named sends it."""
    registries.NOTIFICATIONS["webhook"] = f"{__name__}:send"
