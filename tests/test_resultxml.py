"""result.xml: valid, exact, and read as if it came from an enemy."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from snia_pts.errors import RecordError
from snia_pts.record.resultxml import differences, parse, result_xml
from snia_pts.result import TestResult
from snia_pts.specfile import SPECS
from tests import samples

RESULT = samples.iops_result(rounds=6)
DOCUMENT = result_xml(RESULT)

XXE = b"""<?xml version="1.0"?><!DOCTYPE result [<!ENTITY file SYSTEM "file:///etc/passwd">]>
<result format="1" suite_version="&file;"/>"""
LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE result [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]><result>&d;</result>"""


@pytest.mark.parametrize(
    "result",
    [
        RESULT,
        samples.iops_result(steady=False),
        samples.iops_result(pts="1.1", test_class="client"),
        samples.iops_result(sector_bytes=4096),
        *(samples.iops_result(ending="interrupted", stop_after=count) for count in (0, 1, 2, 40, 300)),
    ],
)
def test_every_result_is_valid(result: TestResult) -> None:
    """Whatever came of a run, its result.xml is valid against the schema in specs/."""
    schema = etree.XMLSchema(etree.parse(str(SPECS / "result.xsd")))

    assert schema.validate(etree.fromstring(result_xml(result)))


def test_rounds_and_cells_are_exact() -> None:
    """Each measured IOPS, and each mean of the window, is in the document to the last bit."""
    root = parse(DOCUMENT, "result.xml")

    stored = [
        [float(element.get("iops", "")) for element in measured.findall("measurement")]
        for measured in root.findall("round")
    ]
    assert stored == [[point.iops for point in measured.measurements] for measured in RESULT.rounds]
    assert [float(cell.get("iops", "")) for cell in root.findall("window/cell")] == list(RESULT.matrix.values())


def test_determinations_are_exact() -> None:
    """The determination of every tracked variable is in the document to the last bit."""
    assert RESULT.window is not None
    for element, (tracked, state) in zip(
        parse(DOCUMENT, "").findall("window/determination"), RESULT.window.determinations, strict=True
    ):
        assert int(element.get("block_size_bytes", "")) == tracked.block_size_bytes
        for name in ("average", "data_excursion", "allowed_data_excursion", "slope", "intercept", "slope_excursion"):
            assert float(element.get(name, "")) == getattr(state, name)


def test_the_same_result_gives_the_same_bytes() -> None:
    """Nothing in the document depends on when or where it was made."""
    assert result_xml(RESULT) == DOCUMENT


def test_an_equal_document_has_no_difference(tmp_path: Path) -> None:
    """A stored document agrees with the result it was made from."""
    (tmp_path / "result.xml").write_bytes(DOCUMENT)

    assert differences(tmp_path / "result.xml", RESULT) == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'verdict="STEADY STATE"', b'verdict="STEADY STATE NOT ACHIEVED"', "verdict"),
        (b'<cell read_percent="100"', b'<cell read_percent="99"', "read_percent"),
        (b'conformant="true"', b'conformant="false"', "conformant"),
    ],
)
def test_a_changed_document_is_told(old: bytes, new: bytes, told: str, tmp_path: Path) -> None:
    """Where the stored document says something else than the journal, the line and both values are named."""
    assert old in DOCUMENT
    (tmp_path / "result.xml").write_bytes(DOCUMENT.replace(old, new, 1))

    (difference,) = differences(tmp_path / "result.xml", RESULT)

    assert told in difference
    assert "is stored, the journal gives" in difference


def test_a_missing_round_is_told(tmp_path: Path) -> None:
    """A document with other elements than the journal gives is told."""
    root = etree.fromstring(DOCUMENT)
    root.remove(root.findall("round")[0])
    (tmp_path / "result.xml").write_bytes(etree.tostring(root))

    assert differences(tmp_path / "result.xml", RESULT)


@pytest.mark.parametrize("document", [XXE, LAUGHS, b'<!DOCTYPE result SYSTEM "http://127.0.0.1:9/x.dtd"><result/>'])
def test_entities_and_document_types_are_refused(document: bytes) -> None:
    """No entity is expanded, no file or network is read: a document type is refused as such."""
    with pytest.raises(RecordError, match=r"document type|well-formed") as refused:
        parse(document, "evil.xml")
    assert "root:" not in str(refused.value)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<",
        b"<result/>",
        b"<other/>",
        b"<a>" * 5000,
        DOCUMENT[:-20],
        DOCUMENT.replace(b'format="1"', b'format="2"'),
    ],
)
def test_what_is_no_result_is_refused(document: bytes) -> None:
    """What is not a valid result gives a sentence with the reason."""
    with pytest.raises(RecordError, match=r"evil\.xml"):
        parse(document, "evil.xml")


@given(st.data())
def test_damage_gives_a_sentence_or_a_valid_document(data: st.DataObject) -> None:
    """Bytes changed anywhere give RecordError, or a document that is still valid against the schema."""
    place = data.draw(st.integers(0, len(DOCUMENT) - 1))
    junk = data.draw(st.binary(max_size=20))
    try:
        root = parse(DOCUMENT[:place] + junk + DOCUMENT[place + len(junk) :], "evil.xml")
    except RecordError:
        return
    assert root.tag == "result"


@given(st.text(max_size=60))
def test_any_text_of_a_device_fits(text: str) -> None:
    """Whatever a drive says of itself, the document is valid; what XML cannot hold is replaced."""
    result = samples.iops_result(stop_after=0, ending="interrupted", device=samples.dut(model=text, serial=text))

    model = parse(result_xml(result), "result.xml").find("dut")

    assert model is not None
    if text.isascii() and text.isprintable():
        assert model.get("model") == text


def test_a_window_that_is_not_evaluable_is_valid() -> None:
    """Figures that do not exist are NaN, which the schema takes."""
    assert math.isnan(float("NaN"))
    window = RESULT.window
    assert window is not None
    from dataclasses import replace

    from snia_pts.specfile import read_specification
    from snia_pts.steadystate import determine

    rule = read_specification("iops", "2.0.2", "enterprise").spec.steady_state
    nothing = tuple((tracked, determine([0.0] * 5, rule, first_round=2)) for tracked, _ in window.determinations)
    root = parse(result_xml(replace(RESULT, window=replace(window, determinations=nothing))), "result.xml")

    assert {element.get("average") for element in root.findall("window/determination")} == {"NaN"}
