"""Format a result as lines of text and as JSON; nothing here prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from typing import Any

from ...analysis.steady_state import SteadyState
from ...model.measurement import METRICS, MeasuredRound, SampledRound, rate_per_second
from ...model.steps import Stimulus, mix
from ...model.time_series import TimeLine
from ...report.figures.matrices import WEIGHTED, foot, heading, marked, marks_of_points
from ...report.registry import further_pages, pages_of
from ...report.sections.steady_state import determination_texts
from ...report.sections.summary import limit_text, statements, value_text, warning_rows
from ...report.tables import NOT_APPLICABLE, Table
from ...results.attributes import METRIC_COLUMNS, RepeatedPoint, repeated_points, stimulus_attributes, window_points
from ...results.limit_checks import judgements
from ...results.result import Loop, Sampling, TestResult
from ...results.tracked_series import sample_times, span
from ...results.warnings import run_warnings
from ...spec import DemandSpec, Tracked, loop_rule
from ...text import without_breaks, wrapped
from ...units import MB, block_size, counted, number
from .formatting import deviation_lines, format_tracked, setting_lines, table

_MIN_HEADING_WIDTH = 9
#: Maximum width of a table, and minimum widths of a wrapped text and of a wrapped phrase among numbers, in characters.
_MAX_WIDTH, _MIN_TEXT_WIDTH, _MIN_PHRASE_WIDTH = 100, 20, 11
#: The number of differences that are listed.
_MAX_LISTED = 10


def result_lines(result: TestResult, width: int | None = None) -> Iterator[str]:
    """Yield what the report states first, determinations, matrices, the summary's tables, limits and deviations.

    ``width`` is that of the terminal, None if there is none.
    """
    facts = result.facts
    virtual = "; all times are virtual" if facts.dut.simulated else ""
    yield f"{facts.spec.caption}, {facts.spec.revision}, on {facts.dut.path}: {facts.dut.summary}{virtual}"
    yield from (statement.text for statement in statements(result))
    if result.ending_detail:
        yield f"  {result.ending_detail}"
    if result.sampling:
        name = "Preconditioning" if result.sampling.phase == "PC" else "Stimulus"
        yield from _judged_lines(name, result.sampling)
    for loop in result.loops:
        if loop_rule(facts.spec):
            yield from _judged_lines(loop.part or "Test loop", loop)
            yield from _matrix_lines(result, loop)
    yield from _summary_lines(result, min(width or _MAX_WIDTH, _MAX_WIDTH))
    for judgement in judgements(result):
        limit, value = judgement.limit, judgement.value
        measured = "not measured" if value is None else value_text(limit, value)
        verdict = "met" if judgement.met else f"NOT MET, {judgement.shown_reason}"
        yield f"Limit: {limit.name}: {limit_text(limit, value)}: {measured}: {verdict}"
    for what, detail in warning_rows(result):
        yield f"Warning: {what}: {detail}"
    yield from deviation_lines(result.deviations, facts.spec.authority)
    yield from setting_lines(facts.settings)


def _judged_lines(name: str, judged: Loop | Sampling) -> Iterator[str]:
    rounds = counted(sum(measured.complete for measured in judged.rounds), "complete round")
    if isinstance(judged, Sampling):
        rounds = f"{counted(len(judged.rounds), 'sample')} judged as rounds"
    yield ""
    if judged.window is None:
        since = (
            " since the run was interrupted" if judged.rounds and max(judged.rounds[-1].interruptions or {0}) else ""
        )
        yield f"{name}: {rounds}, too few in a row{since} for a window"
        return
    kind = "measurement window" if judged.steady else "last window, NOT STEADY"
    yield f"{name}: {rounds}; {kind}: rounds {span(judged.window.numbers, sample_times(judged))}"
    for tracked, determination in judged.window.determinations:
        yield from _determination_lines(tracked, determination)


def _determination_lines(tracked: Tracked, state: SteadyState) -> Iterator[str]:
    verdict = "steady" if state.steady else "not steady" if state.evaluable else "not evaluable"
    yield f"  {format_tracked(tracked)}: {verdict}"
    if state.evaluable:
        texts = determination_texts(state, METRICS[tracked.metric])
        yield f"    mean of the rounds {texts.average} {texts.unit}"
        for name, measured, percent, allowed in (
            ("data", texts.data_excursion, texts.data_percent, texts.allowed_data),
            ("slope", texts.slope_excursion, texts.slope_percent, texts.allowed_slope),
        ):
            yield f"    {name} excursion {measured} {texts.unit} ({percent} %), allowed {allowed} {texts.unit}"
        yield f"    best fit {texts.line} {texts.unit} (R: round)"


def _matrix_lines(result: TestResult, loop: Loop) -> Iterator[str]:
    """Yield the window's points: block size by R/W mix, or TC by QD, in the unit of the tracked variable."""
    rule = loop_rule(result.facts.spec)
    if loop.window is None or rule is None:
        return
    metric, (column, divisor) = METRICS[rule.tracked[0].metric], METRIC_COLUMNS[rule.tracked[0].metric]
    marks = marks_of_points(result, loop)
    cells = {
        matrix_position(result, stimulus): marked(
            marks.get(stimulus, ""), number(math.nan if (value := figures[column]) is None else value / divisor)
        )
        for stimulus, figures in window_points(result, loop)
    }
    demands = isinstance(result.facts.spec, DemandSpec)
    down, across = (sorted({position[axis] for position in cells}) for axis in (0, 1))
    yield ""
    axes = "TC down, QD across" if demands else "block size down, R/W mix across"
    response = rule.tracked[0].metric == "average_response_ms"
    yield f"{heading(result, WEIGHTED) if response else metric.heading}, over the window; {axes}"
    yield from table(
        ("", *(f"QD {column}" if demands else mix(column) for column in across)),
        (
            (
                f"TC {row}" if demands else block_size(row),
                *(cells.get((row, column), NOT_APPLICABLE) for column in across),
            )
            for row in down
        ),
    )
    if footnote := foot(marks.values()):
        yield f"  {footnote}"


def matrix_position(result: TestResult, stimulus: Stimulus) -> tuple[int, int]:
    """Return the row and column of a point: TC and QD if the test varies these, else block size and share of reads."""
    if isinstance(result.facts.spec, DemandSpec):
        return stimulus.thread_count, stimulus.queue_depth
    return stimulus.largest_block_bytes, stimulus.read_percent


def _summary_lines(result: TestResult, width: int) -> Iterator[str]:
    """Yield the tables of numbers and facts on the report's pages of summary.

    For a test that is not part of the standard, yield its tables of facts, and the tables of its overview.
    """
    test = result.facts.spec.test
    pages = (page for page in pages_of(test).pages(result) if page.summary)
    blocks = [block for page in pages for block in page.blocks if isinstance(block, Table)]
    if further := further_pages(test):
        blocks = [*(block for block in blocks if block.kind == "facts"), *further.overview(result)]
    for block in blocks:
        if block.kind in ("numbers", "facts"):
            yield from ("", *_table_lines(block, width))
            if footnote := foot([cell for row in block.rows for cell in row]):
                yield f"  {footnote}"


def _table_lines(block: Table, max_width: int) -> Iterator[str]:
    """Yield a table of the report as text; one of numbers that is too wide is in parts below each other."""
    if block.title:
        yield block.title
    parts = list(_parts(block, max_width)) if block.kind == "numbers" else [block]
    for part in parts:
        yield from _part_lines(part, max_width)
        if part is not parts[-1]:
            yield ""


def _parts(block: Table, max_width: int) -> Iterator[Table]:
    """Yield a table in as few parts as fit into the width, each with the first column."""
    count = len(block.columns)
    while count > 2 and max(map(len, _part_lines(_columns(block, range(count)), max_width))) > max_width:
        count -= 1
    yield _columns(block, range(count))
    if count < len(block.columns):
        yield from _parts(_columns(block, (0, *range(count, len(block.columns)))), max_width)


def _columns(block: Table, indexes: Sequence[int]) -> Table:
    columns = tuple(block.columns[index] for index in indexes)
    return replace(block, columns=columns, rows=tuple(tuple(row[index] for index in indexes) for row in block.rows))


def _part_lines(block: Table, max_width: int) -> Iterator[str]:
    """Yield the lines of a table; wrap long headings, and the widest texts if the table is too wide."""
    columns = list(zip(*block.rows, strict=True)) or [()] * len(block.columns)
    heads, widths = _wrapped_headings(block, columns, max_width)
    depth = max(map(len, heads)) if block.headed else 0
    lines = [tuple([""] * (depth - len(head)) + head) for head in heads]
    rows = [*(list(zip_longest(*lines, fillvalue="")) if depth else []), *_wrapped_rows(block, widths, max_width)]
    widths = [max(map(len, cells), default=0) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if column.align == "right" else cell.ljust(width)
            for cell, width, column in zip(row, widths, block.columns, strict=True)
        )
        yield f"  {'  '.join(cells)}".rstrip()


def _wrapped_headings(
    block: Table, columns: Sequence[Sequence[str]], max_width: int
) -> tuple[list[list[str]], list[int]]:
    """Return each heading as lines, and the widths of the columns; narrow headings only if the table is too wide."""
    for minimum in range(_MIN_HEADING_WIDTH, 0, -1):
        cell_widths = [max(map(len, cells), default=0) for cells in columns]
        heads = [
            wrapped(column.heading, max(minimum, width))
            for column, width in zip(block.columns, cell_widths, strict=True)
        ]
        shown = heads if block.headed else [[] for _ in heads]
        widths = [max([width, *map(len, head)]) for head, width in zip(shown, cell_widths, strict=True)]
        if _table_width(widths) <= max_width:
            break
    return heads, widths


def _table_width(widths: Sequence[int]) -> int:
    """Return the width of a table: an indent, and its columns with gaps of two spaces."""
    return sum(widths) + 2 * len(widths)


def _wrapped_rows(block: Table, widths: Sequence[int], max_width: int) -> Iterator[Sequence[str]]:
    """Yield the rows of a table; if it exceeds the maximum width, wrap its columns of texts, the widest one first.

    Texts among numbers are wrapped last.
    """
    limits = list(widths)
    excess = _table_width(widths) - max_width
    for aligned_as, minimum in (("left", _MIN_TEXT_WIDTH), ("right", _MIN_PHRASE_WIDTH)):
        columns = [index for index, column in enumerate(block.columns) if column.align == aligned_as]
        for index in sorted(columns, key=lambda index: -widths[index]):
            has_texts = aligned_as == "left" or any(_is_phrase(row[index]) for row in block.rows)
            if has_texts and excess > 0:
                longest_word = max(
                    (len(word) for row in block.rows for word in without_breaks(row[index]).split(" ")), default=0
                )
                limits[index] = min(widths[index], max(minimum, longest_word, widths[index] - excess))
                excess -= widths[index] - limits[index]
    for row in block.rows:
        cells = (
            wrapped(cell, limit) if limit < width else [cell]
            for cell, limit, width in zip(row, limits, widths, strict=True)
        )
        yield from zip_longest(*cells, fillvalue="")


def _is_phrase(cell: str) -> bool:
    return " " in cell and any(map(str.isalpha, cell))


def result_json(result: TestResult, disagreements: Sequence[str], unjournaled: Sequence[str] = ()) -> dict[str, Any]:
    """Return the assessment as JSON values; an unavailable figure is null."""
    facts, repeated = result.facts, tuple(repeated_points(result))
    return {
        "format": 1,
        "run": facts.run_id,
        "test": facts.spec.test,
        "revision": facts.spec.revision,
        "verdict": result.verdict,
        "steady": result.steady,
        "unsteady": list(result.unsteady),
        "conformant": result.conformant,
        "ending": result.ending,
        "ending_detail": result.ending_detail,
        "written_bytes": result.written_bytes,
        "read_bytes": result.read_bytes,
        "loops": [_loop_json(result, loop, repeated) for loop in result.loops],
        "sampling": {"phase": result.sampling.phase, **_judged_json(result.sampling)} if result.sampling else None,
        "time_lines": [_line_json(line) for line in result.time_lines],
        "conclusion": result.conclusion.reason if result.conclusion else None,
        "deviations": [asdict(deviation) for deviation in result.deviations],
        "settings": [asdict(setting) for setting in facts.settings],
        "warnings": [asdict(warning) for warning in run_warnings(result)],
        "limits": [judgement.attributes for judgement in judgements(result)],
        "differs_from_journal": list(disagreements),
        "unjournaled_evidence": list(unjournaled),
    }


def _loop_json(result: TestResult, loop: Loop, repeated: Sequence[RepeatedPoint]) -> dict[str, Any]:
    points = [
        *((point.stimulus, point.figures) for point in repeated if point.name == loop.part),
        *window_points(result, loop),
    ]
    values = [{**stimulus_attributes(stimulus), **figures} for stimulus, figures in points]
    return {"part": loop.part, **_judged_json(loop), "points": values}


def _judged_json(judged: Loop | Sampling) -> dict[str, Any]:
    window = judged.window
    determinations = window.determinations if window else ()
    return {
        "steady": judged.steady,
        "rounds": [_round_json(measured) for measured in judged.rounds],
        "window": list(window.numbers) if window else None,
        "determinations": [{**asdict(tracked), **asdict(state)} for tracked, state in determinations],
    }


def _round_json(measured: MeasuredRound | SampledRound) -> dict[str, Any]:
    if isinstance(measured, SampledRound):
        return {"number": measured.number, "minute": measured.minute, "iops": measured.sample.iops}
    points = len(measured.measurements)
    return {"number": measured.number, "complete": measured.complete, "points": points}


def _line_json(line: TimeLine) -> dict[str, Any]:
    """Return a time line without its samples, which are in result.xml."""
    seconds, ios = math.fsum(line.seconds), math.fsum(line.read_ios) + math.fsum(line.write_ios)
    moved = math.fsum(line.read_bytes) + line.written_bytes
    return {
        "phase": line.phase,
        "part": line.part,
        **stimulus_attributes(line.stimulus),
        "samples": len(line),
        "engine_starts": line.engine_starts,
        "complete": line.complete,
        "io_seconds": seconds,
        "iops": rate_per_second(ios, seconds) if seconds else None,
        "mb_per_second": rate_per_second(moved, seconds) / MB if seconds else None,
        "written_bytes": line.written_bytes,
        "maximum_response_us": max(line.maximum_response_us, default=None),
    }


def difference_lines(differences: Sequence[str]) -> list[str]:
    """Return the first differences of a stored run's files from its journal as lines."""
    if not differences:
        return []
    more = len(differences) - _MAX_LISTED
    lines = ["Stored files differ from the journal:", *(f"  {line}" for line in differences[:_MAX_LISTED])]
    return [*lines, f"  and {more} more"] if more > 0 else lines
