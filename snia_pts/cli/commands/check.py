"""The verb ``check``: reads all that a run on a target would read, and says whether it would start."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from textwrap import wrap

from ...api.check import Reading, TargetCheck, check
from ...model.run_options import RunOptions
from ...units import counted, parse_size
from ..text.formatting import json_text
from ..text.lines import print_lines

_VERDICT_WIDTH = 8


def check_target(arguments: argparse.Namespace) -> int:
    """Print the readings of a target, as a list or as JSON; return the exit code with which a run would be refused."""
    options = RunOptions(
        test="iops",
        target=str(arguments.target),
        size_bytes=None if arguments.size is None else parse_size(arguments.size),
        overwrite=arguments.overwrite,
        discard_data=arguments.discard_data,
        purge=arguments.purge,
    )
    checked = check(options)
    if arguments.json:
        print(json_text(check_json(checked)))
    else:
        print_lines(check_lines(checked, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    return checked.refusal.exit_code if checked.refusal else 0


def check_json(checked: TargetCheck) -> dict[str, object]:
    """Return the check of a target in the JSON form of docs/formats.rst."""
    refusal = checked.refusal
    return {
        "format": 1,
        "test": checked.test,
        "usable": refusal is None,
        "exit_code": refusal.exit_code if refusal else 0,
        "dut": asdict(checked.dut),
        "platform": asdict(checked.platform),
        "health": [asdict(health) for health in checked.health],
        "readings": [asdict(reading) for reading in checked.readings],
    }


def check_lines(checked: TargetCheck, width: int | None) -> Iterator[str]:
    """Yield the readings by their part, with the remedy below those that need one, and the verdict on the run.

    Without a width, each reading is one row of all columns.
    """
    if width is None:
        rows = ((item.verdict, item.part, item.name, item.value, item.remedy or "-") for item in checked.readings)
        yield from ("\t".join(row) for row in (("verdict", "part", "reading", "value", "remedy"), *rows))
        return
    name_width = max(len(reading.name) for reading in checked.readings)
    for part in dict.fromkeys(reading.part for reading in checked.readings):
        yield part
        for reading in checked.readings:
            if reading.part == part:
                yield from _lines(reading, min(name_width, 32), max(width, 40))
        yield ""
    yield from wrap(_conclusion(checked), max(width, 40))


def _lines(reading: Reading, name_width: int, width: int) -> Iterator[str]:
    head = f"  {reading.verdict:{_VERDICT_WIDTH}}  {reading.name:{name_width}}  "
    indent = " " * (4 + _VERDICT_WIDTH)
    yield from wrap(f"{head}{reading.value}", width, subsequent_indent=indent, drop_whitespace=True)
    if reading.remedy:
        yield from wrap(reading.remedy, width, initial_indent=indent, subsequent_indent=indent)


def _conclusion(checked: TargetCheck) -> str:
    counts = Counter(reading.verdict for reading in checked.readings)
    others = [f"{counted(counts['warning'], 'warning')}"]
    if counts["not read"]:
        others.append(f"{counted(counts['not read'], 'reading')} missing")
    refusal = checked.refusal
    verdict = f"A run would be refused with exit code {refusal.exit_code}" if refusal else "A run would start"
    return f"{verdict}; {', '.join(others)}."
