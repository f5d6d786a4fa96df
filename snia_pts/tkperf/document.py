"""Read TKperf's result file as values; the file is untrusted, and every number in it is checked against bounds.

The file is XML whose elements contain JSON.  All versions of TKperf write the tests ``iops``, ``lat``, ``tp`` and
``writesat`` of an SSD or a RAID, and ``iops`` and ``tp`` of a hard disk.  A field that old versions do not write is
None or empty.  IOPS are whole numbers, throughput is in KiB/s (TKperf's report says MB/s), response times are in us.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lxml import etree

from ..errors import RecordError
from ..units import MAX_QUANTITY

MAX_BYTES = 8 * 1024 * 1024
#: TKperf stops after 25 rounds or 1440 minutes; a much longer file is not TKperf's.
MAX_ROUNDS, MAX_SAMPLES, MAX_ZONES = 1000, 100_000, 128
#: Maximum of jobs, and of outstanding I/Os per job, in any specification.
MAX_DEMAND = 1024
_MAX_TEXT_LENGTH = 16 * 1024
_HINT = "Give the XML file that TKperf wrote next to its report."

Kind = Literal["iops", "lat", "tp", "writesat"]
#: The tests in TKperf's order.
KINDS: tuple[Kind, ...] = get_args(Kind)

#: The rows and columns of TKperf's matrices: R/W mixes in percent of reads, and block sizes in bytes.  The last size
#: is only for sectors of 512 bytes.
MIXES: dict[Kind, tuple[int, ...]] = {"iops": (100, 95, 65, 50, 35, 5, 0), "lat": (100, 65, 0), "tp": (100, 0)}
SIZES: dict[Kind, tuple[int, ...]] = {
    "iops": (1 << 20, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13, 1 << 12, 512),
    "lat": (1 << 13, 1 << 12, 512),
    "tp": (1 << 20, 1 << 16, 1 << 13, 1 << 12, 512),
}
#: Rows and columns for a hard disk.  It is measured in zones from its start; every zone has the same matrix.
ZONED_MIXES: dict[Kind, tuple[int, ...]] = {"iops": (100, 50, 0), "tp": (100, 0)}
ZONED_SIZES: dict[Kind, tuple[int, ...]] = {"iops": (1 << 16, 1 << 14, 1 << 12), "tp": (1 << 20, 1 << 12)}
#: A mean may exceed the maximum by rounding.
_ROUNDED = 1 + 1e-6
#: Minimum, maximum and mean response time.
Times = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The steady state as the file reports it; rounds are counted from 0."""

    rounds: tuple[int, ...]
    values: tuple[float, ...]
    slope: tuple[float, float]
    average: float
    reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of a file: ``rates`` (IOPS, KiB/s) and ``times`` by round, R/W mix and block size.

    Write saturation has one mix and one size.  A hard disk has ``zones`` zones instead of rounds.
    """

    kind: Kind
    fio: str
    jobs: int | None
    depth: int | None
    seconds: int | None
    options: tuple[str, ...]
    rates: tuple[tuple[tuple[float, ...], ...], ...] = ()
    times: tuple[tuple[tuple[Times, ...], ...], ...] = ()
    sizes: tuple[int, ...] = ()
    steady: Steady | None = None
    zones: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A result file: the tests, the device, the date, the version of the tool and its command line."""

    name: str
    date: str
    description: str
    features: str
    kernel: str
    distribution: str
    version: str
    command_line: str
    tests: tuple[Test, ...]


def read(document: bytes, name: str) -> File:
    """Parse an untrusted result file; messages call it ``name``.

    Raises RecordError, which names the element and its error.
    """
    return _Parser(name).file(document)


class _Parser:
    """Parser of one file; stores the file's name for messages."""

    def __init__(self, name: str) -> None:
        self._name = name

    def file(self, document: bytes) -> File:
        root = self._root(document)
        tests = [self._test(kind, element) for kind in KINDS for element in root.findall(kind)[:2]]
        kinds = [test.kind for test in tests]
        if not tests:
            raise self._error("", "the file contains no test of TKperf (iops, lat, tp, writesat)")
        if len(set(kinds)) != len(kinds):
            raise self._error("", "the file contains a test twice")
        return File(
            name=self._short(str(root.tag)),
            tests=tuple(tests),
            date=self._text(root, "testdate"),
            description=self._description(root),
            features=self._text(root, "featmatrix"),
            kernel=self._text(root, "kernel").strip(),
            distribution=self._text(root, "lsb").strip(),
            version=self._text(root, "ioperfversion").strip(),
            command_line=self._text(root, "cmdline").strip(),
        )

    def _root(self, document: bytes) -> etree._Element:
        if len(document) > MAX_BYTES:
            raise self._error("", f"the file is larger than {MAX_BYTES} bytes")
        parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
        try:
            root = etree.fromstring(document, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            detail = getattr(error, "msg", None) or str(error)
            raise self._error("", f"invalid XML ({detail})") from None
        if root.getroottree().docinfo.doctype:
            raise self._error("", "unsupported document type declaration; TKperf never writes one")
        return root

    # -- elements -----------------------------------------------------------------------------------------------------

    def _value(self, root: etree._Element, tag: str) -> Any:
        """Return the value of an element; None if the element is missing, empty or null."""
        text = root.findtext(tag)
        if text is None or not text.strip():
            return None
        try:
            return json.loads(text, parse_constant=_constant)
        except (ValueError, RecursionError):
            raise self._error(tag, "invalid JSON") from None

    def _text(self, root: etree._Element, tag: str) -> str:
        value = self._value(root, tag)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH:
            raise self._error(tag, f"expected a text of at most {_MAX_TEXT_LENGTH} characters")
        return _clean(value)

    def _description(self, root: etree._Element) -> str:
        """Return the description of the device; empty if it is blank, as the writer leaves an unknown one."""
        text = self._text(root, "devinfo")
        return text if text.strip() else ""

    def _short(self, text: str) -> str:
        if len(text) > 200:
            raise self._error("", "the root element's name is longer than 200 characters")
        return text

    def _count(self, root: etree._Element, tag: str, maximum: int) -> int | None:
        value = self._value(root, tag)
        if value is not None and (type(value) is not int or not 1 <= value <= maximum):
            raise self._error(tag, f"expected a whole number from 1 to {maximum}")
        return value

    def _number(self, value: Any, where: str) -> float:
        if type(value) not in (int, float) or not 0 <= value <= MAX_QUANTITY:
            raise self._error(where, f"expected numbers from 0 to {MAX_QUANTITY:.3g}")
        return float(value)

    def _list(self, value: Any, where: str, maximum: int, minimum: int = 1) -> list[Any]:
        if not isinstance(value, list) or not minimum <= len(value) <= maximum:
            raise self._error(where, f"expected a list of {minimum} to {maximum} entries")
        return value

    def _error(self, where: str, reason: str) -> RecordError:
        return RecordError(path=self._name, reason=f"{where}: {reason}" if where else reason, hint=_HINT)

    # -- tests --------------------------------------------------------------------------------------------------------

    def _test(self, kind: Kind, root: etree._Element) -> Test:
        options = self._value(root, "xargs") or []
        if not all(isinstance(option, str) and len(option) < 100 for option in self._list(options, "xargs", 20, 0)):
            raise self._error(f"{kind}/xargs", "expected the names of options")
        common: dict[str, Any] = {
            "kind": kind,
            "fio": self._text(root, "fioversion").strip(),
            "options": tuple(map(_clean, options)),
            "jobs": self._count(root, "numjobs", MAX_DEMAND),
            "depth": self._count(root, "iodepth", MAX_DEMAND),
            "seconds": self._count(root, "runtime", 10**6),
        }
        matrix, where = self._value(root, "roundmat"), f"{kind}/roundmat"
        if matrix is None:
            raise self._error(where, "missing")
        if kind == "writesat":
            return Test(**common, **self._saturation(matrix, where))
        if self._is_zoned(kind, matrix):
            rates = self._zoned(kind, matrix, where)
            return Test(**common, zones=len(rates), rates=rates, sizes=ZONED_SIZES[kind])
        read = self._streams if kind == "tp" else self._matrices
        return Test(**common, **read(kind, matrix, where), steady=self._steady(root, kind))

    @staticmethod
    def _is_zoned(kind: Kind, matrix: Any) -> bool:
        """Return whether the matrix is of a hard disk: three R/W mixes (IOPS), or two block sizes (throughput)."""
        try:
            return len(matrix[0]) == 3 if kind == "iops" else kind == "tp" and len(matrix) == 2
        except (TypeError, LookupError):
            return False

    def _zoned(self, kind: Kind, matrix: Any, where: str) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Read rates by zone, R/W mix and block size.

        The file has IOPS in this order, but throughput by block size, mix and zone.
        """
        mixes, sizes = ZONED_MIXES[kind], ZONED_SIZES[kind]
        if kind == "iops":
            rows = [self._list(zone, where, len(mixes), len(mixes)) for zone in self._list(matrix, where, MAX_ZONES)]
            cells = [[self._list(row, where, len(sizes), len(sizes)) for row in zone] for zone in rows]
        else:
            pairs = [self._list(size, where, 2, 2) for size in self._list(matrix, where, 2, 2)]
            columns = [[self._list(side, where, MAX_ZONES) for side in pair] for pair in pairs]
            zones = len(columns[0][0])
            if any(len(side) != zones for pair in columns for side in pair):
                raise self._error(where, "the block sizes have different numbers of zones")
            cells = [[[size[mix][zone] for size in columns] for mix in range(len(mixes))] for zone in range(zones)]
        return tuple(tuple(tuple(self._number(value, where) for value in row) for row in zone) for zone in cells)

    def _matrices(self, kind: Kind, matrix: Any, where: str) -> dict[str, Any]:
        """Read IOPS or response times by round, R/W mix and block size."""
        rounds = [self._list(mixes, where, 7) for mixes in self._list(matrix, where, MAX_ROUNDS)]
        sizes = SIZES[kind][: len(self._list(rounds[0][0], where, 8))]
        if len(sizes) < len(SIZES[kind]) - 1:
            raise self._error(where, f"expected {len(SIZES[kind]) - 1} or {len(SIZES[kind])} block sizes per row")
        if any(len(row) != len(sizes) for rows in rounds for row in (self._list(row, where, 8) for row in rows)):
            raise self._error(where, "the rows have different numbers of block sizes")
        if any(len(rows) != len(MIXES[kind]) for rows in rounds):
            raise self._error(where, f"expected {len(MIXES[kind])} R/W mixes per round")
        cell = self._times if kind == "lat" else self._number
        cells = tuple(tuple(tuple(cell(value, where) for value in row) for row in rows) for rows in rounds)
        return {"times" if kind == "lat" else "rates": cells, "sizes": sizes}

    def _times(self, value: Any, where: str) -> Times:
        first, *others = self._list(value, where, 3, 3)
        minimum = math.nan if _is_nan(first) else self._number(first, where)
        maximum, mean = (self._number(other, where) for other in others)
        if minimum > mean * _ROUNDED or mean > maximum * _ROUNDED:
            reason = f"the mean response time {mean:g} is not in the range from {minimum:g} to {maximum:g}"
            raise self._error(where, reason)
        return minimum, maximum, mean

    def _streams(self, kind: Kind, matrix: Any, where: str) -> dict[str, Any]:
        """Read throughput by block size, read or write, and round; return it by round, R/W mix and block size.

        In a file that this suite wrote, a block size that was not measured is a list of NaN.
        """
        pairs = [self._list(pair, where, 2, 2) for pair in self._list(matrix, where, len(SIZES[kind]))]
        columns = [[self._list(side, where, MAX_ROUNDS) for side in pair] for pair in pairs]
        rounds = len(columns[0][0])
        if any(len(side) != rounds for pair in columns for side in pair):
            raise self._error(where, "the block sizes have different numbers of rounds")
        measured = [index for index, (reads, writes) in enumerate(columns) if not all(map(_is_nan, (*reads, *writes)))]
        if measured[:1] != [0]:
            raise self._error(where, "expected a throughput of 1024 KiB")
        cells = [[[self._number(value, where) for value in side] for side in columns[index]] for index in measured]
        rates = tuple(
            tuple(tuple(cell[mix][round_index] for cell in cells) for mix in (0, 1)) for round_index in range(rounds)
        )
        return {"rates": rates, "sizes": tuple(SIZES[kind][index] for index in measured)}

    def _saturation(self, matrix: Any, where: str) -> dict[str, Any]:
        iops, times = (self._list(samples, where, MAX_SAMPLES) for samples in self._list(matrix, where, 2, 2))
        if len(iops) != len(times):
            raise self._error(where, f"expected as many response times ({len(times)}) as IOPS ({len(iops)})")
        rates = tuple(((self._number(value, where),),) for value in iops)
        return {"rates": rates, "times": tuple(((self._times(value, where),),) for value in times), "sizes": (4096,)}

    def _steady(self, root: etree._Element, kind: Kind) -> Steady | None:
        """Read a test's steady state; None if the file does not report it, as with too few rounds."""
        values = {tag: self._value(root, tag) for tag in ("stdyrounds", "stdyvalues", "stdyslope", "stdyavg")}
        reached = self._value(root, "reachstdystate")
        if reached is None or not values["stdyrounds"]:
            return None
        rounds = self._list(values["stdyrounds"], f"{kind}/stdyrounds", 100)
        slope = self._list(values["stdyslope"], f"{kind}/stdyslope", 2, 2)
        if type(reached) is not bool or any(type(index) is not int or not 0 <= index < MAX_ROUNDS for index in rounds):
            raise self._error(kind, "invalid steady state")
        if any(type(number) not in (int, float) or not abs(number) <= MAX_QUANTITY for number in slope):
            raise self._error(f"{kind}/stdyslope", "expected two numbers")
        judged = self._list(values["stdyvalues"], f"{kind}/stdyvalues", 100)
        return Steady(
            rounds=tuple(rounds),
            values=tuple(self._number(value, f"{kind}/stdyvalues") for value in judged),
            slope=(float(slope[0]), float(slope[1])),
            average=self._number(values["stdyavg"], f"{kind}/stdyavg"),
            reached=reached,
        )


def _clean(text: str) -> str:
    """Return a text with lone surrogates replaced, because a record cannot store them."""
    return text.encode("utf-8", "replace").decode()


def _constant(text: str) -> float:
    if text != "NaN":
        raise ValueError(text)
    return math.nan


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
