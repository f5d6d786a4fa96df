"""The finding about a host setting, and the value that --tune would give it for a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ....model.test_platform import HostSetting, Judgement

#: The reason of an unknown finding.
NOT_REPORTED = "not reported by the kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSetting:
    """A setting that --tune sets (see ``settings_list``); without a value it is only restored."""

    kind: str
    place: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A setting's present state, and what --tune would change."""

    setting: HostSetting
    desired: tuple[DesiredSetting, ...] = ()

    @property
    def name(self) -> str:
        return self.setting.name


def finding(
    name: str,
    value: str,
    judgement: Judgement,
    reason: str,
    *,
    recommended: str = "",
    desired: Iterable[DesiredSetting] = (),
) -> Finding:
    """Return the finding about a setting."""
    setting = HostSetting(name=name, value=value, judgement=judgement, reason=reason, recommended=recommended)
    return Finding(setting=setting, desired=tuple(desired))


def unknown_finding(name: str, reason: str) -> Finding:
    """Return the finding about a setting that the host does not report."""
    return finding(name, "unknown", "unknown", reason)


def counted(values: Iterable[str]) -> str:
    """Return the distinct values of many places with their counts: ``performance (62), powersave (2)``."""
    counts = Counter(values).most_common()
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{value} ({count})" for value, count in counts)


def numbers(text: str) -> set[int]:
    """Return the numbers in a kernel list such as ``0-3,8``; invalid parts are ignored."""
    result: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and first.isascii() and len(first) < 6 and (last or first).isdecimal() and len(last) < 6:
            result |= set(range(int(first), int(last or first) + 1))
    return result
