"""The report as HTML: one file without scripts, requests or markup from device strings."""

from __future__ import annotations

import base64
import dataclasses
import io
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pypdf
import pytest
from lxml import html as markup
from PIL import Image

from snia_pts.report import suite
from snia_pts.report.figures import render as drawing
from snia_pts.report.formats import html, rst
from snia_pts.report.registry import build
from snia_pts.results.result import TestResult
from snia_pts.text import one_line
from tests import samples
from tests.drives import need_program

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


def test_a_range_stays_on_one_line() -> None:
    """Browsers break a line after a hyphen, also before a no-break space, but not in a span that forbids it."""
    text = page(samples.result_of("wsat", steady=True, overrides=[("saturation.seconds", 7260)]))
    space = "\N{NO-BREAK SPACE}"
    assert f'(minutes <span class="whole">1{space}-{space}121</span>)' in text
    assert not re.search(f"[0-9]{space}-{space}[0-9]", re.sub('<span class="whole">.*?</span>', "", text))


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_the_header_appears_once_without_page_numbers() -> None:
    """The banner appears once at any length of the report, and no page number token of the PDF remains."""
    result = samples.iops_result()
    text = page(result)
    assert text.count("SNIA SSS TWG") == 1
    assert "###" not in text
    reader = Reader(text)
    assert [len(reader.all(tag)) for tag in ("h1", "h2", "h3")] == [1, len(build(result).pages), 0]
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


@pytest.mark.long
def test_the_contents_link_to_every_page() -> None:
    """Each page of the report has a link to its own section; a summary of one page has no contents."""
    result = samples.iops_result()
    document = markup.fromstring(page(result))
    links = {link.get("href", ""): link.text_content() for link in document.iterfind(".//nav//li//a")}
    titles = {f"#{section.get('id')}": section.findtext("h2") for section in document.iterfind(".//section")}
    assert links == titles
    assert list(links.values()) == [item.title for item in build(result).pages]
    stopped = suite.build(suite.overview([("latency", samples.result_of("latency"))]))
    assert b"<nav" not in html.make(stopped, rst.parse(rst.render(stopped)), {})


def test_long_identifiers_may_be_broken_and_words_may_not() -> None:
    """A path has breaks after its inner slashes, a digest after 16 digits; words and names of files have none."""
    path, digest = "/dev/disk/by-id/nvme-eui.0025388b71b0c0de", "ab" * 16
    result = samples.iops_result(stop_after=1, ending="interrupted")
    words = ("snia-pts", path, digest, "a-name-with-many-hyphens", "conformant", "/lab/limits-of-drives.toml")
    report = build(dataclasses.replace(result, facts=dataclasses.replace(result.facts, command_line=words)))
    text = html.make(report, rst.parse(rst.render(report)), {}).decode()
    shown = f"/dev/<wbr>disk/<wbr>by-id/<wbr>nvme-eui.<wbr>0025388b71b0c0de {digest[:16]}<wbr>{digest[16:]}"
    assert f"snia-pts {shown} a-name-with-many-hyphens conformant /lab/<wbr>limits-of-drives.toml" in text
    assert " ".join(words) in text.replace("<wbr>", "")


def test_a_number_stays_with_its_thousands_and_its_unit() -> None:
    """No line ends in 100 000 I/Os, however the text was written."""
    result = samples.iops_result(stop_after=1, ending="interrupted", operator="needs 100 000 I/Os, 5 % or 20 ms")
    space = "\N{NO-BREAK SPACE}"
    assert f"needs 100{space}000{space}I/Os, 5{space}% or 20{space}ms" in page(result)


def test_dates_and_names_of_files_and_drives_stay_whole() -> None:
    """Browsers break a line after a hyphen, but not in these."""
    text = page(samples.iops_result(device=samples.dut(serial="S5XY-9001-QT")))
    for whole in ("2026-11-03", "00001-purge", "S5XY-9001-QT"):
        assert f'<span class="whole">{whole}</span>' in text, whole


#: Counts the words that a line break splits; a script in a copy of the page.
BROKEN_WORDS = """<script>
const broken = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let text; (text = texts.nextNode());)
  for (const word of text.data.matchAll(/[^\\s-]+/g)) {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(word[0]);
  }
document.title = JSON.stringify(broken);
</script></body>"""


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 640, 1440])
def test_no_word_is_broken_at_any_width(width: int, tmp_path: Path) -> None:
    """A browser breaks lines between words only, from the width of a telephone to that of a screen."""
    need_program("chromium", "chromium")
    narrow = f"<style>html {{ width: {width}px; }}</style></head>"
    text = page(samples.iops_result(device=samples.dut(model="SIMULATED enterprise NVMe SSD, PTS conformant")))
    (tmp_path / "page.html").write_text(text.replace("</head>", narrow).replace("</body>", BROKEN_WORDS))
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user", "--dump-dom")
    command = ["chromium", *options, f"--window-size={max(width, 500)},2000", f"file://{tmp_path}/page.html"]
    dom = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "<title>[]</title>" in dom, re.findall("<title>.*?</title>", dom)


@pytest.mark.long
def test_a_printed_page_has_its_number_and_whole_tables(tmp_path: Path) -> None:
    """Each head of a percentile table is below its caption: no table is continued, and no caption is alone.

    With the longest names of host and drive, too, each page has the header, and names the drive at its end.
    """
    need_program("chromium", "chromium")
    result = samples.iops_result(device=samples.dut(model="LONGMODEL " * 6, serial="SERIAL-NUMBER-" * 4))
    name = "a name of three lines " * 3
    platform = dataclasses.replace(
        result.facts.platform, hostname=name, motherboard=name, cpu=name, operating_system=name
    )
    facts = dataclasses.replace(result.facts, platform=platform)
    (tmp_path / "page.html").write_text(page(dataclasses.replace(result, facts=facts)))
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user")
    printed = ("--no-pdf-header-footer", f"--print-to-pdf={tmp_path}/page.pdf", f"file://{tmp_path}/page.html")
    subprocess.run(["chromium", *options, *printed], check=True, capture_output=True, timeout=120)
    texts = [one.extract_text() for one in pypdf.PdfReader(tmp_path / "page.pdf").pages]
    assert all(f"Page {number} of {len(texts)}" in text for number, text in enumerate(texts, start=1))
    assert all("Motherboard" in text for text in texts)
    assert all(text.count("IOPS Test - Report Page") == 1 for text in texts)
    assert all(text.count("PTS-E 2.0.2 - IOPS Test, ") == 1 for text in texts)
    percentiles = [text for text in texts if re.search("(Reads|Writes): ", text)]
    assert len(percentiles) > 1
    assert "Contents" in texts[0] + texts[1]
    titles = [section.title for section in build(result).pages]
    assert any(sum(title in text for title in titles) > 1 for text in texts[2:]), "a short section is not a page"
    for text in percentiles:
        captions = re.findall("(?:Reads|Writes): (?:I/Os|[0-9])", text)
        assert len(re.findall("Block size \\(KiB\\)", text)) == len(captions)


#: Names what a reader with a narrow screen cannot read; a script in a copy of the page.
UNREADABLE = """<script>
const caption = [...document.querySelectorAll("main caption")].filter(box => box.offsetWidth > innerWidth);
const small = [...document.querySelectorAll("figure img")].filter(image => image.offsetWidth < 600);
const steady = [...document.querySelectorAll("table.numbers")].filter(
  table => table.caption && table.caption.textContent.startsWith("Steady State") && table.offsetWidth > innerWidth);
document.querySelectorAll(".scroll").forEach(box => { box.scrollLeft = 1000; });
const moved = [...document.querySelectorAll("main :is(caption, tr > :first-child, figcaption, h2, p.note)")].filter(
  box => box.getBoundingClientRect().left < 0);
const page = [document.documentElement].filter(page => page.scrollWidth > innerWidth);
const unreadable = [...caption, ...small, ...steady, ...moved, ...page];
document.title = JSON.stringify(unreadable.map(item => item.textContent || item.alt));
</script></body>"""


@pytest.mark.long
def test_a_narrow_page_can_be_read(tmp_path: Path) -> None:
    """At 500 pixels, captions and the determination of steady state fit, and figures scroll instead of shrinking.

    Each table and figure scrolls on its own: the texts and the names of rows stay where they are.
    """
    need_program("chromium", "chromium")
    (tmp_path / "page.html").write_text(page(samples.iops_result()).replace("</body>", UNREADABLE))
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user", "--dump-dom")
    command = ["chromium", *options, "--window-size=500,2000", f"file://{tmp_path}/page.html"]
    dom = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "<title>[]</title>" in dom, re.findall("<title>.*?</title>", dom)


def test_commands_are_code_and_their_options_stay_whole() -> None:
    """A command is on a line of its own, without the full stop of its sentence; no option is broken after a hyphen."""
    result = samples.iops_result(stop_after=1, ending="interrupted")
    words = ("snia-pts", "iops", "/dev/sdb", "--seed", "7")
    report = build(dataclasses.replace(result, facts=dataclasses.replace(result.facts, command_line=words)))
    text = html.make(report, rst.parse(rst.render(report)), {}).decode()
    option = '<span class="whole">--seed</span>'
    assert f'<code class="command">snia-pts iops /dev/sdb {option} 7</code>' in text
    assert 'the device: <code class="command">snia-pts report RUN</code></' in text
    assert ".whole { white-space: nowrap; }" in text
    assert "code.command { display: block;" in text


def test_the_end_of_a_printed_page_names_the_drive_without_markup() -> None:
    """The rule is a string of CSS, in which only letters and digits stand for themselves."""
    result = samples.iops_result(stop_after=1, ending="interrupted", device=samples.dut(model='"; } </style> <b>'))
    text = page(result)
    (content,) = re.findall(r'@page \{ @bottom-left \{ content: "(.*?)"; \} \}', text)
    assert re.fullmatch(r"(?:\w|\\[0-9a-f]+ )+", content)
    shown = re.sub(r"\\([0-9a-f]+) ", lambda code: chr(int(code[1], 16)), content)
    assert shown.startswith('PTS-E 2.0.2 - IOPS Test, "; } </style> <b>, ')
    assert text.count("</style>") == 1


def test_the_style_sheet_supports_dark_mode_and_print() -> None:
    """The style sheet has a dark colour scheme, rules for print, and a header that is repeated on each page."""
    style = page(samples.iops_result(stop_after=1, ending="interrupted"))
    for rule in ("prefers-color-scheme: dark", "@media print", "break-inside: avoid", "header { display: table-header"):
        assert rule in style


@pytest.mark.long
def test_dark_mode_inverts_all_figures_but_not_the_logo() -> None:
    """Colours of figures are inverted, with their scale if they have one; those of the logo are not."""
    image = io.BytesIO()
    Image.new("RGB", (40, 20), "red").save(image, "PNG")
    result = samples.iops_result()
    about = dataclasses.replace(result.facts.about, logo=base64.b64encode(image.getvalue()).decode())
    reader = Reader(page(dataclasses.replace(result, facts=dataclasses.replace(result.facts, about=about))))
    first, *others = (attributes["class"] for attributes in reader.all("img"))
    assert first == "logo"
    assert others
    assert set(others) == {"plot"}
    assert "figure img.plot { filter: invert" in "".join(reader.words)
