"""The result as a workbook that a reviewer can check: formulas for every step from I/O counts to the verdict.

Each formula cell also stores the value computed by this program, so that it is shown without recalculation, and
recalculation can be compared with it.  Texts are text cells: no text of a device becomes a formula, a number or a link.
"""

from __future__ import annotations

import datetime
import io

from xlsxwriter.workbook import Workbook

from ....results.result import TestResult
from ....text import one_line
from ...checksums import report_id
from ...header import short, simulated
from .data_sheets import ResultData, write_key_figures, write_measurements, write_points, write_samples
from .matrices import write_percentile_matrices, write_point_matrices
from .sheet import Sheet
from .steady_state import determinations, round_blocks, write_determinations, write_rounds
from .summary import write_summary


def make(result: TestResult) -> bytes:
    """Return ``result`` as XLSX; the same result gives the same bytes."""
    output, facts = io.BytesIO(), result.facts
    with Workbook(output, {"in_memory": True}) as workbook:
        workbook.set_properties(
            {
                "title": one_line(f"{facts.spec.title} Test: {facts.dut.model or facts.dut.name}")[:255],
                "author": one_line(facts.about.operator)[:255],
                "comments": "made by snia-pts",
                "created": _creation_time(result),
            }
        )
        _write_sheets(workbook, ResultData(result))
        _identify_pages(workbook, result)
    return output.getvalue()


def _identify_pages(workbook: Workbook, result: TestResult) -> None:
    """Print at the head of every page what the workbook is on, and at its end the sheet, run and page."""
    facts, identity = result.facts, report_id(result)
    drive = ", ".join(
        (f"{facts.spec.title} Test", *(short(text) for text in (facts.dut.model, facts.dut.serial) if text))
    )
    run = ", ".join(short(text) for text in (facts.run_id, identity) if text)
    for worksheet in workbook.worksheets():
        header = f"&L&8 {_plain(drive)}&R&8 {_plain(simulated(result).strip(' -'))}"
        worksheet.set_header(header, {"scale_with_doc": False})
        worksheet.set_footer(f"&L&8 &A&C&8 {_plain(run)}&R&8 Page &P of &N", {"scale_with_doc": False})


def _plain(text: str) -> str:
    """Return a text for the head or the end of a page, without codes; all its parts have at most 255 letters."""
    return one_line(text)[:90].replace("&", "+")


def _creation_time(result: TestResult) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(result.finished).replace(tzinfo=None)
    except ValueError:
        return datetime.datetime(1980, 1, 1)


def _write_sheets(workbook: Workbook, data: ResultData) -> None:
    """Write all sheets; the first has the verdict."""
    blocks = tuple(round_blocks(data.result))
    determined = tuple(determinations(blocks))
    write_summary(Sheet(workbook, "Summary"), data, determined)
    if determined:
        write_determinations(workbook, determined)
    write_key_figures(workbook, data)
    if "points" in data.tables:
        write_point_matrices(workbook, data)
    if blocks:
        write_rounds(workbook, data, blocks)
    if "points" in data.tables:
        write_points(workbook, data)
    if "percentiles" in data.tables:
        data.tables["percentiles"].write(workbook)
        write_percentile_matrices(workbook, data)
    if "measurements" in data.tables:
        write_measurements(workbook, data)
    for table in data.tables.values():
        if table.data.name.startswith("samples-"):
            write_samples(workbook, table.data)
    for name in ("power", "drive health", "specification"):
        if name in data.tables:
            data.tables[name].write(workbook)
