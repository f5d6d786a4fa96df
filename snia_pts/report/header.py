"""The header of every report page: banner and four blocks of facts (PTS 2.0.2 chapter 5, reporting requirements)."""

from __future__ import annotations

import datetime
import itertools

from ..result import TestResult
from ..spec import IopsSpec
from ..units import KIB, capacity
from .pages import Header
from .tables import NOT_APPLICABLE, UNKNOWN, Align, Column, Kind, Table

#: Longer values are cut in the header, and stand in full on the page Provenance: about three lines, in em.
LONGEST_EM = 27.0
_NARROW = frozenset("fijlrtI1 .,:;|!'()[]/-")
_WIDE = frozenset("mwMWOQG@%&")

_HEADS = ("Test Platform", "Device Under Test", "Setup Parameters", "Test Parameters")
#: rst2pdf puts the numbers in; other outputs leave the field out.
PAGE_OF_TOTAL = "###Page### of ###Total###"


def header(result: TestResult) -> Header:
    """Return the header of a report on ``result``; what nobody knows is an en dash, what has no meaning ``n/a``."""
    spec = result.facts.spec
    return Header(
        test=_row("test", ("center", 100))(f"{spec.title} Test - Report Page"),
        dates=_row("banner", ("right", 22), ("left", 28), ("right", 22), ("left", 28))(
            "Test Run Date Start:", when(result.facts.started), "Test Run Date Finish:", when(result.finished)
        ),
        standard=_row(
            "standard", ("center", 12), ("center", 23), ("center", 33), ("center", 6), ("center", 12),
            ("center", 6), ("center", 8),
        )("SNIA SSS TWG", "Solid State Storage Performance Test Spec", short(spec.subtitle),
          "Rev.", short(spec.revision), "Page", PAGE_OF_TOTAL),
        names=_row("names", ("right", 8), ("left", 17), ("right", 11), ("left", 34), ("right", 10), ("left", 20))(
            "Vendor:", UNKNOWN, "SSD Model:", short(result.facts.dut.model), "Tested By:",
            short(result.facts.operator),
        ),
        heads=_row("banner", ("center", 26), ("center", 25), ("center", 25), ("center", 24))(*_HEADS),
        blocks=_blocks(result),
    )  # fmt: skip


def when(text: str) -> str:
    """Return an ISO 8601 time as people read it; any other text as it is."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text or UNKNOWN
    zone = f" UTC{moment:%z}".replace("+0000", "") if moment.tzinfo else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{zone}"


def short(text: str) -> str:
    """Return a value cut to the room it has in the header."""
    shown = " ".join(text.split())
    ends = list(itertools.accumulate(map(width_em, shown)))
    if not ends or ends[-1] <= LONGEST_EM:
        return shown or UNKNOWN
    kept = sum(end <= LONGEST_EM - 1 for end in ends)
    return f"{shown[:kept]}\N{HORIZONTAL ELLIPSIS}"


def width_em(sign: str) -> float:
    """Return about how wide a letter is, for a sans serif face; what is not ASCII is taken for a wide one."""
    if sign in _NARROW:
        return 0.4
    return 1.0 if sign in _WIDE or not sign.isascii() else 0.63


def steady_rounds(result: TestResult) -> str:
    """Return the rounds of the measurement window as the header shows them: ``5 - 9``, ``21 - 25 (NOT ACHIEVED)``."""
    if result.window is None:
        return "none (INCOMPLETE)" if result.ending != "finished" else "none (NOT ACHIEVED)"
    rounds = f"{result.window.numbers[0]} - {result.window.numbers[-1]}"
    return rounds if result.steady else f"{rounds} (NOT ACHIEVED)"


def demand(thread_count: int, queue_depth: int) -> str:
    """Return the demand as the header shows it: ``128 (TC 4/QD 32)``."""
    return f"{thread_count * queue_depth} (TC {thread_count}/QD {queue_depth})"


def _row(kind: Kind, *columns: tuple[Align, int]) -> _Row:
    return _Row(kind, tuple(Column(align=align, width=width) for align, width in columns))


class _Row:
    """A table of one row, to be filled."""

    def __init__(self, kind: Kind, columns: tuple[Column, ...]) -> None:
        self.kind: Kind = kind
        self.columns = columns

    def __call__(self, *cells: str) -> Table:
        return Table(kind=self.kind, columns=self.columns, rows=(cells,), headed=False)


def _blocks(result: TestResult) -> Table:
    blocks = (_platform(result), _device(result), _setup(result), _parameters(result))
    rows = tuple(
        tuple(cell for name, value in line for cell in (name, short(value) if name else ""))
        for line in itertools.zip_longest(*blocks, fillvalue=("", ""))
    )
    columns = tuple(Column(width=width, align="left") for width in (12, 14, 10, 15, 12, 13, 11, 13))
    return Table(kind="blocks", columns=columns, rows=rows, headed=False)


def _platform(result: TestResult) -> tuple[tuple[str, str], ...]:
    platform = result.facts.platform
    cpus = f" ({platform.cpus} CPUs)" if platform.cpus else ""
    return (
        ("Ref Test Platform", platform.hostname),
        ("Motherboard", platform.motherboard),
        ("CPU", f"{platform.cpu}{cpus}"),
        ("Memory", capacity(platform.memory_bytes) if platform.memory_bytes else ""),
        ("Operating System", platform.operating_system),
        ("Test SW", f"snia-pts, {platform.engine}"),
        ("Test SW ver", f"{platform.suite_version}, {platform.engine_version}"),
        ("Test S/N", result.facts.run_id),
        ("HBA", ""),
        ("PCIe", ""),
    )


def _device(result: TestResult) -> tuple[tuple[str, str], ...]:
    dut = result.facts.dut
    cache = {"enabled": "enabled (WCE)", "disabled": "disabled (WCD)"}.get(dut.write_cache, "unknown")
    return (
        ("Mfgr", ""),
        ("Model No.", dut.model),
        ("S/N", dut.serial),
        ("Firmware ver", dut.firmware),
        ("Capacity", capacity(dut.capacity_bytes)),
        ("Interface", dut.bus),
        ("NAND Type", ""),
        ("PCIe/NVMe", ""),
        ("Purge Method", result.purged.label if result.purged else "none"),
        ("Write Cache", cache),
    )


def _setup(result: TestResult) -> tuple[tuple[str, str], ...]:
    spec, conditioning = result.facts.spec, result.facts.spec.preconditioning
    count = len(result.deviations)
    share = conditioning.active_range_percent
    amount = "user capacity" if share == 100 else f"AR {share} %"
    return (
        ("Data Pattern", pattern(spec)),
        ("AR", f"{spec.setup.active_range_percent} %"),
        ("AR Segments", NOT_APPLICABLE),
        ("Pre Condition 1", f"SEQ {conditioning.block_size_bytes / KIB:g} KiB W"),
        ("TOIO - TC/QD", demand(conditioning.thread_count, conditioning.queue_depth)),
        ("Duration", f"{conditioning.capacities} x {amount}" if result.preconditioned else "NOT FINISHED"),
        ("Pre Condition 2", f"{spec.title} Loop"),
        ("TOIO - TC/QD", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        ("SS Rounds", steady_rounds(result)),
        ("Notes", f"NOT PTS CONFORMANT: {count} deviation{'s' * (count != 1)}" if count else "no deviation"),
    )


def _parameters(result: TestResult) -> tuple[tuple[str, str], ...]:
    spec = result.facts.spec
    tested = result.facts.dut.capacity_bytes * spec.setup.active_range_percent / 100
    return (
        ("Data Pattern", pattern(spec)),
        ("AR & Amount", f"{spec.setup.active_range_percent} %, {capacity(tested)}"),
        ("Test Stimulus 1", f"{spec.title} Loop"),
        ("RW Mix", "Outer Loop"),
        ("Block Sizes", "Inner Loop"),
        ("TOIO - TC/QD", demand(spec.setup.thread_count, spec.setup.queue_depth)),
        ("Steady State", steady_rounds(result)),
        ("Test Stimulus 2", NOT_APPLICABLE),
        ("TOIO - TC/QD", NOT_APPLICABLE),
        ("Steady State", NOT_APPLICABLE),
    )


def pattern(spec: IopsSpec) -> str:
    """Return the data pattern's short name: ``RND``."""
    return {"random": "RND"}.get(spec.setup.data_pattern, spec.setup.data_pattern)
