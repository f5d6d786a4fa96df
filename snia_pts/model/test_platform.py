"""The machine and the programs that run a test, as a value (the report's block Test Platform)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..units import Amount

#: ``noted``: the effect is small or common to all hosts.  ``affects results``: readers of the results must know it.
Judgement = Literal["good", "noted", "affects results", "unknown"]
#: The newest versions that passed the suite's tests; the README names them, too.
NEWEST_TESTED: Mapping[str, tuple[int, int]] = {"Python": (3, 13), "fio": (3, 39)}
#: Settings that change at any time.
_NOT_COMPARED = {"other load", "other I/O", "swap"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetting:
    """A setting or state of the host that may affect the results: its value and a judgement.

    ``recommended`` is the recommended value, ``reason`` the reason for the judgement.  ``before`` is the value before
    the run changed it; empty if it did not.
    """

    name: str
    value: str
    judgement: Judgement
    recommended: str = ""
    reason: str
    before: str = ""

    @property
    def assessment(self) -> str:
        """The value; if it affects results, also the recommended value and the reason."""
        if self.judgement != "affects results":
            return self.value
        recommended = f" (recommended: {self.recommended})" if self.recommended else ""
        return f"{self.value}{recommended}: {self.reason}"


def changed_settings(
    before: Iterable[HostSetting], after: Iterable[HostSetting]
) -> Iterator[tuple[HostSetting, HostSetting]]:
    """Yield each setting whose value has changed and may affect results, as it was and as it is."""
    by_name = {setting.name: setting for setting in before}
    for setting in after:
        earlier = by_name.get(setting.name, setting)
        if setting.name not in _NOT_COMPARED and earlier.value != setting.value:
            yield earlier, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlatform:
    """Host and software of a run.  An empty string, or 0, means that the host does not report the value.

    ``cpus`` is the number of CPUs that the suite, and therefore fio, may use.
    """

    hostname: str
    motherboard: str
    cpu: str
    cpus: Amount
    memory_bytes: Amount
    operating_system: str
    kernel: str
    python: str
    suite_version: str
    engine: str
    engine_version: str
    io_engine: str  # Includes the method that fills its buffers with random data.
    settings: tuple[HostSetting, ...] = ()

    def untested_versions(self) -> Iterator[tuple[str, str]]:
        """Yield each program newer than the tested versions, and the newest tested version."""
        for name, version in (("Python", self.python), (self.engine, self.engine_version)):
            newest = NEWEST_TESTED.get(name)
            match = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", version)
            if newest and match and (int(match[1]), int(match[2])) > newest:
                yield f"{name} {version}", ".".join(map(str, newest))


#: A platform that reports nothing.
UNKNOWN_PLATFORM = TestPlatform(
    hostname="",
    motherboard="",
    cpu="",
    cpus=0,
    memory_bytes=0,
    operating_system="",
    kernel="",
    python="",
    suite_version="",
    engine="",
    engine_version="",
    io_engine="",
)
