"""What is known of the machine and the programs that test, as a value (the report's block Test Platform)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..units import Amount

#: ``noted`` is what changes the numbers a little, or is as hosts are; what ``matters`` a reader must know.
Judgement = Literal["good", "noted", "matters", "not told"]
#: The newest versions with which the suite's own tests passed; README names them, too.
NEWEST_TRIED: Mapping[str, tuple[int, int]] = {"Python": (3, 13), "fio": (3, 39)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetting:
    """A setting or state of the host that may change what is measured: its value, and whether that is as it should be.

    ``wish`` is what would be better, or would be good; ``reason`` why it was judged so.  ``before`` is what it was
    before it was set for the run; empty where it was not.
    """

    name: str
    value: str
    judgement: Judgement
    wish: str = ""
    reason: str
    before: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlatform:
    """Host and software of a run.  An empty string, or 0, means that the host does not say.
    ``cpus`` are those that the suite, and so fio, may use."""

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
    io_engine: str  # and how its buffers are made random
    settings: tuple[HostSetting, ...] = ()

    def untried_versions(self) -> Iterator[tuple[str, str]]:
        """Give each program that is newer than tried, with its version, and the newest version that was tried."""
        for name, version in (("Python", self.python), (self.engine, self.engine_version)):
            newest = NEWEST_TRIED.get(name)
            found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", version)
            if newest and found and (int(found[1]), int(found[2])) > newest:
                yield f"{name} {version}", ".".join(map(str, newest))
