"""The header of every report page: banner and four blocks of facts (PTS 2.0.2 chapter 5, reporting requirements)."""

from __future__ import annotations

import datetime
import itertools
import re

from ..model.description import Name, device_value, operator_value
from ..model.dut import Dut
from ..model.steps import Stimulus, mix, mix_align_bytes
from ..results.result import Loop, Sampling, TestResult
from ..results.tracked_series import sample_times, span
from ..spec import PatternSpec, RoundsSpec, Spec
from ..units import block_size, capacity
from .checksums import report_id
from .pages import Header
from .tables import NOT_APPLICABLE, UNKNOWN, Align, Column, Kind, Table, thousands

#: Longer values are truncated in the header: about three lines, in em.  The page Provenance has them in full.
MAX_VALUE_EM = 26.0
_NARROW = frozenset("fijlrtI1 .,:;|!'()[]/-")
_WIDE = frozenset("mwMWOQG@%&")

#: Widths of the names and values of the four blocks, in percent: every name fits on one line.
_BLOCK_WIDTHS = (13, 14, 10, 15, 11, 13, 11, 13)
_HEADS = ("Test Platform", "Device Under Test", "Setup Parameters", "Test Parameters")
#: rst2pdf fills in the numbers; other formats omit the field.
PAGE_OF_TOTAL = "###Page### of ###Total###"

#: Marks for a steady state that was not achieved, and for one evaluated by other rules than the standard's.
NOT_ACHIEVED = "NOT ACHIEVED"
ALTERED = "ALTERED RULES"

#: Follows a time of a simulated drive's clock, which may lie in the future.
VIRTUAL = " (virtual)"
#: Follows a value that the operator stated and the device does not report; ``stated_note`` explains it.
_STATED_MARK, _STATED_MARK_EM = " (as stated)", 7.5

#: Buses of drives that have no PCIe link; behind all others, such as USB, a drive may have one.
_WITHOUT_PCIE = ("SATA", "SAS", "MMC")

#: Names and values of one block of facts.
Rows = tuple[tuple[str, str], ...]


def header(result: TestResult, *, setup: Rows, parameters: Rows) -> Header:
    """Return the header of a report on ``result``, with the test's own Setup Parameters and Test Parameters.

    Unknown values are an en dash, values that do not apply ``n/a``.
    """
    spec = result.facts.spec
    return Header(
        test=_row("test", ("center", 100))(f"{spec.title} Test - Report Page{simulated(result)}"),
        dates=_row("banner", *(("right", 17), ("left", 20), ("right", 17), ("left", 20), ("right", 10), ("left", 16)))(
            "Test Run Date Start:",
            date(result, result.facts.started),
            "Test Run Date Finish:",
            date(result, result.finished),
            "Report id:",
            report_id(result) or UNKNOWN,
        ),
        standard=_row(
            "standard",
            *(("center", width) for width in (11, 31, 31, 4, 10, 5, 8)),
        )(
            spec.publisher,
            spec.document,
            short(spec.subtitle, 2 * MAX_VALUE_EM),
            "Rev.",
            short(spec.revision) if spec.is_standard else NOT_APPLICABLE,
            "Page",
            PAGE_OF_TOTAL,
        ),
        names=_row("names", ("right", 8), ("left", 17), ("right", 11), ("left", 34), ("right", 10), ("left", 20))(
            "Vendor:",
            _marked(result.facts.about.vendor) or UNKNOWN,
            "SSD Model:",
            short(_dut_value(result, "model")),
            "Tested By:",
            short(result.facts.about.operator),
        ),
        heads=_row("banner", ("center", 27), ("center", 25), ("center", 24), ("center", 24))(*_HEADS),
        blocks=_blocks(_platform(result), _device(result), setup, parameters),
    )


def simulated(result: TestResult) -> str:
    """Return the title's mark for a simulated or imported result; empty for all others."""
    if result.facts.imported is not None:
        return f" - IMPORTED FROM {short(result.facts.imported.label)}"
    return " - SIMULATED, NO DRIVE WAS TESTED" if result.facts.dut.simulated else ""


def user_capacity(dut: Dut, *, exact: bool = False) -> str:
    """Return the device's capacity; empty if it does not report one."""
    suffix = f" ({thousands(dut.capacity_bytes, 0)} bytes)" if exact else ""
    return f"{capacity(dut.capacity_bytes)}{suffix}" if dut.capacity_bytes else ""


def date(result: TestResult, text: str) -> str:
    """Return a time of a run in readable form, marked if it is that of a simulated drive's clock."""
    return f"{when(text)}{VIRTUAL * result.facts.dut.simulated}"


def when(text: str) -> str:
    """Return an ISO 8601 time in readable form; return any other text, or a date alone, unchanged."""
    if len(text) == len("2026-11-20"):
        return text
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return short(text)
    zone = f" UTC{moment:%z}".replace("+0000", "") if moment.tzinfo else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{zone}"


def short(text: str, max_em: float = MAX_VALUE_EM) -> str:
    """Return a value truncated to its space in the header."""
    shown = " ".join(text.split())
    ends = list(itertools.accumulate(map(width_em, shown)))
    if not ends or ends[-1] <= max_em:
        return shown or UNKNOWN
    length = sum(end <= max_em - 1 for end in ends)
    return f"{shown[:length]}\N{HORIZONTAL ELLIPSIS}"


def width_em(character: str) -> float:
    """Return the approximate width of a character in a sans serif face; non-ASCII characters count as wide."""
    if character in _NARROW:
        return 0.4
    return 1.0 if character in _WIDE or not character.isascii() else 0.63


def window_rounds(result: TestResult, part: Loop | Sampling | None) -> str:
    """Return the rounds of a window: ``5 - 9``, ``21 - 25, NOT ACHIEVED``, of samples ``1 - 5 (minutes 1 - 121)``."""
    window = part.window if part else None
    if window is None:
        return "none (INCOMPLETE)" if result.ending != "finished" else f"none ({NOT_ACHIEVED})"
    return span(window.numbers, sample_times(part)) + ("" if window.steady else f", {NOT_ACHIEVED}")


def loop_rounds(result: TestResult, parts: tuple[str, ...] = ("",)) -> str:
    """Return the measurement windows of a test's loops, in the order of ``parts``: ``5 - 9 / 21 - 25, NOT ACHIEVED``.

    If all are the same, the text appears once.
    """
    shown = [window_rounds(result, result.loop(part)) for part in parts]
    return " / ".join(shown if len(set(shown)) > 1 else shown[:1])


def demand(thread_count: int, queue_depth: int) -> str:
    """Return the demand as the header shows it: ``128 (TC 4/QD 32)``."""
    return f"{thread_count * queue_depth} (TC {thread_count}/QD {queue_depth})"


def _row(kind: Kind, *columns: tuple[Align, int]) -> _Row:
    return _Row(kind, tuple(Column(align=align, width=width) for align, width in columns))


class _Row:
    """A table of one row, called with its cells."""

    def __init__(self, kind: Kind, columns: tuple[Column, ...]) -> None:
        self.kind: Kind = kind
        self.columns = columns

    def __call__(self, *cells: str) -> Table:
        return Table(kind=self.kind, columns=self.columns, rows=(cells,), headed=False)


def _blocks(*blocks: Rows) -> Table:
    rows = tuple(
        tuple(cell for name, value in line for cell in (name, short(value) if name else ""))
        for line in itertools.zip_longest(*blocks, fillvalue=("", ""))
    )
    columns = tuple(Column(width=width, align="left") for width in _BLOCK_WIDTHS)
    return Table(kind="blocks", columns=columns, rows=rows, headed=False)


def _platform(result: TestResult) -> Rows:
    platform = result.facts.platform
    imported = result.facts.imported
    version = imported.version if imported else platform.suite_version
    cpus = f" ({platform.cpus} CPUs)" if platform.cpus else ""
    return (
        ("Ref Test Platform", f"{platform.hostname}{' (until resumed: see warnings)' * _host_changed(result)}"),
        ("Motherboard", platform.motherboard),
        ("CPU", f"{platform.cpu}{cpus}"),
        ("Memory", capacity(platform.memory_bytes) if platform.memory_bytes else ""),
        ("Operating System", platform.operating_system),
        ("Test SW", f"{imported.tool if imported else 'snia-pts'}, {platform.engine}"),
        ("Test SW ver", ", ".join(dict.fromkeys((version, platform.engine_version)))),
        ("Test S/N", result.facts.run_id),
        ("HBA", _marked(result.facts.about.hba)),
        ("PCIe", ""),
    )


def _dut_value(result: TestResult, name: Name) -> str:
    """Return the device's value, else the operator's, truncated so that the mark has space."""
    return device_value(result.facts.dut, name) or _marked(operator_value(result.facts.about, name))


def _marked(stated: str) -> str:
    return f"{short(stated, MAX_VALUE_EM - _STATED_MARK_EM)}{_STATED_MARK}" if stated else ""


def stated_note(result: TestResult) -> str:
    """Return a sentence that explains the mark of values which the operator stated; empty if the header has none."""
    values = [value for _, value in (*_platform(result), *_device(result))]
    marked = any(value.endswith(_STATED_MARK) for value in values)
    return f"{_STATED_MARK.strip()}: stated by the operator, not read by this suite." if marked else ""


def _host_changed(result: TestResult) -> bool:
    """Return whether a resumed run continued on a different host, or with changes to it."""
    changes = (change for stop in result.interruptions for change in stop.changes)
    return any(" of the drive" not in change for change in changes)


def _device(result: TestResult) -> Rows:
    dut, settings = result.facts.dut, result.facts.platform.settings
    purges = "; ".join(dict.fromkeys(purge.label.partition(" (proven on ")[0] for _, purge in result.purges))
    cache = {"enabled": "enabled (WCE)", "disabled": "disabled (WCD)"}.get(dut.write_cache, dut.write_cache)
    source = "" if dut.simulated else f", {dut.write_cache_source.partition(';')[0]}"
    return (
        ("Mfgr", _marked(result.facts.about.vendor)),
        ("Model No.", _dut_value(result, "model")),
        ("S/N", _dut_value(result, "serial")),
        ("Firmware ver", _dut_value(result, "firmware")),
        ("Capacity", user_capacity(dut) or _marked(result.facts.about.capacity)),
        ("Interface", dut.bus),
        ("NAND Type", _marked(result.facts.about.nand_type)),
        (
            "PCIe/NVMe",
            next((setting.value for setting in settings if setting.name == "PCIe link"), _link_in(dut.bus)),
        ),
        (
            "Purge Method",
            purges or none_or_not_reported(result),
        ),
        ("Write Cache", f"{cache}{source}"),
    )


def _link_in(bus: str) -> str:
    """Return the PCIe link that the interface of a simulated drive states; n/a for a bus without one, else empty."""
    match = re.search(r"PCIe \S+ x\d+", bus)
    if match:
        return match[0]
    return NOT_APPLICABLE if bus.startswith(_WITHOUT_PCIE) else ""


def pattern(spec: Spec) -> str:
    """Return the data pattern's short name: ``RND``."""
    return {"random": "RND"}.get(spec.setup.data_pattern, spec.setup.data_pattern)


def range_and_amount(result: TestResult) -> str:
    """Return the ActiveRange with its size: ``75 %, 720.1 GB``."""
    share = result.facts.spec.setup.active_range_percent
    amount = result.facts.dut.capacity_bytes * share / 100
    return f"{share} %, {capacity(amount) if amount else UNKNOWN}"


def chart_conditions(result: TestResult) -> str:
    """Return the conditions that the caption of a chart names: ``PTS-E 2.0.2, WCD, AR 100 %``."""
    spec = result.facts.spec
    return f"{spec.revision}, {write_cache(result)}, AR {spec.setup.active_range_percent} %"


def write_cache(result: TestResult) -> str:
    """Return the setting of the write cache in the standard's letters: WCE or WCD."""
    settings = {"enabled": "WCE", "disabled": "WCD", "none": "no write cache"}
    return settings.get(result.facts.dut.write_cache, "write cache unknown")


def none_or_not_reported(result: TestResult) -> str:
    """Return the text for a step without an entry: ``none``, or ``not reported`` if another tool made the run."""
    return "not reported" if result.facts.imported else "none"


def notes(result: TestResult) -> str:
    """Return the last line of the setup block: the number of deviations."""
    count = len(result.deviations)
    return f"NOT conformant: {count} deviation{'s' * (count != 1)}" if count else "no deviation"


def conditioned_amount(result: TestResult, spec: RoundsSpec, parts: int = 1) -> str:
    """Return how much WIPC writes: ``2 x user capacity``; NOT FINISHED if it is missing for any of the parts."""
    if result.facts.imported:
        return none_or_not_reported(result)
    finished = sum(bool(line.measurements) for line in result.lines("WIPC"))
    return f"{spec.preconditioning.capacities} x user capacity" if finished >= parts else "NOT FINISHED"


def alignment(stimulus: Stimulus) -> Rows:
    """Return the row on the alignment of a mix of block sizes; none if every I/O has the same size."""
    if not stimulus.block_shares:
        return ()
    return (
        (
            "Alignment",
            f"every I/O of the mix starts at a multiple of {block_size(mix_align_bytes(stimulus.block_shares))} (a "
            "choice of this suite)",
        ),
    )


def pattern_sizes(spec: PatternSpec) -> str:
    """Return the block sizes of a test's pattern: ``4 KiB``, or of a mix ``0.5 - 64 KiB mix``."""
    sizes = [size.kib for size in spec.pattern.block_sizes]
    return f"{sizes[0]:g} KiB" if len(sizes) == 1 else f"{min(sizes):g} - {max(sizes):g} KiB mix"


def pattern_stimulus(spec: PatternSpec) -> str:
    """Return a test's pattern, named like its stimulus: ``RND 4 KiB 0/100``."""
    return f"{spec.pattern.access} {pattern_sizes(spec)} {mix(spec.pattern.read_percent)}"


def segments(result: TestResult) -> str:
    """Return the number of segments of the ActiveRange: it is always one range of addresses."""
    return "not reported" if result.facts.imported else "1"


def preconditions(
    result: TestResult,
    *,
    first: tuple[str, str, str] = ("none", NOT_APPLICABLE, NOT_APPLICABLE),
    second: tuple[str, str] = ("none", NOT_APPLICABLE),
    rounds: str = NOT_APPLICABLE,
) -> Rows:
    """Return the Setup Parameters of a test with these two preconditions, none by default.

    Each is its stimulus and demand, ``first`` also its duration; ``rounds`` are those of steady state.
    """
    setup = result.facts.spec.setup
    return (
        ("Data Pattern", pattern(result.facts.spec)),
        ("AR", f"{setup.active_range_percent} %"),
        ("AR Segments", segments(result)),
        ("Pre Condition 1", first[0]),
        ("TOIO - TC/QD", first[1]),
        ("Duration", first[2]),
        ("Pre Condition 2", second[0]),
        ("TOIO - TC/QD", second[1]),
        ("SS Rounds", rounds),
        ("Notes", notes(result)),
    )


def loop_setup(result: TestResult, spec: RoundsSpec, sizes: str, parts: tuple[str, ...] = ("",)) -> Rows:
    """Return the Setup Parameters of a test that preconditions with SEQ writes of ``sizes`` and loops until steady."""
    amount, wipc = conditioned_amount(result, spec, len(parts)), spec.wipc_demand
    return preconditions(
        result,
        first=(f"SEQ {sizes} W", demand(wipc.thread_count, wipc.queue_depth), amount),
        second=(f"{spec.title} Loop", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        rounds=loop_rounds(result, parts),
    )


def loop_parameters(
    result: TestResult, spec: RoundsSpec, *, second: tuple[str, str] = (NOT_APPLICABLE, NOT_APPLICABLE)
) -> Rows:
    """Return the Test Parameters of a test that loops over R/W mixes and block sizes; ``second`` follows the loop."""
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", range_and_amount(result)),
        ("Test Stimulus 1", f"{spec.title} Loop"),
        ("RW Mix", "Outer Loop"),
        ("Block Sizes", "Inner Loop"),
        ("TOIO - TC/QD", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        ("Steady State", loop_rounds(result)),
        ("Test Stimulus 2", second[0]),
        ("TOIO - TC/QD", second[1]),
        ("Steady State", NOT_APPLICABLE),
    )
