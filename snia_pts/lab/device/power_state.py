"""Parse the power state of an NVMe drive: feature 02h, with the states of Identify Controller (nvme-cli)."""

from __future__ import annotations

import json
import re

from ...model.health import HealthText

SOURCE = "NVMe feature 02h"
#: The bits of the feature's value that are the number of the power state.
_STATE_BITS = 0x1F
#: Watts in one unit of Maximum Power, by its scale (NVMe base specification, Power State Descriptor).
_WATTS = {0: 0.01, 1: 0.0001}


def parse(feature: str, identity: str) -> tuple[HealthText, ...]:
    """Return the power state that is in force, and its maximum power if the drive reports it.

    ``feature`` is the output of ``nvme get-feature --feature-id=2``, ``identity`` that of ``nvme id-ctrl -o json``.
    Returns none if ``feature`` has no value.
    """
    value = re.search(r"value: ?(?:0x)?([0-9a-fA-F]{1,8})\b", feature)  # some versions omit 0x for 0
    if value is None:
        return ()
    state = int(value[1], 16) & _STATE_BITS
    power = _maximum_watts(state, identity)
    text = f"{state}, at most {power:g} W" if power else f"{state}"
    return (HealthText(name="Power state", text=text, source=SOURCE),)


def _maximum_watts(state: int, identity: str) -> float | None:
    """Return the maximum power of a state; None if the drive does not report it."""
    try:
        description = json.loads(identity)["psds"][state]
        # nvme-cli before 2.4 prints all flags, of which the lowest bit is the scale
        scale = description.get("max_power_scale", int(description.get("flags", 0)) & 1)
        return round(int(description["max_power"]) * _WATTS[scale], 4)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
