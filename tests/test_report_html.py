"""The report as HTML: one file without scripts, requests or markup from device strings."""

from __future__ import annotations

import base64
import dataclasses
from html.parser import HTMLParser

from snia_pts.report.figures import render as drawing
from snia_pts.report.formats import html, rst
from snia_pts.report.registry import build
from snia_pts.results.result import TestResult
from snia_pts.text import one_line
from tests import samples

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(result: TestResult) -> str:
    report = build(result)
    return html.make(report, rst.parse(rst.render(report)), drawing.draw(report, ("svg",))["svg"]).decode("utf-8")


def test_the_page_makes_no_request_and_runs_no_script() -> None:
    """The page has no script, event handler or import; links lead to its own sections, sources are data URIs."""
    text = page(samples.iops_result(rounds=9))
    reader = Reader(text)
    assert not {tag for tag, _ in reader.tags} & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in reader.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        for name in ("src", "href", "data", "srcset", "poster"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), tag
    assert len(reader.all("style")) == 1
    assert "@import" not in text
    assert "url(" not in text


def test_figures_are_embedded_with_alt_texts() -> None:
    """Each figure is an image that contains its SVG, with alt text and caption; no id occurs twice."""
    result = samples.iops_result()
    report = build(result)
    drawn = drawing.draw(report, ("svg",))["svg"]
    reader = Reader(page(result))
    images = reader.all("img")
    assert len(images) == len(reader.all("figure")) == len(reader.all("figcaption")) == len(drawn)
    for image, figure in zip(images, report.figures, strict=True):
        kind, _, data = (image["src"] or "").partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(data) == drawn[figure.name]
        assert image["alt"] == one_line(figure.alt)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_header_appears_once_without_page_numbers() -> None:
    """The banner appears once at any length of the report, and no page number token of the PDF remains."""
    text = page(samples.iops_result())
    assert text.count("SNIA SSS TWG") == 1
    assert "###" not in text
    reader = Reader(text)
    assert len(reader.all("h2")) + len(reader.all("h1")) == 12
    assert "IOPS Test Report: EXAMPLE MZ7L3960HCJR-00A07" in reader.words


def test_markup_from_a_device_stays_text() -> None:
    """Markup in model, operator and command line appears as text, not as tags."""
    result = samples.iops_result(
        stop_after=1, ending="interrupted", operator=HOSTILE, device=samples.dut(model=HOSTILE)
    )
    facts = dataclasses.replace(result.facts, command_line=("snia-pts", HOSTILE))
    reader = Reader(page(dataclasses.replace(result, facts=facts)))
    assert not reader.all("script")
    assert not reader.all("img")
    assert HOSTILE in "".join(reader.words)


def test_the_style_sheet_supports_dark_mode_and_print() -> None:
    """The style sheet has a dark colour scheme, a white background for figures, and page breaks for print."""
    style = page(samples.iops_result(stop_after=1, ending="interrupted"))
    for rule in ("prefers-color-scheme: dark", "@media print", "break-before: page", "background: #fff"):
        assert rule in style
