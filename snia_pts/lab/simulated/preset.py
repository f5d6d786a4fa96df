"""Read the preset of a simulated drive: a TOML file in ``specs/drives/``, or the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MultipleOf

from ...errors import UsageError
from ...files import data_folder
from ...model.dut import AssumedSpeed, Dut
from ...model.raid import LINKS, fabric_mb_per_second
from ...spec.toml_file import read_file
from ...units import GB, KIB, MB

PRESETS = data_folder("specs") / "drives"

Positive = Annotated[float, Ge(1e-3), Le(1e9)]
Microseconds = Annotated[float, Ge(0), Le(1e8)]
Bytes = Annotated[float, Ge(0), Le(1e18)]
Percent = Annotated[float, Ge(0), Le(100)]
#: A smaller drive would be filled so often that the simulation of a day of writes takes too long.
_MIN_FILL_SECONDS = 20
#: Noise rarely exceeds this multiple of its standard deviation.
_MAX_DEVIATIONS = 4
#: Parts that are hardly faster than the slowest one reduce the speed to 80 % of the slowest part's.  Faults and noise
#: leave at least 5 % of it.
_COMBINED_SHARE, _MIN_SHARE = 0.8, 0.05
_STRICT = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The drive's identity, as it reports it."""

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
    """The medium: its parallel units (dies, or one actuator) and their times.

    ``program_us`` is the time to program ``program_kib``.  ``over_provisioning_percent`` is 0 for a medium that is
    overwritten in place.  ``pseudo_slc_percent`` of the capacity accepts writes ``pseudo_slc_gain`` times as fast until
    it is full.  ``positioning_us`` is the average access time of a disk at queue depth 1.
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
    """Link and firmware: the maximum throughput and I/O rates, and their share of a response time.

    Neither direction is faster than ``lanes`` of the ``link``.  SATA is half duplex: both directions share its time.

    With ``protected`` the buffer survives a power loss, and writes are acknowledged from it whether or not the write
    cache is enabled.
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
                f"read_mb_per_second and write_mb_per_second of at most {self.link_mb_per_second:.6g} "
                f"(the speed of {self.link} x{self.lanes})"
            )

    @property
    def link_mb_per_second(self) -> float:
        """The speed of the link in one direction, in MB/s."""
        return fabric_mb_per_second(self.lanes, LINKS[self.link])

    @property
    def half_duplex(self) -> bool:
        """Return whether the link transfers in only one direction at a time."""
        return self.link.startswith("sata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The simulated faults; 0 disables a fault.

    ``drift_percent`` makes the speed vary by this percentage during the whole run.  ``throttle_percent`` reduces the
    speed after ``throttle_after_bytes`` were written.  After ``error_after_bytes`` were transferred, reads and writes
    fail; after ``hang_after_bytes`` they never complete.
    """

    __pydantic_config__ = _STRICT
    drift_percent: Annotated[float, Ge(0), Le(90)] = 0.0
    throttle_percent: Annotated[float, Ge(0), Le(99)] = 0.0
    throttle_after_bytes: Bytes = 0.0
    purge_keeps_data: bool = False
    error_after_bytes: Bytes = 0.0
    hang_after_bytes: Bytes = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """What the drive reports of itself: its temperature, and the bytes written by the host and on the media.

    The temperature approaches ``idle_celsius`` when the drive is idle, and ``busy_celsius`` when it programs, or
    transfers, at its maximum speed; in ``settling_seconds`` the difference falls to 1/e (37 %).
    """

    __pydantic_config__ = _STRICT
    idle_celsius: Annotated[float, Ge(0), Le(100)]
    busy_celsius: Annotated[float, Ge(0), Le(100)]
    settling_seconds: Annotated[float, Ge(1), Le(1e5)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The power of the drive: ``idle_watts``, and the energy of each I/O and of each decimal gigabyte."""

    __pydantic_config__ = _STRICT
    idle_watts: Annotated[float, Ge(0), Le(1000)]
    microjoules_per_io: Annotated[float, Ge(0), Le(1e9)]
    joules_per_read_gb: Annotated[float, Ge(0), Le(1e6)]
    joules_per_written_gb: Annotated[float, Ge(0), Le(1e6)]

    def watts(self, seconds: float, ios: int, read_bytes: float, written_bytes: float) -> float:
        """Return the mean power of a time with this I/O."""
        joules = self.microjoules_per_io * ios / 1e6
        joules += (self.joules_per_read_gb * read_bytes + self.joules_per_written_gb * written_bytes) / GB
        return self.idle_watts + joules / seconds if seconds > 0 else self.idle_watts


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A simulated drive.  ``sources`` documents its figures; ``noise_percent`` is the noise of its speed.

    A drive without ``sensors`` reports nothing of itself, and one without ``power`` has no power.
    """

    __pydantic_config__ = _STRICT
    format: Literal[1]
    sources: tuple[str, ...]
    noise_percent: Annotated[float, Ge(0), Le(20)]
    drive: Identity
    media: Media
    controller: Controller
    faults: Faults = Faults()
    sensors: Sensors | None = None
    power: Power | None = None

    def __post_init__(self) -> None:
        if self.drive.capacity_bytes < _MIN_FILL_SECONDS * self.controller.write_mb_per_second * MB:
            raise ValueError(
                f"a drive.capacity_bytes that takes at least {_MIN_FILL_SECONDS} s to fill at write_mb_per_second"
            )

    @property
    def speed(self) -> AssumedSpeed:
        """The range of the drive's speed.

        The maximum is the speed of its controller.  The minimum is the speed at which controller or medium write a
        stream, with noise and all faults, at a queue depth of a few I/Os; at a lower depth it may be slower.
        """
        media, controller, faults = self.media, self.controller, self.faults
        noise = _MAX_DEVIATIONS * self.noise_percent / 100
        programmed = media.units * media.program_kib * KIB / max(media.program_us, 1e-9)  # Bytes per µs are MB/s.
        slowdown = (faults.drift_percent + faults.throttle_percent) / 100
        share = max(_MIN_SHARE, (1 - slowdown) * (1 - noise))
        return AssumedSpeed(
            read=controller.read_mb_per_second * (1 + noise),
            write=controller.write_mb_per_second * (1 + noise),
            minimum_write=_COMBINED_SHARE
            * share
            * min(controller.read_mb_per_second, controller.write_mb_per_second, programmed),
            source="its preset",
        )


def preset_names() -> tuple[str, ...]:
    """Return the names of the included presets."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def read_preset(name: str) -> Preset:
    """Return the preset with this name or from this TOML file.

    Raises SpecError with all errors in the file, or UsageError for an unknown name.
    """
    is_included = name in preset_names()
    path = PRESETS / f"{name}.toml" if is_included else Path(name)
    if not is_included and "/" not in name and path.suffix != ".toml":
        raise UsageError(
            detail=f"Unknown simulated drive {name!r}.",
            hint=f"Valid names: {', '.join(preset_names())}; or a file such as sim:./mine.toml.",
        )
    return read_file(path, Preset)


def simulated_dut(name: str, preset: Preset) -> Dut:
    """Return the identity of a simulated drive."""
    drive = preset.drive
    return Dut(
        path=f"sim:{name}",
        kind="simulated",
        model=drive.model,
        serial=f"SIM-{Path(name).stem.upper()}"[:40],
        firmware=drive.firmware,
        bus=drive.bus,
        capacity_bytes=drive.capacity_bytes,
        logical_sector_bytes=drive.logical_sector_bytes,
        physical_sector_bytes=4096,
        rotational=drive.rotational,
        write_cache=drive.write_cache,
        discard=True,
        write_cache_source="simulated",
    )
