"""The report as PDF: it has every page and figure as planned, or the build fails."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import logging
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pypdf
import pytest
import yaml

from snia_pts.errors import ReportError
from snia_pts.model.annotations import SignOff
from snia_pts.report import DATA_OUTPUTS, OUTPUTS, write
from snia_pts.report import registry as building
from snia_pts.report.figures import render as drawing
from snia_pts.report.formats import header_text, layout, pdf, rst
from snia_pts.report.formats.placements import Placement, Sheet
from snia_pts.report.formats.rst import TEMPLATES
from snia_pts.report.pages import Figure, Page, Prose, Report
from snia_pts.report.sections.summary import sign_off_table
from snia_pts.report.tables import Column, Table, facts
from snia_pts.results.result import TestResult
from tests import samples
from tests.typesetting import HEADER_FORMS, forms_of, typeset

ROOT = Path(__file__).parent.parent
#: The height of an A4 page, in points.
HEIGHT = 842.0
KINDS = {
    "steady": samples.iops_result(rounds=9, found=samples.deviations(8)),
    "not steady": samples.iops_result(steady=False),
    "stopped": samples.iops_result(stop_after=2 + 3 * 56 + 9, ending="interrupted"),
    "purge only": samples.iops_result(stop_after=1, ending="device failed"),
    "PTS 1.1": samples.iops_result(pts="1.1"),
    "4096-byte sectors": samples.iops_result(sector_bytes=4096, test_class="client"),
}


def long_names(*, steady: bool) -> TestResult:
    """Return a result whose texts are all very long and wide."""
    wide = "W" * 200
    result = samples.iops_result(
        rounds=9,
        steady=steady,
        found=samples.deviations(20),
        operator=wide,
        device=samples.dut(model=wide, serial="0123456789ABCDEF" * 8, firmware=wide, bus="NVMe " * 30),
        host=samples.platform(cpu=wide, motherboard=wide, hostname=wide, operating_system=wide, engine_version=wide),
    )
    return dataclasses.replace(result, finished=wide, facts=dataclasses.replace(result.facts, started=wide))


def typeset_parts(result: TestResult) -> tuple[Report, pypdf.PdfReader]:
    report = building.build(result)
    return report, pypdf.PdfReader(io.BytesIO(make(report)))


def make(report: Report) -> bytes:
    return pdf.make(report, rst.parse(rst.render(report)), drawing.draw(report, ("pdf",))["pdf"])


def laid_out(result: TestResult) -> tuple[Report, Sheet]:
    report, sheet = building.build(result), Sheet()
    layout.lay_out(report, rst.parse(rst.render(report)), sheet)
    return report, sheet


def words(page: pypdf.PageObject) -> str:
    return " ".join(page.extract_text().replace("\xa0", " ").split())


def pdf_titles(reader: pypdf.PdfReader) -> list[tuple[str, int]]:
    """Return the bookmarks with the numbers of their pages."""
    bookmarks: Any = reader.outline
    return [(mark.title, 1 + (reader.get_destination_page_number(mark) or 0)) for mark in bookmarks]


@pytest.mark.long
def test_bookmarks_and_contents_name_the_page_of_every_title() -> None:
    """A reader shows the bookmarks; each entry of the contents has its title's page as number and as link."""
    report, reader = typeset(KINDS["steady"])
    titles = pdf_titles(reader)
    assert [title for title, _ in titles] == [page.title for page in report.pages]
    assert all(title in words(reader.pages[number - 1]) for title, number in titles)
    assert reader.page_mode == "/UseOutlines"
    page = next(page for page in reader.pages if "Contents " in words(page))
    last = f"{titles[-1][0]} {titles[-1][1]}"
    contents = words(page).partition("Contents ")[2].partition(last)[0] + last
    assert sorted(contents.split()) == sorted(" ".join(f"{title} {number}" for title, number in titles).split())
    annotations: Any = page["/Annots"]
    targets = {next(iter(annotation.get_object()["/Dest"])).idnum for annotation in annotations}
    pages: Any = [page.indirect_reference for page in reader.pages]
    assert targets == {pages[number - 1].idnum for _, number in titles}


@pytest.mark.long
@pytest.mark.parametrize(("count", "shown"), [(5, False), (6, True)])
def test_a_short_report_has_no_contents(count: int, shown: bool) -> None:
    """Contents are in RST, PDF and HTML from six pages on."""
    report = building.build(KINDS["steady"])
    short = dataclasses.replace(report, pages=report.pages[:count])
    reader = pypdf.PdfReader(io.BytesIO(make(short)))
    assert any("Contents" in words(page) for page in reader.pages) == shown
    assert (".. contents::" in rst.render(short)) == shown


@pytest.mark.long_but_first
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_has_header_number_and_title(kind: str) -> None:
    """Each PDF page has a header, its number and the total; the title of each planned page is in the PDF."""
    report, reader = typeset(KINDS[kind])
    texts = [words(page) for page in reader.pages]
    assert len(texts) <= len(report.pages) + 2  # summary and provenance may take two
    assert all(any(page.title in text for text in texts) for page in report.pages)
    assert "SNIA SSS TWG" in texts[0]
    brief = {page.title for page in report.pages if page.has_short_header}
    starts = {number: title not in brief for title, number in pdf_titles(reader)}
    continued = {number for number, text in enumerate(texts, start=1) if "(continued)" in text}
    full = [starts.get(number, False) and number not in continued for number in range(2, len(texts) + 1)]
    assert ["SNIA SSS TWG" in text for text in texts[1:]] == full
    for number, text in enumerate(texts, start=1):
        assert f" {number} of {len(reader.pages)}" in text
        assert "EXAMPLE MZ7L3960HCJR-00A07" in text.replace("MZ7L3960 ", "MZ7L3960")
        assert "\N{REPLACEMENT CHARACTER}" not in text


@pytest.mark.long
def test_figures_are_vector_and_in_full_size() -> None:
    """Every figure is a form that is placed once, at its planned size; no page has an image."""
    report, reader = typeset_parts(KINDS["steady"])
    forms = {}
    for page in reader.pages:
        for name, reference in forms_of(page).items():
            form = reference.get_object()
            assert form["/Subtype"] == "/Form"
            if not name.startswith(HEADER_FORMS):
                assert name not in forms
                forms[name] = form["/BBox"]
    assert {name: [round(float(side)) for side in box] for name, box in forms.items()} == {
        figure.name: [0, 0, 497, math.ceil(72 * figure.height)] for figure in report.figures
    }


@pytest.mark.long
def test_the_header_is_in_the_document_once() -> None:
    """Pages use the same form as header, unless it is short, and their own for the page number, at its right."""
    _, sheet = laid_out(KINDS["steady"])
    x, y = sheet.number_at
    left, _, right, top = sheet.frame
    assert right - left - 5 < x + sheet.number_width < right - left  # the padding of the cell
    assert 0 < y < HEIGHT - top
    _, reader = typeset(KINDS["steady"])
    shown = [
        {name: form for name, form in forms_of(page).items() if name.startswith(HEADER_FORMS)} for page in reader.pages
    ]
    titles, texts = len(pdf_titles(reader)), [words(page) for page in reader.pages]
    expected = [1 + ("SNIA SSS TWG" in text) + titles * ("Contents " in text) for text in texts]
    assert [len(forms) for forms in shown] == expected  # a title's page number is a form, too
    assert len({form.idnum for forms in shown for form in forms.values()}) == 1 + len(shown) + titles


@pytest.mark.long
def test_a_report_of_one_page_has_a_page_number() -> None:
    """A report of a single page ends with the line "1 of 1"."""
    report = building.build(KINDS["purge only"])
    short = dataclasses.replace(report, pages=report.pages[:1])
    (page,) = pypdf.PdfReader(io.BytesIO(make(short))).pages
    assert page.extract_text().splitlines()[-1] == "1 of 1"


def test_a_header_without_a_page_number_is_an_error() -> None:
    """A header without the tokens for page number and total is refused."""
    report = building.build(KINDS["purge only"])
    cells = (*report.header.standard.rows[0][:-1], "1 of 1")
    header = dataclasses.replace(report.header, standard=dataclasses.replace(report.header.standard, rows=(cells,)))
    with pytest.raises(ReportError, match="no page number"):
        make(dataclasses.replace(report, header=header))


@pytest.mark.long
@pytest.mark.parametrize("steady", [True, False])
def test_a_header_with_long_names_leaves_room_for_the_report(steady: bool) -> None:
    """With very long and wide names, pages and figures pass the check, and 55 % of the page height remains."""
    report, sheet = laid_out(long_names(steady=steady))
    pdf.check(report, sheet, pages=sheet.titles[-1][1])
    assert sheet.frame[3] > 0.55 * HEIGHT


@pytest.mark.long
def test_a_long_name_in_the_header_is_broken_at_its_hyphen() -> None:
    """A serial number too long for its cell breaks after a hyphen, not within a word."""
    _, reader = typeset(samples.result_of("iops", device=samples.dut(serial="SIM-ENTERPRISE-NVME")))
    assert "SIM-ENTERPRISE- NVME" in words(reader.pages[0])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("file snia-pts-file-matrix/x.data", ["file snia-pts-file-", "matrix/x.data"]),
        ("file /srv/measurements_of_drives/x.data", ["file /srv/", "measurements_of_", "drives/x.data"]),
        ("SAMSUNG MZQL2960HCJR-00A07-0001", ["SAMSUNG", "MZQL2960HCJR-00A07-", "0001"]),
        ("Example SSD-1000 of 2.0.2 form", ["Example SSD-1000 of", "2.0.2 form"]),
        ("of sim:enterprise-nvme", ["of sim:enterprise-", "nvme"]),
        ("x" * 45, ["x" * 20, "x" * 20, "x" * 5]),
        ("ab-" + "x" * 25, ["ab-" + "x" * 17, "x" * 8]),
        ("", [""]),
    ],
)
def test_a_word_too_long_for_its_line_is_broken_after_a_sign(text: str, lines: list[str]) -> None:
    """Of 20 letters: within letters or digits only if they alone are longer; a word that fits, only at a hyphen."""
    assert header_text.wrap(text, 20, len) == lines


@pytest.mark.long
def test_a_long_file_name_in_the_header_is_not_broken_within_a_word() -> None:
    """Neither in the narrow cell of the full header nor in that of the short one."""
    name = "file snia-pts-file-matrix/measurements_of.data"
    _, reader = typeset(samples.iops_result(stop_after=1, ending="interrupted", device=samples.dut(model=name)))
    first, last = (reader.pages[number].extract_text().splitlines() for number in (0, -1))
    assert {"file snia-pts-file-", "matrix/", "measurements_of.", "data"} <= set(first)
    assert {"file snia-pts-file-matrix/", "measurements_of.data"} <= set(last)


@pytest.mark.long
def test_the_header_leaves_room_for_the_page() -> None:
    """With names of usual length, more than 69 % of the page height remains below the header."""
    assert laid_out(KINDS["steady"])[1].frame[3] > 0.69 * HEIGHT


def lines_page(title: str, rows: int) -> Page:
    """Return a page with a table of this many lines."""
    cells = tuple((f"{title} {number}",) for number in range(rows))
    table = Table(kind="texts", columns=(Column(),), rows=cells, headed=False, title="Lines")
    return Page(title=title, blocks=(table,), flows=True)


def page_texts(*pages: Page, joined: bool) -> list[str]:
    """Return the text of each page of a PDF with these pages."""
    report = dataclasses.replace(building.build(KINDS["purge only"]), pages=pages, joined=joined)
    return [words(page) for page in pypdf.PdfReader(io.BytesIO(make(report))).pages]


@pytest.mark.parametrize("joined", [True, False])
def test_only_in_a_joined_report_does_a_page_begin_below_the_one_before_it(joined: bool) -> None:
    """A page of 25 lines follows 10 lines there; in a report of the standard it has a PDF page of its own.

    Only the second page follows the end of the first there, too, and any page the end of one that began on an earlier
    PDF page.
    """
    texts = page_texts(lines_page("First", 10), lines_page("Second", 25), lines_page("Third", 25), joined=joined)
    assert ["Second 0" in text for text in texts] == [True, False]
    texts = page_texts(lines_page("First", 50), lines_page("Second", 10), lines_page("Third", 25), joined=joined)
    assert ["Third 0" in text for text in texts] == ([False, True] if joined else [False, False, True])
    texts = page_texts(lines_page("First", 20), lines_page("Long", 50), lines_page("Third", 25), joined=joined)
    assert ["Long 0" in text for text in texts] == [True, False]
    assert ["Third 0" in text for text in texts] == [False, True]


@pytest.mark.long
def test_a_page_moves_as_a_whole_unless_it_is_longer_than_a_page() -> None:
    """After 25 lines, 30 lines begin on the next page; 100 lines fill the rest of the page first.

    So do 45 lines after 10: more than half of the page would remain empty.
    """
    texts = page_texts(lines_page("First", 25), lines_page("Second", 30), joined=True)
    assert ["Second 0" in text for text in texts] == [False, True]
    texts = page_texts(lines_page("First", 25), lines_page("Second", 100), joined=True)
    assert "Second 0" in texts[0]
    texts = page_texts(lines_page("First", 10), lines_page("Second", 45), joined=True)
    assert ["Second 0" in text for text in texts] == [True, False]


@pytest.mark.long
def test_the_title_of_the_sign_off_is_on_the_page_of_its_rows() -> None:
    """Its rows are higher than those of other tables, with room for signatures."""
    signed = sign_off_table("A. Operator", SignOff(approved_by="B. Lead", auditor="C. Auditor"))
    sentence = Prose(text=f"Signed: {'what is signed ' * 20}to the last word.")
    for rows in range(28, 44, 2):
        lines = lines_page("Lines", rows)
        texts = page_texts(dataclasses.replace(lines, blocks=(*lines.blocks, signed, sentence)), joined=True)
        (title,) = (text for text in texts if "Sign-off" in text)
        assert "Tested by" in title
        assert "Auditor" in title
        assert "last word" in title


def test_tables_that_do_not_fit_below_a_full_header_have_a_short_one() -> None:
    """50 lines are on one page with the short header; 40 lines on one with the full header."""
    texts = page_texts(lines_page("First", 30), lines_page("Long", 50), lines_page("Other", 40), joined=False)
    assert ["SNIA SSS TWG" in text for text in texts] == [True, False, True]


@pytest.mark.long
def test_a_continued_section_has_a_short_header_with_its_title() -> None:
    """Its other pages have test, model, serial number, title and page number, and room for more rows."""
    table = Table(
        kind="texts", columns=(Column(),), rows=tuple((f"row {number}",) for number in range(150)), headed=False
    )
    report = building.build(samples.iops_result(rounds=9, device=samples.dut(serial="S<1>")))
    page = Page(title="Rows & more", blocks=(table,), flows=True)
    reader = pypdf.PdfReader(io.BytesIO(make(dataclasses.replace(report, pages=(page,)))))
    first, *others = (words(page) for page in reader.pages)
    assert "Rows & more (continued)" not in first
    assert len(others) > 1
    for number, text in enumerate(others, start=2):
        assert "PTS-E 2.0.2 - IOPS Test" in text
        assert "S/N: S<1>" in text
        assert "Rows & more (continued)" in text
        assert "Motherboard" not in text
        assert f"{number} of {len(reader.pages)}" in text
    assert others[0].count("row ") > first.count("row ") + 10


@pytest.mark.long
@pytest.mark.parametrize(("rows", "pages"), [(6, 2), (30, 3)])
def test_only_a_short_section_begins_below_the_one_before_it(rows: int, pages: int) -> None:
    """A table of six rows has no page of its own if there is room; one of thirty rows has."""
    table = Table(
        kind="texts", columns=(Column(),), rows=tuple((f"row {number}",) for number in range(rows)), headed=False
    )
    report = building.build(KINDS["steady"])
    titled = (lines_page("First", 40), lines_page("Second", 25), Page(title="Third", blocks=(table,)))
    made = dataclasses.replace(report, pages=titled)
    reader = pypdf.PdfReader(io.BytesIO(make(made)))
    assert len(reader.pages) == pages
    assert "Third" in words(reader.pages[-1])
    assert "SNIA SSS TWG" in words(reader.pages[-1])


@pytest.mark.long
def test_many_deviations_continue_on_the_next_page() -> None:
    """Sixty deviations are all in the PDF, on several pages, with repeated headings."""
    report, reader = typeset(samples.iops_result(found=samples.deviations(60)))
    assert len(reader.pages) > len(report.pages)
    text = " ".join(words(page) for page in reader.pages)
    assert text.count("setup.queue_depth") == 15
    assert text.count("Required by the standard") >= 2


@pytest.mark.long
def test_only_headings_are_repeated_on_the_next_page() -> None:
    """The first row of a table without headings appears once; headings are repeated on the next pages."""
    rows = tuple((f"name {number}", f"value {number}") for number in range(160))
    headed = Table(kind="texts", columns=(Column(heading="Left"), Column(heading="Right")), rows=rows)
    report = building.build(KINDS["steady"])
    page = Page(title="Tables", blocks=(facts(rows), headed), flows=True)
    shown = pypdf.PdfReader(io.BytesIO(make(dataclasses.replace(report, pages=(page,)))))
    text = "\n".join(page.extract_text() for page in shown.pages)

    assert len(shown.pages) > 4
    assert text.count("name 0\n") == text.count("name 159\n") == 2
    assert text.count("Left") > 2


@pytest.mark.long_but_first
@pytest.mark.parametrize("field", ["what", "standard", "actual", "clause", "operator", "model"])
def test_a_very_long_text_is_cut_in_the_pdf(field: str) -> None:
    """A text of several pages adds at most two pages to the PDF; the RST has the complete text."""
    long = "much to say " * 500
    result = samples.iops_result(stop_after=1, ending="interrupted", operator=long if field == "operator" else "")
    changed = result.facts
    if field == "model":
        changed = dataclasses.replace(changed, dut=dataclasses.replace(changed.dut, model=long))
    elif field in ("what", "standard", "actual", "clause"):
        (deviation,) = samples.deviations(1)
        changed = dataclasses.replace(changed, deviations=(dataclasses.replace(deviation, **{field: long}),))
    report, reader = typeset_parts(dataclasses.replace(result, facts=changed))

    assert len(reader.pages) <= len(report.pages) + 2
    assert "much to say" in " ".join(words(page) for page in reader.pages)
    if field != "operator":
        assert long.strip() in rst.render(report)


@pytest.mark.long
def test_the_pdf_metadata_has_no_control_characters() -> None:
    """Control characters in author and title become U+FFFD, and a line break becomes a space."""
    result = samples.iops_result(
        stop_after=1, ending="interrupted", operator="\u202eJ.\x1b Doe\udcff", device=samples.dut(model="a\nb")
    )
    metadata = typeset_parts(result)[1].metadata

    assert metadata is not None
    assert (metadata.author, metadata.title) == ("\ufffdJ.\ufffd Doe\ufffd", "IOPS Test Report: a b")


UNUSUAL: dict[str, dict[str, Any]] = {
    "a dead device": {"scale": 0.0},
    "many block sizes and mixes": {
        "overrides": [
            ("rounds.block_sizes_kib", [1024.0, *(float(size) for size in range(4, 72, 4))]),
            ("rounds.read_percents", list(range(100, -1, -5))),
        ]
    },
    "five tracked variables": {
        "overrides": [
            (
                "steady_state.tracked",
                [{"metric": "iops", "block_size_kib": float(size), "read_percent": 0} for size in (4, 8, 16, 32, 64)],
            )
        ]
    },
    "80 rounds, a window of 20": {
        "steady": False,
        "overrides": [("rounds.maximum", 80), ("steady_state.window_rounds", 20)],
    },
    "nothing at all": {"stop_after": 0, "ending": "unfinished"},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", UNUSUAL)
def test_altered_tests_and_unusual_devices_have_reports(kind: str) -> None:
    """Each planned page is in the PDF, and long tables add at most 16 pages."""
    report, reader = typeset(samples.iops_result(**UNUSUAL[kind]))
    text = " ".join(words(page) for page in reader.pages)
    assert all(page.title in text for page in report.pages)
    assert len(reader.pages) <= len(report.pages) + 16


@pytest.mark.long
@pytest.mark.parametrize("test", ["wsat", "hir", "xsr", "composite", "dirth"])
def test_a_test_at_full_length_has_every_planned_page(test: str) -> None:
    """The PDF of a full-length test has each planned page, and every page has the test's title."""
    result = samples.result_of(test)
    report, reader = typeset(result)
    texts = [words(page) for page in reader.pages]
    assert all(result.facts.spec.title in text for text in texts)
    assert all(any(page.title in text for text in texts) for page in report.pages)


@pytest.mark.long
@pytest.mark.parametrize("count", range(38, 50, 4))
def test_a_page_has_at_least_three_rows_of_a_table_and_all_of_a_short_one(count: int) -> None:
    """A long table is divided before its last three rows; a short one below it moves to the next page."""
    columns = (Column(heading="Row"),)
    long, short = (
        Table(kind="facts", title=name, columns=columns, rows=tuple((f"{name}-{row}",) for row in range(rows)))
        for name, rows in (("long", count), ("short", 8))
    )
    report = building.build(KINDS["stopped"])
    page = Page(title="Rows", blocks=(long, short), flows=True, brief=True)
    reader = pypdf.PdfReader(io.BytesIO(make(dataclasses.replace(report, pages=(page,)))))
    pages = [words(page) for page in reader.pages]
    assert sum(text.count("long-") for text in pages) == count
    assert min(text.count("long-") for text in pages if "long-" in text) >= 3
    assert [text.count("short-") for text in pages if "short-" in text] == [8]


@pytest.mark.long
def test_a_report_of_six_sections_has_a_pdf_page_for_each() -> None:
    """The contents of a cross stimulus recovery test are on the second page, above its first figure."""
    report, reader = typeset(samples.result_of("xsr"))
    assert len(report.pages) == 6
    assert [number for _, number in pdf_titles(reader)] == list(range(1, 7))
    first, second = (words(page) for page in reader.pages[:2])
    assert "Contents" not in first
    assert "Contents" in second
    assert "Summary (continued)" in second


def with_figure(report: Report, figure: Figure) -> Report:
    page = Page(title="Broken", blocks=(figure,))
    return dataclasses.replace(report, pages=(*report.pages, page))


@pytest.mark.long
def test_a_figure_larger_than_the_page_is_an_error() -> None:
    """A figure that does not fit on a page in its planned size is refused, not shrunk."""
    report = building.build(KINDS["stopped"])
    figure = dataclasses.replace(next(report.figures), name="tall", height=10.5)
    with pytest.raises(ReportError, match="does not fit on a page"):
        make(with_figure(report, figure))


@pytest.mark.long
def test_a_page_that_takes_two_pdf_pages_is_an_error() -> None:
    """A page with two figures that need two PDF pages is refused."""
    report = building.build(KINDS["stopped"])
    first = next(report.figures)
    page = Page(
        title="Crowded", blocks=tuple(dataclasses.replace(first, name=name, height=4.3) for name in ("one", "two"))
    )
    with pytest.raises(ReportError, match="the page Crowded takes 2 PDF pages"):
        make(dataclasses.replace(report, pages=(*report.pages, page)))


@pytest.mark.long
def test_a_figure_drawn_in_the_wrong_size_is_an_error() -> None:
    """A figure whose drawing differs from its planned size is refused."""
    report = building.build(KINDS["stopped"])
    figure = dataclasses.replace(next(report.figures), name="small", height=3.0)
    with pytest.raises(ReportError, match="the figure small was drawn"):
        make(with_figure(report, figure))


@pytest.mark.long
def test_an_empty_figure_is_an_error() -> None:
    """A figure whose drawing has no commands is refused."""
    report = building.build(KINDS["stopped"])
    drawn = drawing.draw(report, ("pdf",))["pdf"]
    figure, empty = next(report.figures), pypdf.PdfWriter()
    empty.add_blank_page(*(72 * side for side in (figure.width, figure.height)))
    output = io.BytesIO()
    empty.write(output)
    with pytest.raises(ReportError, match=f"the figure {figure.name} is empty"):
        pdf.make(report, rst.parse(rst.render(report)), {**drawn, figure.name: output.getvalue()})


def sheet_of(report: Report) -> Sheet:
    """Return a sheet on which every page and figure is placed as planned."""
    sheet = Sheet(frame=(40, 30, 560, 600))
    for number, page in enumerate(report.pages, start=1):
        sheet.titles.append((page.title, number))
        for figure in page.blocks:
            if isinstance(figure, Figure):
                placement = Placement(page=number, x=50, y=200, width=72 * figure.width, height=72 * figure.height)
                sheet.figures.append((figure.name, placement))
    return sheet


def test_missing_duplicate_shrunk_and_misplaced_figures_are_errors() -> None:
    """The check names each figure that is not placed once, in its planned size, inside its page."""
    report = building.build(KINDS["steady"])
    good = sheet_of(report)
    pdf.check(report, good, pages=len(report.pages))

    def error(figures: Sequence[tuple[str, Placement]]) -> str:
        with pytest.raises(ReportError) as raised:
            pdf.check(report, dataclasses.replace(good, figures=list(figures)), pages=len(report.pages))
        return str(raised.value)

    (name, placement), rest = good.figures[-1], good.figures[:-1]  # on a page that may not flow
    assert f"{name} is in the PDF 0 times" in error(rest)
    assert f"{name} is in the PDF 2 times" in error([(name, placement), *good.figures])
    assert "not as planned" in error([(name, dataclasses.replace(placement, width=34.0)), *rest])
    assert "extends beyond its page" in error([(name, dataclasses.replace(placement, y=10.0)), *rest])
    assert "not on its page" in error([(name, dataclasses.replace(placement, page=1)), *rest])
    assert "was not planned" in error([*good.figures, ("other", placement)])


def test_wrong_pages_are_errors() -> None:
    """A page that is missing, takes two PDF pages, or is out of order is refused."""
    report = building.build(KINDS["steady"])
    good, count = sheet_of(report), len(report.pages)
    pdf.check(report, good, pages=count + 1)  # the last one, Provenance, may flow
    for titles, pages in (
        (good.titles[1:], count),
        ([*good.titles[::-1]], count),
        ([(title, number + 1) for title, number in good.titles], count + 1),
        ([(title, number + (number > 2)) for title, number in good.titles], count + 1),
    ):
        with pytest.raises(ReportError):
            pdf.check(report, dataclasses.replace(good, titles=titles, figures=good.figures), pages=pages)


def test_a_warning_of_rst2pdf_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning in rst2pdf's log, with which rst2pdf exits 0, stops the report; the log handlers are restored."""
    lay_out = layout.lay_out
    report = building.build(KINDS["purge only"])
    logger = logging.getLogger("rst2pdf")
    before = logger.handlers[:]

    def lay_out_with_warning(report: Report, document: object, sheet: Sheet) -> bytes:
        logger.warning("this image looks odd")
        return lay_out(report, document, sheet)  # type: ignore[arg-type]

    monkeypatch.setattr("snia_pts.report.formats.pdf.lay_out", lay_out_with_warning)
    with pytest.raises(ReportError, match="this image looks odd"):
        make(report)
    assert logger.handlers == before


@pytest.mark.long
def test_rst2pdf_is_unchanged_afterwards() -> None:
    """After a report reportlab's settings are restored, and rst2pdf handles docutils' nodes with its own handlers."""
    from docutils import nodes
    from reportlab import rl_config
    from rst2pdf.basenodehandler import NodeHandler

    before = rl_config.invariant
    make(building.build(KINDS["stopped"]))
    assert rl_config.invariant == before
    for kind in (nodes.image, nodes.figure, nodes.title, nodes.table):
        assert type(NodeHandler.dispatchdict[kind]).__module__.startswith("rst2pdf.")


@pytest.mark.long
def test_characters_that_the_fonts_lack_are_replaced() -> None:
    """Characters without a glyph become U+FFFD; a model that looks like the page number tokens stays as it is."""
    typeset_parts(KINDS["purge only"])
    assert layout.printable("a\u4e2d\N{DEGREE SIGN}") == "a\N{REPLACEMENT CHARACTER}\N{DEGREE SIGN}"
    count = "###Page### of ###Total###"
    _, reader = typeset_parts(samples.iops_result(stop_after=1, ending="interrupted", device=samples.dut(model=count)))
    assert count in words(reader.pages[0])


@pytest.mark.long
def test_no_line_ends_inside_a_quantity() -> None:
    """Spaces before units, in durations, ranges and queue depths do not break; all others do."""
    typeset_parts(KINDS["purge only"])  # registers the fonts
    text = "8 KiB 10 %, 8 h 00 min, 10 min 00 s, TC 1 - 32, 1024 (TC 32/QD 32), 99.999 % (ms), 3 points - 4 seeds"
    text = f"{text}, (minutes 1 - 9), 961\N{NARROW NO-BREAK SPACE}130 I/Os"
    words_of_a_line = [
        "8_KiB_10_%,",
        "8_h_00_min,",
        "10_min_00_s,",
        "TC_1_-_32,",
        "1024",
        "(TC_32/QD_32),",
        "99.999_%",
        "(ms),",
        *["3", "points", "-", "4", "seeds,"],
        *["(minutes", "1_-_9),"],
        "961_130_I/Os",
    ]
    assert layout.printable(text).replace("\N{NO-BREAK SPACE}", "_").split(" ") == words_of_a_line


@pytest.mark.long
def test_the_same_result_gives_the_same_bytes_in_two_processes(tmp_path: Path) -> None:
    """RST, HTML, PDF and figures do not depend on the process, its hash seed or the clock."""
    script = (
        "import sys, pathlib, snia_pts.report as report\nfrom tests import samples\n"
        "report.write(samples.iops_result(rounds=6), pathlib.Path(sys.argv[1]))"
    )
    checksums = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script, folder], env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        checksums.append(
            {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        )
    assert checksums[0] == checksums[1]
    assert {"report.rst", "report.pdf", "report.html", "figures/matrix-3d.svg", "figures/matrix-3d.pdf"} <= set(
        checksums[0]
    )


@pytest.mark.long
def test_files_are_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a report fails, the files of the previous report are unchanged, and no temporary file remains."""
    result = KINDS["purge only"]
    paths = write(result, tmp_path, ("rst", "html"))
    assert {name: path.name for name, path in paths.items()} == {"rst": "report.rst", "html": "report.html"}
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ReportError, match="unknown format doc"):
        write(result, tmp_path, ("rst", "doc"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr("os.rename", full)
    with pytest.raises(ReportError, match="No space left"):
        write(KINDS["stopped"], tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_importing_the_report_package_loads_no_heavy_library() -> None:
    """Importing snia_pts.report loads none of matplotlib, numpy, rst2pdf, docutils, pypdf, jinja2 and xlsxwriter."""
    script = "import sys, snia_pts.report; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(OUTPUTS) == {"rst", "pdf", "html"}
    assert set(DATA_OUTPUTS) == {"xlsx", "csv", "json", "junit", "ocp", "interactive"}
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    heavy = {"matplotlib", "numpy", "rst2pdf", "reportlab", "docutils", "pypdf", "jinja2", "lxml", "xlsxwriter"}
    assert not loaded & heavy


def test_no_text_of_a_page_is_smaller_than_seven_points() -> None:
    """Header and tables included; figures have their own sizes."""
    styles = yaml.safe_load((TEMPLATES / "report.yaml").read_text(encoding="utf-8"))["styles"]
    assert styles["small"]["fontSize"] == styles["header"]["fontSize"] == 7
    assert min(style["fontSize"] for style in styles.values() if "fontSize" in style) >= 7
