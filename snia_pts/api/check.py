"""Checks a target without a run: reads all that a run would read before its start.  Writes nothing to the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..errors import SniaPtsError
from ..lab.device.health import read_health
from ..lab.device.identity import read_dut
from ..lab.device.refusals import require_writable
from ..lab.device.usage import read_usage
from ..lab.fio.probe import choose_io_engine, fio_version, io_engines
from ..lab.host.platform import read_platform
from ..lab.purge import available_methods
from ..model.dut import Dut
from ..model.health import Health, HealthValue, alarms
from ..model.run_options import RunOptions
from ..model.test_platform import HostSetting, TestPlatform
from ..runner.caller import Caller
from ..runner.setup import TestEstimate, estimate_test, preflight, require_measurable, specification_for, target_for
from ..runner.target import TargetSetup
from ..spec.reader import Specification
from ..temporary import temporary_folder
from ..units import capacity, duration
from .hosts import host

Part = Literal["target", "purge", "test", "health", "host", "settings"]
Verdict = Literal["ok", "warning", "refused", "not read"]
_UNCHECKED_HINT = "Run it as root outside of containers, or make sure that nothing else uses the target."
_NO_COMMANDS = "a target that is refused gets no commands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Something that a run reads before its start, with a verdict: ``refused`` if it is a reason not to start.

    ``remedy`` says what to do, empty if nothing need be done.  ``exit_code`` is that of the refused run, 0 for other
    verdicts.
    """

    part: Part
    name: str
    verdict: Verdict
    value: str
    remedy: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCheck:
    """The readings of a target and its host; ``refusal`` is the error of a run on it, None if the run would start.

    ``health`` has the log of the drive, or those of the members of an array.
    """

    test: str
    dut: Dut
    platform: TestPlatform
    readings: tuple[Reading, ...]
    refusal: SniaPtsError | None
    health: tuple[Health, ...]

    def __repr__(self) -> str:
        verdict = f"refused: {self.refusal}" if self.refusal else "a run would start"
        return f"TargetCheck({self.dut.path}: {verdict}; {len(self.readings)} readings)"


def check(options: RunOptions) -> TargetCheck:
    """Read all that a run with these options reads before its start, and judge it; write nothing to the target.

    Raises an error if the target does not exist or is neither a drive nor a file, or if options are invalid.
    """
    specification = specification_for(options)
    return _Check(options, specification, target_for(options, specification.spec, Caller().tell)).result()


@dataclass(frozen=True, slots=True, kw_only=True)
class FioIdentity:
    """The fio of this host; empty texts for what is not known."""

    name: str = "fio"
    version: str = ""
    io_engine: str = ""


class _Check:
    """Collects the readings of a target, and the first refusal."""

    def __init__(self, options: RunOptions, specification: Specification, target: TargetSetup) -> None:
        self._options, self._specification, self._target = options, specification, target
        self._dut = target.dut(specification.spec)
        self._readings: list[Reading] = []
        self._health: list[Health] = []
        self._refusal: SniaPtsError | None = None

    def result(self) -> TargetCheck:
        """Make all readings; a drive that is refused gets no command."""
        dut, spec = self._dut, self._specification.spec
        for name, value in _identity(dut):
            self._add("target", name, value)
        link = self._target.speed(spec)
        self._add("target", "link", f"{link.source}, {link.span}" if link.source else link.span)
        tools = self._accepted("host", "programs", self._target.require_tools, "all that a run needs are installed")
        free = self._accepted("target", "use and content", self._require_usable, "not in use, and free for a test")
        for line in () if dut.simulated else read_usage().unchecked:
            self._add("target", "not checked", line, "warning", _UNCHECKED_HINT)
        drives = () if dut.simulated else tuple(_drives(dut))
        if free:
            for drive in drives:
                self._read_drive(drive)
            if tools:
                self._accepted("test", "plan", self._add_estimate)
        else:
            self._add("purge", "methods", _NO_COMMANDS, "not read")
            self._add("health", "log of the drive", _NO_COMMANDS, "not read")
        engine = self._engine(readable=tools and free and not dut.simulated)
        platform = read_platform(engine)
        for name, value in _host_facts(platform):
            self._add("host", name, value)
        for program, newest in platform.untested_versions():
            detail = f"{program} is newer than {newest}, the newest that was tested"
            self._add("host", "version", detail, "warning", "Compare its results only with those of the same version.")
        for setting in _settings(drives, dut):
            self._add_setting(setting)
        return TargetCheck(
            test=spec.test,
            dut=dut,
            platform=platform,
            readings=tuple(self._readings),
            refusal=self._refusal,
            health=tuple(self._health),
        )

    def _add(self, part: Part, name: str, value: str, verdict: Verdict = "ok", remedy: str = "") -> None:
        self._readings.append(Reading(part=part, name=name, verdict=verdict, value=value, remedy=remedy))

    def _accepted(self, part: Part, name: str, require: Callable[[], None], value: str = "") -> bool:
        """Return whether ``require`` succeeds; add its refusal, or ``value`` if given, as a reading."""
        try:
            require()
        except SniaPtsError as error:
            self._refusal = self._refusal or error
            reason = str(getattr(error, "reason", error))
            self._readings.append(
                Reading(
                    part=part,
                    name=name,
                    verdict="refused",
                    value=reason,
                    remedy=error.full_hint,
                    exit_code=error.exit_code,
                )
            )
            return False
        if value:
            self._add(part, name, value)
        return True

    def _require_usable(self) -> None:
        preflight(self._options, self._specification.spec, self._target)
        path = Path(self._dut.path)
        if path.is_block_device():
            require_writable(path)

    def _add_estimate(self) -> None:
        planned = estimate_test(self._specification, self._target, self._options)
        require_measurable(self._options, [(self._specification, planned.dut)], Caller().tell)
        self._add("test", "plan", _plan(planned))
        for deviation in planned.deviations:
            part: Part = "purge" if deviation.what == "purge" else "test"
            self._add(
                part, f"deviation: {deviation.what}", deviation.actual, "warning", f"Standard: {deviation.standard}."
            )
        for warning in planned.warnings:
            if not warning.what.startswith("host: "):  # the settings below have it
                self._add("test", warning.what, warning.detail, "warning")

    def _engine(self, *, readable: bool) -> FioIdentity:
        """Return fio's version, and the I/O engine with which it reads the target; add the readings."""
        if not readable:
            return FioIdentity()
        dut, engine = self._dut, FioIdentity()

        def read() -> None:
            nonlocal engine
            with temporary_folder() as evidence:
                engine = FioIdentity(version=fio_version(evidence))
                if dut.array is not None or not Path(dut.path).exists():  # the run creates it
                    return
                engines = io_engines(self._options.engine)
                usable = choose_io_engine(dut.path, dut.logical_sector_bytes, evidence, engines, engine.version)
                engine = FioIdentity(version=engine.version, io_engine=usable)

        if self._accepted("host", "fio", read):
            self._add("host", "fio", f"{engine.version}, {engine.io_engine or 'target not created yet'}")
        return engine

    def _read_drive(self, drive: Dut) -> None:
        prefix = _prefix(drive, self._dut)
        methods = ", ".join(available_methods(drive))
        self._add("purge", f"{prefix}methods", methods or "none", "ok" if methods else "warning")
        with temporary_folder() as evidence:
            health = read_health(drive, evidence)
        if health is None:
            return
        self._health.append(health)
        for figure in health.figures:
            self._add("health", f"{prefix}{figure.name}", _figure_text(figure))
        for text in health.texts:
            self._add("health", f"{prefix}{text.name}", text.text)
        for name, detail in alarms(None, health):
            self._add("health", f"{prefix}{name}", detail, "warning", "Ask the vendor before you test it.")
        for reason in health.unread:
            self._add("health", f"{prefix}log of the drive", reason, "not read")

    def _add_setting(self, setting: HostSetting) -> None:
        verdicts: dict[str, Verdict] = {"affects results": "warning", "unknown": "not read"}
        verdict = verdicts.get(setting.judgement, "ok")
        remedy = (
            f"Recommended: {setting.recommended}; {setting.reason}." if setting.recommended else f"{setting.reason}."
        )
        self._add("settings", setting.name, setting.value, verdict, remedy if verdict == "warning" else "")


def _drives(dut: Dut) -> Iterator[Dut]:
    """Yield the target, or the members of an array whose paths the kernel knows; none for a file not created yet."""
    paths = [member.path for member in dut.array.members] if dut.array else [dut.path]
    for path in map(Path, paths):
        if path.is_block_device() or path.is_file():
            yield read_dut(path)


def _prefix(drive: Dut, dut: Dut) -> str:
    """Return the start of the names of a drive's readings: its path if it is a member of an array."""
    return f"{drive.path}: " if dut.array else ""


def _identity(dut: Dut) -> Iterator[tuple[str, str]]:
    yield "path", dut.path
    yield "model", dut.model or "not reported"
    yield "serial number", dut.serial or f"not reported; a run is confirmed by the name {dut.name}"
    yield "firmware", dut.firmware or "not reported"
    yield "connection", dut.bus
    yield "capacity", capacity(dut.capacity_bytes)
    yield "sectors", f"{dut.logical_sector_bytes} B logical, {dut.physical_sector_bytes} B physical"
    yield "write cache", f"{dut.write_cache}, {dut.write_cache_source}"
    yield "discard", {True: "supported", False: "not supported", None: "not reported"}[dut.discard]


def _plan(planned: TestEstimate) -> str:
    shortest, longest = planned.plan.shortest, planned.plan.longest
    times = f"{duration(shortest.seconds)} to {duration(longest.seconds)}"
    return f"{planned.spec.title} test: {times}, at most {capacity(longest.written_bytes)} written"


def _host_facts(platform: TestPlatform) -> Iterator[tuple[str, str]]:
    yield "host", platform.hostname
    yield "motherboard", platform.motherboard or "not reported"
    yield "CPU", f"{platform.cpu or 'not reported'}, {platform.cpus} usable"
    yield "memory", capacity(platform.memory_bytes) if platform.memory_bytes else "not reported"
    yield "operating system", f"{platform.operating_system or 'not reported'}, kernel {platform.kernel}"
    yield "software", f"snia-pts {platform.suite_version}, Python {platform.python}"


def _figure_text(figure: HealthValue) -> str:
    return capacity(figure.value) if figure.unit == "bytes" else f"{figure.value:.15g} {figure.unit}".rstrip()


def _settings(drives: Sequence[Dut], dut: Dut) -> Iterator[HostSetting]:
    """Yield the settings of the host, and those of the I/O path to each drive; a simulated drive has none."""
    if dut.simulated:
        return
    common = host()
    yield from common
    names = {setting.name for setting in common}
    for drive in drives:
        for setting in host(drive.path):
            if setting.name not in names:
                yield replace(setting, name=f"{_prefix(drive, dut)}{setting.name}")
