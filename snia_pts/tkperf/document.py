"""The result file of TKperf as values: read as if it came from an enemy, every number bounded.

It is XML whose elements hold JSON.  All versions from the first on write the tests ``iops``, ``lat``, ``tp``,
``writesat`` of an SSD or a RAID, ``iops`` and ``tp`` of a hard disk; what old versions do not write is None or empty.
IOPS are whole numbers, throughput is in KiB/s (its report says MB/s), response times are in us.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lxml import etree

from ..errors import RecordError
from ..units import MAX_QUANTITY

LARGEST_BYTES = 8 * 1024 * 1024
#: TKperf stops after 25 rounds, or 1440 minutes; what is longer by far is none of its files.
MOST_ROUNDS, MOST_SAMPLES, MOST_ZONES = 1000, 100_000, 128
#: Of jobs, and of I/Os outstanding in each, no specification has more.
MOST_DEMAND = 1024
_LONGEST_TEXT = 16 * 1024
_HINT = "Give the XML file that TKperf wrote beside its report."

Kind = Literal["iops", "lat", "tp", "writesat"]
#: In the order in which TKperf names them.
KINDS: tuple[Kind, ...] = get_args(Kind)

#: The rows and columns of TKperf's matrices: R/W mixes in percent of reads, block sizes in bytes, the last for sectors
#: of 512 bytes alone.
MIXES: dict[Kind, tuple[int, ...]] = {"iops": (100, 95, 65, 50, 35, 5, 0), "lat": (100, 65, 0), "tp": (100, 0)}
SIZES: dict[Kind, tuple[int, ...]] = {
    "iops": (1 << 20, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13, 1 << 12, 512),
    "lat": (1 << 13, 1 << 12, 512),
    "tp": (1 << 20, 1 << 16, 1 << 13, 1 << 12, 512),
}
#: The same of a hard disk, which is measured in zones from its beginning on, all of them alike.
ZONED_MIXES: dict[Kind, tuple[int, ...]] = {"iops": (100, 50, 0), "tp": (100, 0)}
ZONED_SIZES: dict[Kind, tuple[int, ...]] = {"iops": (1 << 16, 1 << 14, 1 << 12), "tp": (1 << 20, 1 << 12)}
#: Least, greatest and mean response time.
Times = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """What the file says of a steady state; rounds are counted from 0."""

    rounds: tuple[int, ...]
    values: tuple[float, ...]
    slope: tuple[float, float]
    average: float
    reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of a file: ``rates`` (IOPS, KiB/s) and ``times`` by round, R/W mix and block size.

    Those of write saturation have one mix and one size; those of a hard disk are by zone, of which there are ``zones``.
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
    """A whole file: what was tested, on what, when, by which version and command."""

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
    """Read a result file from anywhere; ``name`` is what messages call it.

    Raises RecordError with the element and what is wrong.
    """
    return _Reading(name).file(document)


class _Reading:
    """Reads one file; knows its name for the messages."""

    def __init__(self, name: str) -> None:
        self._name = name

    def file(self, document: bytes) -> File:
        root = self._root(document)
        found = [self._test(kind, element) for kind in KINDS for element in root.findall(kind)[:2]]
        kinds = [test.kind for test in found]
        if not found:
            raise self._wrong("", "it holds no test of TKperf (iops, lat, tp, writesat)")
        if len(set(kinds)) != len(kinds):
            raise self._wrong("", "it holds a test twice")
        return File(
            name=self._short(str(root.tag)),
            tests=tuple(found),
            date=self._text(root, "testdate"),
            description=self._described(root),
            features=self._text(root, "featmatrix"),
            kernel=self._text(root, "kernel").strip(),
            distribution=self._text(root, "lsb").strip(),
            version=self._text(root, "ioperfversion").strip(),
            command_line=self._text(root, "cmdline").strip(),
        )

    def _root(self, document: bytes) -> etree._Element:
        if len(document) > LARGEST_BYTES:
            raise self._wrong("", "it is larger than any result of TKperf")
        parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
        try:
            root = etree.fromstring(document, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            said = getattr(error, "msg", None) or str(error)
            raise self._wrong("", f"it is not well-formed XML ({said})") from None
        if root.getroottree().docinfo.doctype:
            raise self._wrong("", "it has a document type, which TKperf never writes")
        return root

    # -- elements -----------------------------------------------------------------------------------------------------

    def _value(self, root: etree._Element, tag: str) -> Any:
        """Return what an element holds; None where there is none, or null."""
        text = root.findtext(tag)
        if text is None or not text.strip():
            return None
        try:
            return json.loads(text, parse_constant=_constant)
        except (ValueError, RecursionError):
            raise self._wrong(tag, "it is not JSON") from None

    def _text(self, root: etree._Element, tag: str) -> str:
        value = self._value(root, tag)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            raise self._wrong(tag, f"expected a text of at most {_LONGEST_TEXT} letters")
        return _clean(value)

    def _described(self, root: etree._Element) -> str:
        """Return the description of the device; empty where it is blank, as in a file of ours that knows none."""
        text = self._text(root, "devinfo")
        return text if text.strip() else ""

    def _short(self, text: str) -> str:
        if len(text) > 200:
            raise self._wrong("", "its name is longer than any file's")
        return text

    def _count(self, root: etree._Element, tag: str, most: int) -> int | None:
        value = self._value(root, tag)
        if value is not None and (type(value) is not int or not 1 <= value <= most):
            raise self._wrong(tag, f"expected a whole number from 1 to {most}")
        return value

    def _number(self, value: Any, where: str) -> float:
        if type(value) not in (int, float) or not 0 <= value <= MAX_QUANTITY:
            raise self._wrong(where, "expected numbers from 0 on")
        return float(value)

    def _list(self, value: Any, where: str, most: int, least: int = 1) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise self._wrong(where, f"expected a list of {least} to {most}")
        return value

    def _wrong(self, where: str, reason: str) -> RecordError:
        return RecordError(path=self._name, reason=f"{where}: {reason}" if where else reason, hint=_HINT)

    # -- tests --------------------------------------------------------------------------------------------------------

    def _test(self, kind: Kind, root: etree._Element) -> Test:
        options = self._value(root, "xargs") or []
        if not all(isinstance(each, str) and len(each) < 100 for each in self._list(options, "xargs", 20, 0)):
            raise self._wrong(f"{kind}/xargs", "expected the names of options")
        common: dict[str, Any] = {
            "kind": kind,
            "fio": self._text(root, "fioversion").strip(),
            "options": tuple(map(_clean, options)),
            "jobs": self._count(root, "numjobs", MOST_DEMAND),
            "depth": self._count(root, "iodepth", MOST_DEMAND),
            "seconds": self._count(root, "runtime", 10**6),
        }
        matrix, where = self._value(root, "roundmat"), f"{kind}/roundmat"
        if matrix is None:
            raise self._wrong(where, "there is none")
        if kind == "writesat":
            return Test(**common, **self._saturation(matrix, where))
        if self._is_zoned(kind, matrix):
            rates = self._zoned(kind, matrix, where)
            return Test(**common, zones=len(rates), rates=rates, sizes=ZONED_SIZES[kind])
        read = self._streams if kind == "tp" else self._matrices
        return Test(**common, **read(kind, matrix, where), steady=self._steady(root, kind))

    @staticmethod
    def _is_zoned(kind: Kind, matrix: Any) -> bool:
        """Whether a matrix is a hard disk's: it has other mixes, or fewer block sizes."""
        try:
            return len(matrix[0]) == 3 if kind == "iops" else kind == "tp" and len(matrix) == 2
        except (TypeError, LookupError):
            return False

    def _zoned(self, kind: Kind, matrix: Any, where: str) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Read zones of R/W mixes of block sizes; a throughput is turned, which has zones innermost."""
        mixes, sizes = ZONED_MIXES[kind], ZONED_SIZES[kind]
        if kind == "iops":
            rows = [self._list(each, where, len(mixes), len(mixes)) for each in self._list(matrix, where, MOST_ZONES)]
            cells = [[self._list(row, where, len(sizes), len(sizes)) for row in each] for each in rows]
        else:
            found = [self._list(each, where, 2, 2) for each in self._list(matrix, where, 2, 2)]
            columns = [[self._list(side, where, MOST_ZONES) for side in each] for each in found]
            zones = len(columns[0][0])
            if any(len(side) != zones for each in columns for side in each):
                raise self._wrong(where, "not all block sizes have as many zones")
            cells = [[[size[mix][zone] for size in columns] for mix in range(len(mixes))] for zone in range(zones)]
        return tuple(tuple(tuple(self._number(value, where) for value in row) for row in each) for each in cells)

    def _matrices(self, kind: Kind, matrix: Any, where: str) -> dict[str, Any]:
        """Read rounds of R/W mixes of block sizes: IOPS, or response times."""
        rounds = [self._list(each, where, 7) for each in self._list(matrix, where, MOST_ROUNDS)]
        sizes = SIZES[kind][: len(self._list(rounds[0][0], where, 8))]
        if len(sizes) < len(SIZES[kind]) - 1:
            raise self._wrong(where, f"expected {len(SIZES[kind]) - 1} or {len(SIZES[kind])} block sizes a row")
        if any(len(row) != len(sizes) for each in rounds for row in (self._list(row, where, 8) for row in each)):
            raise self._wrong(where, "not all rows have as many block sizes")
        if any(len(each) != len(MIXES[kind]) for each in rounds):
            raise self._wrong(where, f"expected {len(MIXES[kind])} R/W mixes a round")
        cell = self._times if kind == "lat" else self._number
        found = tuple(tuple(tuple(cell(value, where) for value in row) for row in each) for each in rounds)
        return {"times" if kind == "lat" else "rates": found, "sizes": sizes}

    def _times(self, value: Any, where: str) -> Times:
        least, most, mean = self._list(value, where, 3, 3)
        unknown = isinstance(least, float) and math.isnan(least)
        return math.nan if unknown else self._number(least, where), self._number(most, where), self._number(mean, where)

    def _streams(self, kind: Kind, matrix: Any, where: str) -> dict[str, Any]:
        """Read block sizes of reads and writes of rounds, and turn them: by round, R/W mix and block size.

        A size that a file of ours does not have is a list of NaN.
        """
        found = [self._list(each, where, 2, 2) for each in self._list(matrix, where, len(SIZES[kind]))]
        columns = [[self._list(side, where, MOST_ROUNDS) for side in each] for each in found]
        rounds = len(columns[0][0])
        if any(len(side) != rounds for each in columns for side in each):
            raise self._wrong(where, "not all block sizes have as many rounds")
        held = [place for place, each in enumerate(columns) if not all(map(_is_nan, (*each[0], *each[1])))]
        if held[:1] != [0]:
            raise self._wrong(where, "expected a throughput of 1024 KiB")
        cells = {place: [[self._number(value, where) for value in side] for side in columns[place]] for place in held}
        rates = tuple(tuple(tuple(cells[place][mix][at] for place in held) for mix in (0, 1)) for at in range(rounds))
        return {"rates": rates, "sizes": tuple(SIZES[kind][place] for place in held)}

    def _saturation(self, matrix: Any, where: str) -> dict[str, Any]:
        iops, times = (self._list(each, where, MOST_SAMPLES) for each in self._list(matrix, where, 2, 2))
        if len(iops) != len(times):
            raise self._wrong(where, "it has not as many response times as IOPS")
        rates = tuple(((self._number(value, where),),) for value in iops)
        return {"rates": rates, "times": tuple(((self._times(each, where),),) for each in times), "sizes": (4096,)}

    def _steady(self, root: etree._Element, kind: Kind) -> Steady | None:
        """Read what a test says of its steady state; None where it says nothing, as one of too few rounds."""
        values = {tag: self._value(root, tag) for tag in ("stdyrounds", "stdyvalues", "stdyslope", "stdyavg")}
        reached = self._value(root, "reachstdystate")
        if reached is None or not values["stdyrounds"]:
            return None
        rounds = self._list(values["stdyrounds"], f"{kind}/stdyrounds", 100)
        slope = self._list(values["stdyslope"], f"{kind}/stdyslope", 2, 2)
        if type(reached) is not bool or any(type(each) is not int or not 0 <= each < MOST_ROUNDS for each in rounds):
            raise self._wrong(kind, "what it says of its steady state is none")
        if any(type(each) not in (int, float) or not abs(each) <= MAX_QUANTITY for each in slope):
            raise self._wrong(f"{kind}/stdyslope", "expected two numbers")
        judged = self._list(values["stdyvalues"], f"{kind}/stdyvalues", 100)
        return Steady(
            rounds=tuple(rounds),
            values=tuple(self._number(each, f"{kind}/stdyvalues") for each in judged),
            slope=(float(slope[0]), float(slope[1])),
            average=self._number(values["stdyavg"], f"{kind}/stdyavg"),
            reached=reached,
        )


def _clean(text: str) -> str:
    """Return a text without what no record can hold: halves of letters."""
    return text.encode("utf-8", "replace").decode()


def _constant(text: str) -> float:
    if text != "NaN":
        raise ValueError(text)
    return math.nan


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
