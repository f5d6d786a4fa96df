"""A drive's name cannot control a terminal, hide text or start markup in any output."""

import contextlib
import dataclasses
import io
import json
import re
import sys
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from snia_pts.api.comparison import Comparison
from snia_pts.cli.commands.compare import _json, _lines
from snia_pts.cli.main import _printable_streams
from snia_pts.cli.notifications.config import MailConfig
from snia_pts.cli.notifications.content import Notification
from snia_pts.cli.notifications.delivery import message
from snia_pts.cli.text.formatting import json_text
from snia_pts.cli.text.lines import print_lines
from snia_pts.cli.text.result import result_json, result_lines
from snia_pts.record.result_xml import result_xml
from snia_pts.report import DATA_OUTPUTS, OUTPUTS, write
from snia_pts.report.comparison import build_comparison
from snia_pts.report.comparison_summary import Entry
from snia_pts.report.writing import render
from snia_pts.results.comparison import compare_figures, context_differences
from snia_pts.results.result import TestResult
from snia_pts.text import one_line, printable
from tests import samples

EVIL = "EVIL\x1b[31m\u202eGNP.exe\r\n<title>\u2028\x9b2J"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def evil() -> TestResult:
    """Return a result of a drive with hostile text in every field."""
    result = samples.iops_result()
    device = dataclasses.replace(result.facts.dut, model=EVIL, serial=EVIL, firmware=EVIL, write_cache_source=EVIL)
    return dataclasses.replace(result, facts=dataclasses.replace(result.facts, dut=device))


def require_clean(text: str, place: str, *, kept: str = "\n") -> None:
    """Require that a text names the drive and is printable."""
    hidden = {sign for sign in text if unicodedata.category(sign) in _HIDDEN} - set(kept)
    assert not hidden, f"{place}: {hidden!a}"
    assert "EVIL\ufffd[31m\ufffdGNP.exe" in text, place


def texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the report on a hostile drive in every format."""
    folder = tmp_path_factory.mktemp("evil")
    write(evil(), folder, [*OUTPUTS, *DATA_OUTPUTS])
    return folder


@pytest.mark.long
def test_reports_are_clean(written: Path) -> None:
    """RST, HTML, CSV, JUnit and the interactive report have the model as text, on one line."""
    for name in ("report.rst", "report.html", "report.junit.xml"):
        require_clean((written / name).read_bytes().decode(), name)
    interactive = (written / "report.interactive.html").read_text()  # plotly has control characters of its own
    assert "EVIL\ufffd[31m\ufffdGNP.exe" in interactive
    assert not {"\x1b", "\u202e", "\x9b"} & set(interactive)
    require_clean((written / "tables/run.csv").read_bytes().decode().replace("\r\n", "\n"), "csv")
    for path in written.glob("tables/*.csv"):
        assert "\x1b" not in path.read_text()


def test_html_has_one_title(written: Path) -> None:
    """The model starts no element, and the page's title contains it as text."""
    page = (written / "report.html").read_text()
    title = re.findall(r"<title>(.*?)</title>", page, re.DOTALL)
    assert len(title) == page.count("<title>") == 1
    require_clean(title[0], "title", kept="")


def test_data_is_clean(written: Path) -> None:
    """JSON, OCP and XLSX have the model as text, also after decoding."""
    require_clean(" ".join(texts(json.loads((written / "report.json").read_text()))), "json")
    lines = (written / "report.ocp.jsonl").read_text().splitlines()
    require_clean(" ".join(text for line in lines for text in texts(json.loads(line))), "ocp")
    with zipfile.ZipFile(written / "report.xlsx") as book:
        shared = etree.fromstring(book.read("xl/sharedStrings.xml"))
    require_clean(" ".join(shared.itertext()), "xlsx")


@pytest.mark.long
def test_pdf_is_clean(written: Path) -> None:
    """Text and metadata of the PDF have the model as text."""
    reader = pypdf.PdfReader(written / "report.pdf")
    assert reader.metadata is not None
    require_clean(reader.metadata.title or "", "title", kept="")
    require_clean(" ".join(page.extract_text() for page in reader.pages).replace("\n", " "), "pdf")


def test_result_xml_is_clean() -> None:
    """result.xml has the model as text, which reads back without bidirectional control characters."""
    root = etree.fromstring(result_xml(evil()))
    model = root.find("dut").get("model")  # type: ignore[union-attr]
    require_clean(model or "", "result.xml")
    require_clean(result_xml(evil()).decode(), "result.xml")


def test_terminal_and_json_are_clean() -> None:
    """The printed output is text, even where it is not formatted; --json decodes to text."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), _printable_streams():
        print("\n".join(result_lines(evil())))
        print("\rprogress", end="\r")
        print("a\rb")
        sys.stdout.write("\r")
    shown = stream.getvalue()
    assert shown.endswith("\rprogress\ra\ufffdb\n\r")
    require_clean(shown.replace("\r", ""), "terminal")
    require_clean(" ".join(texts(json.loads(json_text(result_json(evil(), [EVIL]))))), "assess --json")


def test_a_device_adds_no_line() -> None:
    """A line feed in a model stays inside its line."""
    result = evil()
    forged = dataclasses.replace(result.facts.dut, model="Good\nSTEADY STATE")
    stream = io.StringIO()
    print_lines(result_lines(dataclasses.replace(result, facts=dataclasses.replace(result.facts, dut=forged))), stream)

    assert "Good\ufffdSTEADY STATE" in stream.getvalue()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_wraps_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long line continues after a word, further to the right; nothing is lost, and a path stays whole."""
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/very/long/path/to/the/folder/of/a/run/of-the-test"
    lines = ["short", f"  device under test: SIMULATED: {path} the standard: a solid state drive", "  a    b"]
    terminal, file = Terminal(), io.StringIO()
    print_lines(lines, terminal)
    print_lines(lines, file)
    shown = terminal.getvalue().splitlines()
    assert file.getvalue().splitlines() == lines
    assert shown[0] == "short"
    assert shown[-1] == "  a    b"
    assert all(len(line) <= 40 or path in line for line in shown)
    assert all(line.startswith("    ") for line in shown[2:-1])
    assert " ".join(terminal.getvalue().split()) == " ".join(file.getvalue().split())


def test_a_number_stays_with_its_unit_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any width, no line ends between a number and its unit, and the spaces are those of the text."""
    text = "the drive of 3.841 TB has 1 DWPD: data 1.9 %, slope 1.7 %; 12 h 05 min left"
    for width in range(30, len(text)):
        monkeypatch.setenv("COLUMNS", str(width))
        terminal = Terminal()
        print_lines([text], terminal)
        shown = terminal.getvalue()
        assert not re.search(r"\d\n\s+(TB|DWPD|%|h|min)", shown), shown
        assert " ".join(shown.split()) == text
        assert "\N{NO-BREAK SPACE}" not in shown


@pytest.mark.long
def test_comparison_is_clean() -> None:
    """The pages, lines and JSON of a comparison contain the model and the paths as text."""
    results = [samples.iops_result(), evil()]
    entries = tuple(Entry(label=label, path=EVIL, result=result) for label, result in zip("AB", results, strict=True))
    comparison = Comparison(entries=entries, context=context_differences(results), figures=compare_figures(results))
    files = render(build_comparison(entries), stem="comparison")
    reader = pypdf.PdfReader(io.BytesIO(files["comparison.pdf"]))

    require_clean(files["comparison.rst"].decode(), "rst")
    require_clean(files["comparison.html"].decode().replace("<wbr>", ""), "html")
    require_clean(" ".join(page.extract_text() for page in reader.pages).replace("\n", " "), "pdf")
    require_clean("\n".join(_lines(comparison)), "terminal")
    require_clean(" ".join(texts(json.loads(json_text(_json(comparison))))), "compare --json")


def test_mail_is_clean() -> None:
    """Subject and body of the mail have the model as text, and it adds no header."""
    where = MailConfig(server="relay", port=25, sender="lab@example.org", recipients=("a@example.org",))
    letter = Notification(about=f"test of {EVIL}", report=Path("/none/report.pdf"), verdict="done")
    letter.output.write(EVIL)
    mail = message(where, letter)
    require_clean(mail["Subject"], "subject", kept="")
    require_clean(mail.get_content(), "body")


@given(st.text())
def test_printable_characters_stay(text: str) -> None:
    """No unprintable character remains, every other one does, and applying it twice changes nothing."""
    shown = printable(text)
    assert len(shown) == len(text)
    assert not any(unicodedata.category(sign) in _HIDDEN for sign in shown)
    pairs = zip(text, shown, strict=True)
    assert all(now == was or (now == "\ufffd" and unicodedata.category(was) in _HIDDEN) for was, now in pairs)
    assert printable(text, lines=True).count("\n") == text.count("\n")
    assert one_line(one_line(text)) == one_line(text)
    assert len(one_line(text).splitlines()) <= 1
