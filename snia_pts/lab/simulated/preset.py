"""What a simulated drive is made of: a preset is a TOML file, one of ``specs/drives/`` or the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MultipleOf

from ...errors import UsageError
from ...files import data_folder
from ...model.dut import SupposedSpeed
from ...model.raid import LINKS, fabric_mb_per_second
from ...spec.toml_file import read_file
from ...units import KIB, MB

PRESETS = data_folder("specs") / "drives"

Positive = Annotated[float, Ge(1e-3), Le(1e9)]
Microseconds = Annotated[float, Ge(0), Le(1e8)]
Bytes = Annotated[float, Ge(0), Le(1e18)]
Percent = Annotated[float, Ge(0), Le(100)]
#: A smaller drive would be written over too often in a day for the model to follow.
_LEAST_FILL_SECONDS = 20
#: Noise hardly ever exceeds so many times its standard deviation.
_MOST_DEVIATIONS = 4
#: What is left of the narrowest part's speed where another one is hardly wider; no fault takes more than 95 %.
_BESIDE, _LEAST_SHARE = 0.8, 0.05
_STRICT = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What the drive says of itself."""

    __pydantic_config__ = _STRICT
    model: str
    firmware: str
    bus: str
    capacity_bytes: Annotated[int, Ge(10**8), Le(10**15), MultipleOf(4096)]
    logical_sector_bytes: Literal[512, 4096]
    rotational: bool
    write_cache: Literal["enabled", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """The medium: units that work side by side (dies, or one actuator), and what they take.

    ``program_us`` is for ``program_kib`` at once.  ``over_provisioning_percent`` is 0 for a medium that is overwritten
    in place.  ``pseudo_slc_percent`` of the capacity takes writes ``pseudo_slc_gain`` times as fast until it is full.
    ``positioning_us`` is what an access of a disk takes on average at queue depth 1.
    """

    __pydantic_config__ = _STRICT
    units: Annotated[int, Ge(1), Le(4096)]
    over_provisioning_percent: Percent
    page_kib: Positive
    mapping_kib: Positive
    read_us: Microseconds
    program_us: Microseconds
    program_kib: Positive
    pseudo_slc_percent: Percent = 0.0
    pseudo_slc_gain: Annotated[float, Ge(1), Le(100)] = 1.0
    positioning_us: Microseconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Link and firmware: throughput and I/O rates it never exceeds, and its share of a response time.

    Neither direction is faster than ``lanes`` of the ``link``; SATA is half duplex, so that both share its time.

    ``protected`` says that its buffer survives a power loss: then writes are acknowledged from it whether or not the
    write cache is enabled.
    """

    __pydantic_config__ = _STRICT
    link: Literal[
        "sata-1",
        "sata-2",
        "sata-3",
        "sas-1",
        "sas-2",
        "sas-3",
        "sas-4",
        "pcie-1",
        "pcie-2",
        "pcie-3",
        "pcie-4",
        "pcie-5",
    ]
    lanes: Annotated[int, Ge(1), Le(32)]
    read_mb_per_second: Positive
    write_mb_per_second: Positive
    read_iops: Positive
    write_iops: Positive
    read_us: Positive
    write_us: Positive
    protected: bool

    def __post_init__(self) -> None:
        if max(self.read_mb_per_second, self.write_mb_per_second) > self.link_mb_per_second:
            raise ValueError(
                f"read_mb_per_second and write_mb_per_second of at most {self.link_mb_per_second:.6g}, as "
                f"{self.link} x{self.lanes} transfers no more"
            )

    @property
    def link_mb_per_second(self) -> float:
        """What the link transfers in one direction, in MB/s."""
        return fabric_mb_per_second(self.lanes, LINKS[self.link])

    @property
    def half_duplex(self) -> bool:
        """Whether the link transfers in one direction at a time."""
        return self.link.startswith("sata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong: everything is off at 0.

    ``drift_percent`` lets the speed wander by so much, forever; ``throttle_percent`` takes so much away once
    ``throttle_after_bytes`` were written; reads and writes fail, or are never answered, once so many bytes were moved.
    """

    __pydantic_config__ = _STRICT
    drift_percent: Annotated[float, Ge(0), Le(90)] = 0.0
    throttle_percent: Annotated[float, Ge(0), Le(99)] = 0.0
    throttle_after_bytes: Bytes = 0.0
    purge_keeps_data: bool = False
    error_after_bytes: Bytes = 0.0
    hang_after_bytes: Bytes = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A simulated drive.  ``sources`` are where its figures come from; ``noise_percent`` is that of its speed."""

    __pydantic_config__ = _STRICT
    format: Literal[1]
    sources: tuple[str, ...]
    noise_percent: Annotated[float, Ge(0), Le(20)]
    drive: Identity
    media: Media
    controller: Controller
    faults: Faults = Faults()

    def __post_init__(self) -> None:
        if self.drive.capacity_bytes < _LEAST_FILL_SECONDS * self.controller.write_mb_per_second * MB:
            raise ValueError(f"a drive.capacity_bytes that takes {_LEAST_FILL_SECONDS} s to fill at the link's speed")

    @property
    def speed(self) -> SupposedSpeed:
        """How fast it is: as its link at most; at least as link or medium write a stream, with noise and all faults.

        A queue of a few I/Os is supposed; with less it may be slower.
        """
        media, controller, faults = self.media, self.controller, self.faults
        noise = _MOST_DEVIATIONS * self.noise_percent / 100
        programmed = media.units * media.program_kib * KIB / max(media.program_us, 1e-9)  # bytes a us are MB/s
        slowed = (faults.drift_percent + faults.throttle_percent) / 100
        share = max(_LEAST_SHARE, (1 - slowed) * (1 - noise))
        return SupposedSpeed(
            read=controller.read_mb_per_second * (1 + noise),
            write=controller.write_mb_per_second * (1 + noise),
            least=_BESIDE * share * min(controller.read_mb_per_second, controller.write_mb_per_second, programmed),
            source="its preset",
        )


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets that come with the suite."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def read_preset(name: str) -> Preset:
    """Return a preset by its name, or the one in a TOML file; raises SpecError with every mistake.

    UsageError where there is no preset of that name.
    """
    known = name in preset_names()
    path = PRESETS / f"{name}.toml" if known else Path(name)
    if not known and "/" not in name and path.suffix != ".toml":
        raise UsageError(
            detail=f"There is no simulated drive {name!r}.",
            hint=f"Known: {', '.join(preset_names())}; or a file such as sim:./mine.toml.",
        )
    return read_file(path, Preset)
