"""Read the evidence that a simulated drive wrote for a stimulus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...model.histogram import Histogram
from ...model.measurement import NO_TRANSFERS, Transfers


def read_transfers(text: str) -> tuple[Transfers, Transfers]:
    """Return the reads and writes in the evidence of a stimulus; raises ValueError if it cannot be parsed."""
    try:
        job = json.loads(text)["jobs"][0]
        return _side(job["read"]), _side(job["write"])
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"cannot parse the simulated drive's evidence ({error!r})") from error


def _side(side: Mapping[str, Any]) -> Transfers:
    if not side["total_ios"]:
        return NO_TRANSFERS
    response = side["lat_ns"]
    return Transfers(
        ios=side["total_ios"],
        transferred_bytes=side["io_bytes"],
        runtime_ms=side["runtime"],
        response_min_ns=response["min"],
        response_mean_ns=response["mean"],
        response_max_ns=response["max"],
        histogram=Histogram(counted=",".join(f"{edge} {count}" for edge, count in response["bins"].items())),
    )
