"""The HTML pages by the rules of WCAG 2.2 that a program can check: structure, names, and contrast of colours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import pytest
from lxml import html as markup

from snia_pts.files import data_folder
from snia_pts.report import suite
from snia_pts.report.figures import style
from snia_pts.report.formats import html, interactive, rst
from snia_pts.report.pages import Report
from snia_pts.report.registry import build
from snia_pts.results.result import TestResult
from snia_pts.spec import SPEC_TYPES
from tests import profiles, samples

#: The contrast that WCAG requires of text, and of the lines of a figure.
TEXT, LINES = 4.5, 3.0


def rendered(report: Report) -> bytes:
    return html.make(report, rst.parse(rst.render(report)), {})


def matrix() -> TestResult:
    return profiles.result(profiles.shipped("file-matrix", range="4M"))


PAGES: dict[str, Callable[[], bytes]] = {
    **{test: (lambda test=test: rendered(build(samples.result_of(test)))) for test in SPEC_TYPES},  # type: ignore[misc]
    "profile": lambda: rendered(build(matrix())),
    "summary": lambda: rendered(
        suite.build(suite.overview([("hir", samples.result_of("hir"))], {"hir": ["report.html"]}))
    ),
    "interactive": lambda: interactive.make(samples.iops_result()),
    "interactive profile": lambda: interactive.make(matrix()),
}


@cache
def document(name: str) -> markup.HtmlElement:
    return markup.document_fromstring(PAGES[name]())


@pytest.fixture(autouse=True)
def _short_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive, "_library", lambda: "/* plotly */")


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_language_a_title_and_a_main_part(name: str) -> None:
    """The document has all three, and the title is that of the page."""
    page = document(name)
    assert page.get("lang") == "en"
    assert [page.findtext("head/title")] == [heading.text_content() for heading in page.findall(".//h1")]
    assert len(page.findall(".//main")) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_headings_are_in_order(name: str) -> None:
    """A page has one heading of level 1, which is the first; no level is left out and no heading is empty."""
    headings = [
        (int(one.tag[1]), one.text_content().strip()) for one in document(name).xpath("//h1|//h2|//h3|//h4|//h5|//h6")
    ]
    levels = [level for level, _ in headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= level + 1 for level, later in pairwise(levels))
    assert all(text for _, text in headings)


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", PAGES)
def test_everything_that_is_not_text_has_a_name(name: str) -> None:
    """Images and interactive figures have a description, links have a text, and form fields would have a label."""
    page = document(name)
    assert all(len((image.get("alt") or "").split()) > 2 for image in page.iter("img"))
    assert all(figure.get("aria-label") for figure in page.xpath("//*[@role='img' or @role='figure']"))
    assert all(link.text_content().strip() for link in page.iter("a"))
    labelled = {label.get("for") for label in page.iter("label")}
    assert all(field.get("id") in labelled for field in page.xpath("//input|//select|//textarea"))
    if not name.startswith("summary"):
        assert page.xpath("//img|//*[@role='figure']")


@pytest.mark.parametrize("name", PAGES)
def test_links_inside_a_page_have_a_target(name: str) -> None:
    """Each id occurs once, and each link to an id has one."""
    page = document(name)
    ids = page.xpath("//@id")
    assert len(set(ids)) == len(ids)
    assert {target[1:] for target in page.xpath("//a/@href") if target.startswith("#")} <= set(ids)


@pytest.mark.parametrize("name", [name for name in PAGES if "interactive" not in name])
def test_cells_have_headers(name: str) -> None:
    """Tables of data have a caption, header cells their scope; every column, or every row, has a header."""
    tables = list(document(name).iter("table"))
    assert tables
    for table in tables:
        headers = list(table.iter("th"))
        assert all(header.get("scope") == ("col" if header.xpath("ancestor::thead") else "row") for header in headers)
        if table.get("class") in ("facts", "numbers", "texts"):
            rows = table.findall("tbody/tr")
            by_row = all(row.find("th") is not None for row in rows)
            by_column = table.find("thead") is not None
            assert by_row or by_column or len(rows[0]) == 1, markup.tostring(table)[:500]
            assert all(len(row) == len(rows[0]) for row in rows)


# -- colours ----------------------------------------------------------------------------------------------------------

Colour = tuple[float, float, float]


def colour(text: str) -> Colour:
    digits = text.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    red, green, blue = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return red, green, blue


def luminance(values: Colour) -> float:
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast of two colours, as WCAG defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def schemes(name: str) -> Iterator[dict[str, Colour]]:
    """Yield the colours of the light and of the dark scheme, by the names of their variables."""
    text = (data_folder("reports") / name).read_text()
    light, dark = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]+)", light))
    for scheme in (colours, colours | dict(re.findall(r"--([a-z]+): (#[0-9a-f]+)", dark))):
        yield {variable: colour(value) for variable, value in scheme.items()}


def test_text_has_enough_contrast_in_both_schemes() -> None:
    """Text on paper, on every background of a table and in titles; verdicts, notes and links on paper."""
    for scheme in schemes("report.css"):
        backgrounds = ("paper", "soft", "head", "title", "banner", "platform", "device", "setup", "parameters")
        pairs = [("ink", background) for background in backgrounds]
        pairs += [(name, "paper") for name in ("quiet", "good", "bad", "link")]
        assert {pair: ratio for pair in pairs if (ratio := contrast(scheme[pair[0]], scheme[pair[1]])) < TEXT} == {}
    for scheme in schemes("interactive.html.j2"):
        assert all(contrast(scheme[name], scheme["paper"]) >= TEXT for name in ("ink", "good", "bad"))


def inverted(values: Colour, amount: float, brightness: float) -> Colour:
    """Return a colour after CSS's ``invert``, ``hue-rotate(180deg)`` and ``brightness`` (Filter Effects Level 1)."""
    rotation = ((-0.574, 1.430, 0.144), (0.426, 0.430, 0.144), (0.426, 1.430, -0.856))
    negative = [amount + value * (1 - 2 * amount) for value in values]
    turned = (sum(factor * value for factor, value in zip(row, negative, strict=True)) for row in rotation)
    red, green, blue = (min(1.0, max(0.0, value)) for value in (brightness * min(1.0, max(0.0, one)) for one in turned))
    return red, green, blue


def test_figures_have_enough_contrast_in_dark_mode() -> None:
    """Inverted, texts and the colours of all lines are visible on the paper of the figure."""
    text = (data_folder("reports") / "report.css").read_text()
    (match,) = re.finditer(r"invert\((.*?)\) hue-rotate\(180deg\) brightness\((.*?)\)", text)
    amount, brightness = float(match[1]), float(match[2])
    paper = inverted(colour("#ffffff"), amount, brightness)
    assert luminance(paper) < 0.02
    for texts in (style.INK, style.QUIET, style.BAD):
        assert contrast(inverted(colour(texts), amount, brightness), paper) >= TEXT
    for line in style.COLOURS:
        assert contrast(inverted(colour(line), amount, brightness), paper) >= LINES
