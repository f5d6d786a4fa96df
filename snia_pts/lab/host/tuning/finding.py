"""What is seen of a setting of the host, and how it would be set for a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ....model.test_platform import HostSetting, Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSetting:
    """What --tune sets: kind and place of a setting of ``settable``, and the value; none where it is only put back."""

    kind: str
    place: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A setting as it is, and what --tune would do about it."""

    setting: HostSetting
    wanted: tuple[DesiredSetting, ...] = ()

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
    wanted: Iterable[DesiredSetting] = (),
) -> Finding:
    """Return what is seen of a setting."""
    setting = HostSetting(name=name, value=value, judgement=judgement, reason=reason, recommended=recommended)
    return Finding(setting=setting, wanted=tuple(wanted))


def unknown_finding(name: str, reason: str) -> Finding:
    """Return a setting that the host does not tell."""
    return finding(name, "unknown", "unknown", reason)


def counted(values: Iterable[str]) -> str:
    """Return values that many places have, each with how many: ``performance (62), powersave (2)``."""
    counts = Counter(values).most_common()
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{value} ({count})" for value, count in counts)


def numbers(text: str) -> set[int]:
    """Return the numbers of a list of the kernel's, as in ``0-3,8``; what is none of these is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and first.isascii() and len(first) < 6 and (last or first).isdecimal() and len(last) < 6:
            found |= set(range(int(first), int(last or first) + 1))
    return found
