"""``--about``: the operator's annotations, from the file to every output; and the digests of the evidence."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import os
import re
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from PIL import Image

from snia_pts.cli.main import main
from snia_pts.errors import ReportError, SpecError
from snia_pts.model.annotations import Annotations, read_annotations
from snia_pts.model.description import STATED
from snia_pts.record.result_xml import result_xml
from snia_pts.report import pages, tables
from snia_pts.report import registry as building
from snia_pts.report.checksums import checksums
from snia_pts.report.formats import rst, xlsx
from snia_pts.report.formats.csv_json import as_csv
from snia_pts.report.sections.logo import logo
from snia_pts.report.sections.summary import statements
from snia_pts.report.tables import UNKNOWN
from snia_pts.results.comparison import context_differences
from snia_pts.results.result import TestResult
from snia_pts.results.tables import data_tables
from snia_pts.results.warnings import run_warnings
from snia_pts.spec.reader import SPECS
from tests import samples
from tests.drives import need_root
from tests.typesetting import typeset

FILE = """
format = 1
operator = "A. Tester"
vendor = "Example Storage"
nand_type = "3D TLC"
hba = "on board"
logo = "logos/logo.png"
notes = ["An engineering sample.", "24 °C"]
"""


def png(width: int = 60, height: int = 20) -> bytes:
    """Return a picture."""
    output = io.BytesIO()
    Image.new("RGB", (width, height), "#0072b2").save(output, "PNG")
    return output.getvalue()


def write_about(folder: Path, text: str = FILE, picture: bytes | None = None) -> Path:
    """Write a file for --about, and its logo."""
    (folder / "logos").mkdir(exist_ok=True)
    (folder / "logos" / "logo.png").write_bytes(png() if picture is None else picture)
    path = folder / "about.toml"
    path.write_text(text, encoding="utf-8")
    return path


def with_about(about: Annotations) -> TestResult:
    """Return a short result with the annotations ``about``."""
    result = samples.iops_result(stop_after=1, ending="interrupted")
    return dataclasses.replace(result, facts=dataclasses.replace(result.facts, about=about))


def test_a_file_is_read_with_the_logo_beside_it(tmp_path: Path) -> None:
    """The logo's path is relative to the file, not to the current folder."""
    about = read_annotations(write_about(tmp_path))
    assert about == Annotations(
        operator="A. Tester",
        vendor="Example Storage",
        nand_type="3D TLC",
        hba="on board",
        notes=("An engineering sample.", "24 °C"),
        logo=base64.b64encode(png()).decode(),
    )
    assert about.image().size == (60, 20)


def test_every_field_is_optional(tmp_path: Path) -> None:
    """A file with only its format is valid and has no annotations."""
    assert read_annotations(write_about(tmp_path, "format = 1")) == Annotations()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "format: missing key"),
        ("format = 2", "format: 2: expected 1"),
        ("format = 1\nvendor = ''\nnand = 'TLC'", "nand: unknown key"),
        ("format = 1\nvendor = ''\nnand = 'TLC'", "vendor: '': expected a short line"),
        (
            "format = 1\nvendor = true\nhba = 3\nnand = 'TLC'",
            "has 3 mistakes:\n  vendor: true: expected a text\n  hba: 3: expected a text\n  nand: unknown key",
        ),
        ("format = 1\nnotes = 'one'", "notes: 'one': expected a list"),
        (f"format = 1\nnotes = {['n'] * 21}", "notes: expected at most 20 entries"),
        ("format = 1\n[features]\n'' = 'x'", "features: '': expected a short line"),
        ("format = 1\n[sign_off]\ntested_by = 'x'", "sign_off.tested_by: unknown key"),
        ("format = 1\nlogo = 'none.png'", "logo: 'none.png': No such file"),
        ("format = 1\nlogo = '.'", "logo: '.': it is not a regular file"),
        ("format = 1\nlogo = 'about.toml'", "logo: 'about.toml': expected a PNG as the logo"),
        (
            "format = 1\ncapacity = 'much'\nlogo = '.'\nvendr = 'x'",
            "has 3 mistakes:\n  vendr: unknown key; did you mean vendor?\n"
            "  logo: '.': it is not a regular file\n"
            "  capacity: 'much': expected a size like 960 GB",
        ),
    ],
)
def test_every_mistake_of_the_file_is_reported(tmp_path: Path, text: str, message: str) -> None:
    """Each with its key, and with the remedy of this file."""
    with pytest.raises(SpecError) as raised:
        read_annotations(write_about(tmp_path, text))
    assert str(raised.value).startswith(f"The file of --about {tmp_path / 'about.toml'} has ")
    assert message in str(raised.value)
    assert "docs/annotations.rst" in raised.value.hint


@pytest.mark.parametrize(
    ("picture", "text"),
    [
        (png()[:60], "a complete PNG"),
        (png(5000, 1), "at most 4096 x 4096 pixels"),
        (png()[:16] + b"\0\0\0\0" + png()[20:], "at most 4096 x 4096 pixels"),
        (png() + bytes(256 * 1024), "it is larger than 256 KiB"),
        (b"\xff\xd8\xff\xe0 a JPEG", "a PNG as the logo"),
        (png()[:-12] + b"\0\0\0\0iCCP" + zlib.crc32(b"iCCP").to_bytes(4, "big") + png()[-12:], "a complete PNG"),
    ],
)
def test_a_logo_that_cannot_be_drawn_is_refused_before_the_test(tmp_path: Path, picture: bytes, text: str) -> None:
    """Not after hours, when the report is made."""
    with pytest.raises(SpecError, match="1 mistake") as raised:
        read_annotations(write_about(tmp_path, picture=picture))
    assert text in str(raised.value)


@pytest.mark.root
def test_a_logo_of_another_user_is_refused(tmp_path: Path) -> None:
    """A report is public: the author of the file must not have root publish a picture that only others may read."""
    need_root()
    path = write_about(tmp_path)
    logo = tmp_path / "logos/logo.png"
    logo.chmod(0o600)
    read_annotations(path)
    os.chown(path, 65534, 65534)
    for mode in (0o600, 0o644):  # a folder above may be closed to the author
        logo.chmod(mode)
        with pytest.raises(SpecError, match="it does not belong to the owner of"):
            read_annotations(path)
    os.chown(logo, 65534, 65534)
    read_annotations(path)


def test_a_damaged_logo_in_a_journal_is_an_error() -> None:
    """In a changed record, annotations that cannot be decoded or drawn are errors."""
    for text in ("no base 64", base64.b64encode(b"GIF89a").decode()):
        with pytest.raises(ValueError, match="logo"):
            Annotations(logo=text)
    drawn = logo(Annotations(logo=base64.b64encode(png()[:60]).decode()))
    assert drawn is not None
    with pytest.raises(ReportError, match="cannot draw the logo"):
        drawn.draw()


def test_the_logo_is_on_the_first_page_alone() -> None:
    """As high as planned, in its own proportions, in all outputs of pages."""
    report = building.build(with_about(Annotations(logo=base64.b64encode(png()).decode())))
    places = [page.title for page in report.pages for block in page.blocks if getattr(block, "name", "") == "logo"]
    assert places == ["Summary"]
    (drawn,) = (figure for figure in report.figures if figure.name == "logo")
    canvas = drawn.draw()
    box = canvas.axes[0].get_position()
    assert tuple(canvas.get_size_inches()) == (pages.FIGURE_WIDTH, drawn.height)
    assert box.width * pages.FIGURE_WIDTH / (box.height * drawn.height) == pytest.approx(3)


def test_annotations_are_in_every_format(tmp_path: Path) -> None:
    """Header, first page, result.xml and tables have the annotations; without any, none mentions them."""
    about = read_annotations(write_about(tmp_path))
    result = with_about(about)
    text = rst.render(building.build(result))
    for item in ("A. Tester", "Example Storage", "3D TLC", "on board", "An engineering sample.", "24 °C"):
        assert item in text, item
    for item in ("Example Storage", "3D TLC", "on board"):
        assert f"{item} (as stated)" in text, item
        assert f"{item} (as stated by the operator)" in text, item
    root = result_xml(result).decode()
    assert f'vendor="Example Storage" nand_type="3D TLC" hba="on board" logo_sha256="{sha256(png())}"' in root
    assert '<note value="24 °C" />' in root
    note = "(as stated): stated by the operator, not read by this suite."
    assert note in text.replace("\\", "")
    assert note not in rst.render(building.build(with_about(Annotations(operator="A. Tester")))).replace("\\", "")
    assert "<about" not in result_xml(with_about(Annotations(operator="A. Tester"))).decode()
    assert "Notes" not in rst.render(building.build(with_about(Annotations()))).replace('"Notes"', "")


def test_names_to_sign_are_on_the_first_page(tmp_path: Path) -> None:
    """Names that are not stated are empty, to be filled in by hand; result.xml and tables have those that are."""
    text = 'format = 1\noperator = "A. Tester"\n[sign_off]\napproved_by = "B. Lead"'
    result = with_about(read_annotations(write_about(tmp_path, text)))
    (table,) = (
        block
        for block in building.build(result).pages[0].blocks
        if isinstance(block, tables.Table) and block.kind == "sign-off"
    )
    prose = [block for block in building.build(result).pages[0].blocks if isinstance(block, pages.Prose)]
    stated = ". ".join(statement.text.rstrip(".") for statement in statements(result))
    assert prose[-1].text == f"Signed: the report. {stated}."
    assert [row[:2] for row in table.rows] == [("Tested by", "A. Tester"), ("Approved by", "B. Lead"), ("Auditor", "")]
    assert b'<about vendor="" nand_type="" hba="" approved_by="B. Lead" />' in result_xml(result)
    (run,) = (table for table in data_tables(result) if table.name == "run")
    assert {("approved_by", "B. Lead"), ("auditor", "")} < set(run.rows)


def test_without_sign_off_there_is_no_block_to_sign(tmp_path: Path) -> None:
    """A section without names has the block, a file without the section has not."""
    for text, shown in (("format = 1", False), ("format = 1\n[sign_off]", True)):
        result = with_about(read_annotations(write_about(tmp_path, text)))
        assert ("Sign-off" in rst.render(building.build(result))) == shown


@pytest.mark.long
def test_every_page_has_the_id_of_the_run() -> None:
    """It starts the digest of the journal; a report without a journal has none."""
    digest = sha256(b"journal")
    _, reader = typeset(dataclasses.replace(samples.iops_result(), journal_sha256=digest))
    assert all(digest[:16] in page.extract_text() for page in reader.pages)
    assert building.build(with_about(Annotations())).header.dates.rows[0][-1] == UNKNOWN


def names(text: str) -> str:
    """Return the line of a report's header that names vendor, model and operator."""
    return next(line for line in text.splitlines() if "Tested By" in line)


def report_id_of(text: str) -> str:
    """Return the report id in the header of a report."""
    (found,) = set(re.findall(r'"Report id:",\s+"([0-9a-f]{16})"', text))
    return str(found)


def sha256(content: bytes) -> str:
    """Return a digest as text."""
    return hashlib.sha256(content).hexdigest()


@pytest.mark.long
def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run stores the file's content and logo; --operator has precedence; a report may use another file."""
    run, path = tmp_path / "run", write_about(tmp_path)
    argv = [
        "iops",
        "sim:client-qlc",
        "--seed",
        "1",
        "--about",
        str(path),
        "--operator",
        "J. Doe",
        "--run-dir",
        str(run),
        "--progress",
        "none",
        "--max-rounds",
        "5",
        "--point-seconds",
        "1",
        "--set",
        "rounds.read_percents=[0]",
        "--set",
        "rounds.block_sizes_kib=[4.0]",
        "--set",
        "steady_state.tracked=[{metric = 'iops', block_size_kib = 4, read_percent = 0}]",
    ]
    assert main(argv) == 0
    path.unlink()
    (tmp_path / "logos" / "logo.png").unlink()
    assert main(["report", str(run), "--to", "rst"]) == 0
    text = (run / "report.rst").read_text()
    assert "J. Doe" in names(text)
    assert (run / "figures" / "logo.svg").exists()
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    checked = subprocess.run(check, cwd=run, capture_output=True, check=True)
    listed = (run / "SHA256SUMS").read_bytes()
    answers = [path for path in (run / "evidence").glob("*.json") if "purge" not in path.name]
    assert checked.stdout.count(b": OK") == listed.count(b"\n") == len(answers) == 6
    assert f"SHA256SUMS (SHA-256 {sha256(listed)}) lists" in " ".join(text.split())
    identity = report_id_of(text)
    assert sha256((run / "journal.jsonl").read_bytes()).startswith(identity)

    other = write_about(tmp_path, "format = 1\nvendor = 'Other'")
    assert main(["report", str(run), "--to", "rst", "--about", str(other)]) == 0
    again = (run / "report.rst").read_text()
    assert "Other" in names(again)
    assert "J. Doe" not in names(again)
    assert report_id_of(again) == identity
    assert main(["report", str(run), "--about", str(tmp_path / "none.toml")]) == SpecError.exit_code
    assert "no such file" in capsys.readouterr().err


def test_names_of_evidence_are_listed_as_sha256sum_reads_them() -> None:
    """Any name from a changed journal is written as one line."""
    result = samples.iops_result(rounds=1)
    (loop,) = result.loops
    odd = dataclasses.replace(loop.rounds[0].measurements[0], evidence="a\\b\nc")
    changed = dataclasses.replace(loop, rounds=(dataclasses.replace(loop.rounds[0], measurements=(odd,)),))
    first = checksums(dataclasses.replace(result, time_lines=(), loops=(changed,))).splitlines()[0]
    assert first == rf"\{odd.evidence_sha256}  evidence/a\\b\nc.json".encode()


# -- of a device that does not tell -----------------------------------------------------------------------------------

DESCRIPTION = """
format = 1
model = "Example X1"
serial = "0123"
firmware = "7.1"
capacity = "960 GB"

[features]
"power loss protection" = "yes"
"*endurance*" = "=1 DWPD | `5 years`_"
"""


def silent(about: Annotations, **device: Any) -> TestResult:
    """Return the result of a device that reports only its size and the given values."""
    result = with_about(about)
    expected = {"model": "", "serial": "", "firmware": "", "capacity_bytes": 960_197_124_096, **device}
    dut = dataclasses.replace(result.facts.dut, **expected)
    return dataclasses.replace(result, facts=dataclasses.replace(result.facts, dut=dut))


def told_warnings(result: TestResult) -> list[str]:
    """Return the warnings about the operator's statements."""
    return [f"{item.what}: {item.detail}" for item in run_warnings(result) if STATED in item.what]


def test_the_operator_describes_a_device_without_identity(tmp_path: Path) -> None:
    """Names and features are read, these in the order of the file."""
    about = read_annotations(write_about(tmp_path, DESCRIPTION))
    assert (about.model, about.serial, about.firmware, about.capacity) == ("Example X1", "0123", "7.1", "960 GB")
    assert [item.name for item in about.features] == ["power loss protection", "*endurance*"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("capacity = 'large'", "capacity: 'large': expected a size like 960 GB"),
        ("capacity = '0.5 B'", "capacity: '0.5 B': expected a size like 960 GB"),
        ("model = ''", "model: '': expected a short line"),
        ("features = 'many'", "features: 'many': expected"),
        ("[features]\nplp = true", "features.plp: true: expected"),
        ("[features]\nplp = ''", "features.plp: '': expected a short line"),
        ("[features]\n" + "\n".join(f"f{place} = 'x'" for place in range(101)), "features:"),
    ],
)
def test_every_mistake_of_a_description_is_reported(tmp_path: Path, text: str, message: str) -> None:
    """Each with its key."""
    with pytest.raises(SpecError) as raised:
        read_annotations(write_about(tmp_path, f"format = 1\n{text}"))
    assert message in str(raised.value)


def test_values_stated_by_the_operator_are_marked(tmp_path: Path) -> None:
    """Statements are in the header, and in full on the last page; without a warning if the device reports none."""
    result = silent(read_annotations(write_about(tmp_path, DESCRIPTION)))
    text = " ".join(rst.render(building.build(result)).split())
    for item in ("Example X1 (as stated)", "0123 (as stated)", "7.1 (as stated)"):
        assert item in text, item
    for item in ("Example X1 (as stated by the operator)", "960 GB (as stated by the operator)", "960.2 GB"):
        assert item in text, item
    assert "eatures, as stated by the operator" in text
    assert "Power loss protection" in text
    assert told_warnings(result) == []


def test_a_long_name_keeps_its_mark() -> None:
    """The header never shows a statement of the operator as the device's own, even if it is long."""
    text = " ".join(rst.render(building.build(silent(Annotations(model="A very long name of a drive " * 5)))).split())
    assert "\N{HORIZONTAL ELLIPSIS} (as stated)" in text


def test_values_reported_by_the_device_have_precedence() -> None:
    """A statement does not replace the device's value; each contradiction is a warning; case is ignored."""
    about = Annotations(model="Example X1", serial="0123", firmware="7.1", capacity="960 GB")
    result = silent(about, model="EXAMPLE  X1", serial="9999", firmware="8.0", capacity_bytes=480_103_981_056)
    assert told_warnings(result) == [
        "serial number as stated by the operator: '0123'; the device reports '9999'; that value is used",
        "firmware as stated by the operator: '7.1'; the device reports '8.0'; that value is used",
        "capacity as stated by the operator: 960 GB; the device has 480.1 GB",
    ]
    text = " ".join(rst.render(building.build(result)).split())
    assert "EXAMPLE X1" in text
    assert "(as stated)" not in text
    assert "0123 (as stated by the operator)" not in text
    assert told_warnings(silent(Annotations(capacity="1 TB"), capacity_bytes=1_024_209_543_168)) == []
    unknown = silent(Annotations(capacity="1 TB"), capacity_bytes=0, kind="imported")
    assert told_warnings(unknown) == []
    assert "1 TB (as stated)" in rst.render(building.build(unknown))


def test_a_description_is_in_every_output(tmp_path: Path) -> None:
    """In result.xml by its grammar, and in the tables for programs, where no text is a formula."""
    result = silent(read_annotations(write_about(tmp_path, DESCRIPTION)))
    root = result_xml(result)
    etree.XMLSchema(etree.parse(str(SPECS / "result.xsd"))).assertValid(etree.fromstring(root))
    assert b'model="Example X1" serial="0123" firmware="7.1" capacity="960 GB"' in root
    assert b'<feature name="power loss protection" value="yes" />' in root
    assert b"<feature" not in result_xml(silent(Annotations()))

    (features,) = (table for table in data_tables(result) if table.name == "features")
    assert features.fields == ("name", "value")
    assert features.rows == (("power loss protection", "yes"), ("*endurance*", "=1 DWPD | `5 years`_"))
    assert b"*endurance*,'=1 DWPD" in as_csv(features)
    (run,) = (table for table in data_tables(result) if table.name == "run")
    assert ("stated.model", "Example X1") in run.rows
    assert ("dut.model", "") in run.rows
    assert not [table for table in data_tables(silent(Annotations())) if table.name == "features"]

    with zipfile.ZipFile(io.BytesIO(xlsx.make(result))) as book:
        assert b"power loss protection" in book.read("xl/sharedStrings.xml")


def test_values_stated_by_the_operator_never_confirm_the_target() -> None:
    """What the prompt asks for is the device's own serial number, else its name."""
    result = silent(Annotations(serial="0123"))
    assert result.facts.dut.identity == result.facts.dut.name


def test_runs_of_unidentified_devices_are_distinguished() -> None:
    """compare shows the operator's statements, marked as such."""
    differing = context_differences([silent(Annotations(model="X1")), silent(Annotations(model="X2"))])
    assert ("X1 (as stated by the operator)", "X2 (as stated by the operator)") in [item.values for item in differing]
