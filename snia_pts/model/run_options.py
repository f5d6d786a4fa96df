"""The options of a run: one value that the command line, a program or a stored run can provide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from .. import registries
from ..errors import UsageError
from ..spec import TestClass
from ..spec.limits import Limit
from .annotations import Annotations

#: The prefixes of targets that are not paths.
SIMULATED, ARRAY = "sim:", "array:"
#: The purge method of a run with a purge command; the command itself is not stored.
COMMAND = "command"
#: The command line options by field.
_OPTIONS = {
    "specification": "--spec",
    "test_class": "--class",
    "pts": "--pts",
    "size_bytes": "--size",
    "overwrite": "--overwrite",
    "discard_data": "--discard-data",
    "serial": "--serial",
    "member_run": "--member-run",
    "purge": "--purge",
    "purge_command": "--purge-command",
    "allow_unpurged": "--allow-unpurged",
    "keep_write_cache": "--keep-write-cache",
    "engine": "--engine",
    "tune": "--tune",
    "refill_buffers": "--refill-buffers",
    "stall_seconds": "--stall-seconds",
    "power_command": "--power-command",
    "seed": "--seed",
    "assumed_mb_per_second": "--assume",
}
_STANDARD_TEST_OPTIONS = ("specification", "test_class", "pts")
#: The upper bounds of these options.
MAX_STALL_SECONDS, SEED_LIMIT = 86_400.0, 1 << 63


def texts(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return texts as a tuple; a single text is one of them."""
    return (value,) if isinstance(value, str) else tuple(value)


#: The functions that convert the values of these fields to the declared types.
_CONVERTED: Mapping[str, Callable[[Any], object]] = {
    "target": str,
    "run_folder": Path,
    "member_run": Path,
    "overrides": texts,
    "formats": texts,
    "limits": tuple,
    "plugins": texts,
}
#: Options that a simulated target refuses.
_REAL_TARGET_OPTIONS = (
    "size_bytes",
    "overwrite",
    "discard_data",
    "serial",
    "purge",
    "purge_command",
    "allow_unpurged",
    "engine",
    "refill_buffers",
    "stall_seconds",
    "power_command",
    "keep_write_cache",
    "tune",
)
#: Options that let a run destroy data or start a program: the operator must give them for each run.
_NEVER_STORED = ("serial", "overwrite", "discard_data", "purge_command", "power_command")
#: Options whose effect is stored elsewhere in a run folder.
_STORED_ELSEWHERE = ("limits", "limits_source", "about", "seed", "member_run", "run_folder", "plugins")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """All options of a run of one test.  Raises UsageError for contradictory values.

    ``test`` is a test of the standard (``iops``, ``throughput``, ``latency``, ``wsat``, ``hir``, ``xsr``,
    ``composite``, ``dirth``), or another test (``registries.SPECS``), such as ``profile``.  ``target`` is the path of a
    drive or file, ``sim:PRESET`` or ``array:FILE``; for a test that creates its file, also a directory.
    ``specification`` is the path of the operator's specification file; for another test, what its reader expects, such
    as the name of a profile.  ``overrides`` are ``KEY=VALUE`` of the specification.

    ``size_bytes`` is the size of a file to create.  ``overwrite`` allows a file that snia-pts did not create,
    ``discard_data`` a drive with unused file systems or partitions.  ``serial`` confirms the drive.  ``member_run`` is
    the folder of an IOPS run of one member of an array, used for predictions.

    ``purge`` is ``auto``, ``none`` or a method of docs/purge.rst; ``purge_command`` is a vendor's command instead.
    ``stall_seconds`` is the maximum time without a completed I/O.  ``power_command`` is a program that prints the
    readings of a power meter (docs/telemetry.rst).  ``seed`` is the seed of the random offsets, below
    2^63; None draws one.  ``formats`` are the formats of the report; None means the default ones.  ``limits_source``
    names the limits in messages.  ``assumed_mb_per_second`` is for estimates.  ``run_folder`` is the path of the run
    folder; None creates one in ``runs``.  ``plugins`` are the plugins to load: modules, or paths of ``.py`` files.
    """

    test: str
    target: str
    specification: str | None = None
    test_class: TestClass = "enterprise"
    pts: str = "2.0.2"
    overrides: tuple[str, ...] = ()
    size_bytes: int | None = None
    overwrite: bool = False
    discard_data: bool = False
    serial: str | None = None
    member_run: Path | None = None
    purge: str = "auto"
    purge_command: str | None = None
    allow_unpurged: bool = False
    keep_write_cache: bool = False
    engine: Literal["auto", "io_uring", "libaio"] = "auto"
    tune: bool = False
    refill_buffers: bool = False
    stall_seconds: float = 120.0
    power_command: str | None = None
    seed: int | None = None
    limits: tuple[Limit, ...] = ()
    limits_source: str = "limits"
    about: Annotations = field(default_factory=Annotations)
    formats: tuple[str, ...] | None = None
    assumed_mb_per_second: float | None = None
    run_folder: Path | None = None
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, convert in _CONVERTED.items():  # a caller may pass a text for a path, or a list for a tuple
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, convert(value))
        if not 1 <= self.stall_seconds <= MAX_STALL_SECONDS:
            detail = f"--stall-seconds: expected 1 to {MAX_STALL_SECONDS:.0f} seconds, got {self.stall_seconds:g}."
            raise UsageError(detail=detail, hint="Omit it for the default of 120.")
        if self.seed is not None and not 0 <= self.seed < SEED_LIMIT:
            raise UsageError(
                detail=f"--seed {self.seed}: not a whole number below 2^63.", hint="For example --seed 4711."
            )
        if self.purge_command is not None and self.purge not in ("auto", COMMAND):
            raise UsageError(detail="--purge-command: not allowed with --purge.", hint="Give one of them.")
        self._require_options_of_target()

    def _require_options_of_target(self) -> None:
        """Raise UsageError for an option that does not apply to targets of this kind."""
        if not self.target:
            raise UsageError(detail="TARGET: the name is empty.", hint="Name a drive, a file or sim:PRESET.")
        if self.target.startswith(SIMULATED):
            defaults = {option.name: option.default for option in fields(self)}
            for name in _REAL_TARGET_OPTIONS:
                if getattr(self, name) != defaults[name]:
                    detail = f"{_OPTIONS[name]} is for real targets; {self.target} is simulated."
                    raise UsageError(detail=detail, hint=self.size_hint if name == "size_bytes" else "Omit it.")
        if self.target.startswith(ARRAY):
            for name in ("size_bytes", "overwrite"):
                if getattr(self, name):
                    detail = f"{_OPTIONS[name]} is for files; an array consists of drives."
                    raise UsageError(detail=detail, hint=self.size_hint if name == "size_bytes" else "Omit it.")
        elif self.member_run is not None:
            raise UsageError(detail="--member-run is for arrays.", hint="Omit it, or name an array: array:FILE.")

    @property
    def size_hint(self) -> str:
        """What to do with ``size_bytes`` for a target that has a size of its own."""
        return "Omit it, or limit what the profile accesses with --range." if self.test == "profile" else "Omit it."

    @property
    def path(self) -> Path:
        """The target as a path."""
        return Path(self.target)

    @property
    def purge_method(self) -> str:
        """The purge method; ``command`` if a command was given."""
        return self.purge if self.purge_command is None else COMMAND

    def stored(self) -> RunOptions:
        """Return the options to store in a run folder: none that lets a later run destroy data or start a program."""
        defaults = RunOptions(test=self.test, target=self.target)
        reset = {name: getattr(defaults, name) for name in (*_NEVER_STORED, *_STORED_ELSEWHERE)}
        return replace(self, **reset, purge=self.purge_method)

    def command(self) -> tuple[str, ...]:
        """Return a command line for the same run, without its folder, limits and annotations."""
        standard = self.test not in registries.COMMAND_WORDS
        words_of = _standard_words if standard else registries.load(registries.COMMAND_WORDS, self.test)
        verb, overrides = words_of(self)
        words = ["snia-pts", *verb, self.target]
        defaults = {option.name: option.default for option in fields(self)}
        for name, option in _OPTIONS.items():
            value = getattr(self, name)
            if (name, value) == ("purge", COMMAND):  # A stored run does not contain the command.
                words += [] if self.purge_command else ["--purge-command", "..."]
            elif value != defaults[name] and (standard or name not in _STANDARD_TEST_OPTIONS):
                words += [option] if value is True else [option, str(value)]
        words += (word for plugin in self.plugins for word in ("--plugin", plugin))
        words += overrides
        if self.formats is not None:
            words += ["--to", ",".join(self.formats) or "none"]
        return tuple(words)


def _standard_words(options: RunOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a test of the standard before the target, and those of the overrides."""
    return (options.test,), tuple(word for override in options.overrides for word in ("--set", override))
