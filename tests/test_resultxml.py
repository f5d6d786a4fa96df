"""result.xml: valid, exact, small, and parsed as untrusted input."""

import hashlib
import math
import os
import subprocess
import sys
import tracemalloc
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from snia_pts.analysis.operating_points import demand_means, operating_points
from snia_pts.analysis.steady_state import determine
from snia_pts.errors import RecordError
from snia_pts.model.health import HealthText
from snia_pts.model.measurement import average_response_us, percentile_response_us
from snia_pts.model.telemetry import PowerReadings, ProcessIo
from snia_pts.model.time_series import COLUMNS, TELEMETRY_COLUMNS, TimeLine
from snia_pts.record import result_xml as result_xml_module
from snia_pts.record.document import parse
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.replay import assess
from snia_pts.record.result_xml import chunks, differences, result_xml, stored_missed_limits, stored_verdict
from snia_pts.results.result import TestResult
from snia_pts.runner.verification import check_evidence
from snia_pts.spec import SPEC_TYPES, DemandSpec
from snia_pts.spec.reader import SPECS, read_specification, spec_values
from tests import samples
from tests.command_line import ROOT
from tests.drives import special
from tests.strategies import block_statistics, vitals
from tests.test_report_watching import AFTER, BEFORE, watched

RESULT = samples.iops_result(rounds=6)
DOCUMENT = result_xml(RESULT)
TESTS = tuple(SPEC_TYPES)

XXE = b"""<?xml version="1.0"?><!DOCTYPE result [<!ENTITY file SYSTEM "file:///etc/passwd">]>
<result format="1" suite_version="&file;"/>"""
LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE result [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]><result>&d;</result>"""


@cache
def of(test: str) -> tuple[TestResult, bytes]:
    """Return a full-length result of a test, and its document."""
    result = samples.result_of(test)
    return result, result_xml(result)


@pytest.mark.long_but_first
@pytest.mark.parametrize("pts", ["2.0.2", "1.1"])
@pytest.mark.parametrize("test", TESTS)
def test_every_result_is_valid(test: str, pts: str) -> None:
    """The result.xml of every test and every kind of ending is valid against the schema in specs/."""
    schema = etree.XMLSchema(etree.parse(str(SPECS / "result.xsd")))
    results = [of(test)[0] if pts == "2.0.2" else samples.result_of(test, pts=pts)]
    results.append(samples.result_of(test, pts=pts, test_class="client", sector_bytes=4096, steady=False))
    stopped = (0, 2, 700) if pts == "1.1" else (1, 40)
    results += (samples.result_of(test, pts=pts, ending="interrupted", stop_after=count) for count in stopped)

    for result in results:
        assert schema.validate(etree.fromstring(result_xml(result))), schema.error_log


def test_a_dead_device_has_a_valid_result() -> None:
    """Without a completed I/O there is no response time, and the document has none."""
    root = parse(result_xml(samples.iops_result(scale=0)), "result.xml")

    points = root.findall("loop/window/point")
    assert points
    assert {point.get("average_response_us") for point in points} == {None}


@pytest.mark.parametrize("test", ["iops", "throughput", "latency", "dirth"])
def test_rounds_and_points_are_exact(test: str) -> None:
    """Each measured IOPS, and each figure of the window's points, is in the document to the last bit."""
    result, document = of(test)
    root = parse(document, "result.xml")

    assert [loop.get("part") for loop in root.findall("loop")] == [loop.part for loop in result.loops]
    for element, loop in zip(root.findall("loop"), result.loops, strict=True):
        stored = [[float(point.get("iops", "")) for point in measured] for measured in element.findall("round")]
        assert stored == [[point.iops for point in measured.measurements] for measured in loop.rounds]
        for place, point in enumerate(element.findall("window/point")):
            measured = [item.measurements[place] for item in loop.window_rounds]
            greatest = [measurement.maximum_response_us for measurement in measured]
            for name, value in {
                "iops": math.fsum(measurement.iops for measurement in measured) / len(measured),
                "mb_per_second": math.fsum(measurement.mb_per_second for measurement in measured) / len(measured),
                "average_response_us": average_response_us(measured),
                "maximum_response_us": max(greatest),
                "mean_maximum_response_us": math.fsum(greatest) / len(greatest),
                "three_nines_response_us": percentile_response_us(measured, 99.9),
                "five_nines_response_us": percentile_response_us(measured, 99.999),
            }.items():
                assert (value is None) == (point.get(name) is None)
                assert value is None or float(point.get(name, "")) == value


@pytest.mark.parametrize("test", ["iops", "latency", "wsat", "composite"])
def test_determinations_are_exact(test: str) -> None:
    """The determination of every tracked variable, of rounds or samples, is in the document to the last bit."""
    result, document = of(test)
    windows = [loop.window for loop in result.loops] + ([result.sampling.window] if result.sampling else [])
    states = [state for window in windows if window for _, state in window.determinations]
    elements = parse(document, "").findall(".//determination")

    assert states
    for element, state in zip(elements, states, strict=True):
        for name in ("average", "data_excursion", "allowed_data_excursion", "slope", "intercept", "slope_excursion"):
            assert float(element.get(name, "")) == getattr(state, name)


def test_a_determination_names_its_tracked_variable() -> None:
    """It has exactly the keys of its tracked variable: sizes and mixes, or a demand, or none."""
    for test, names in {
        "iops": {"metric", "read_percent", "block_size_bytes"},
        "throughput": {"metric", "read_percent"},
        "wsat": {"metric"},
    }.items():
        element = parse(of(test)[1], "").find(".//determination")
        assert element is not None
        assert {"metric", "read_percent", "block_size_bytes", "thread_count", "queue_depth"} & {
            *element.keys()
        } == names
    loop = parse(of("dirth")[1], "").find("loop/window/determination")
    assert loop is not None
    assert (loop.get("thread_count"), loop.get("queue_depth")) == ("32", "32")


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", TESTS)
def test_time_lines_are_exact(test: str) -> None:
    """Every sample of every time line, and every measurement of a continuous stimulus, is stored to the last bit."""
    result, document = of(test)
    elements = parse(document, "").findall("time_line")

    assert {field.name for field in fields(TimeLine)} > set(COLUMNS)
    for element, line in zip(elements, result.time_lines, strict=True):
        assert (element.get("phase"), element.get("part")) == (line.phase, line.part)
        assert len(element.findall("measurement")) == len(line.measurements)
        for name in COLUMNS:
            stored = [float(text) for text in (element.findtext(f"samples/{name}") or "").split()]
            assert [*map(str, stored)] == [*map(str, getattr(line, name))]


def test_telemetry_of_drive_and_host_is_stored() -> None:
    """Telemetry is stored in its measurement and as columns of samples; missing values are omitted."""
    plain = parse(of("wsat")[1], "")
    assert plain.find(".//health") is None
    assert plain.find("time_line/samples/celsius") is None

    result = watched(samples.result_of("wsat"))
    first = replace(
        result.time_lines[0].measurements[0],
        telemetry=vitals(
            celsius=41.5,
            link_errors=2,
            block=block_statistics(queue=31.25),
            underlying=block_statistics(device="dm-3", discarded_bytes=512),
            processes=(ProcessIo(pid="7", name="rsync", read_bytes=1, written_bytes=2_000_000),),
            unreadable_processes=3,
            power=PowerReadings(source="Bench meter", watts=11.5, readings=60),
            host_watts=96.5,
        ),
    )
    line = replace(result.time_lines[0], measurements=[first, *result.time_lines[0].measurements[1:]])
    document = parse(result_xml(replace(result, time_lines=(line, *result.time_lines[1:]))), "")
    outcome = document.find("time_line/measurement/telemetry")
    assert outcome is not None
    assert dict(outcome.attrib) == {
        "seconds": "1",
        "celsius": "41.5",
        "link_errors": "2",
        "read_ios": "0",
        "write_ios": "1000",
        "read_bytes": "0",
        "write_bytes": "4096000",
        "read_merges": "0",
        "write_merges": "7",
        "read_ms": "0",
        "write_ms": "900",
        "queue": "31.25",
        "busy_percent": "99",
        "device": "sda",
        "unreadable_processes": "3",
        "watts": "11.5",
        "power_readings": "60",
        "power_source": "Bench meter",
        "host_watts": "96.5",
    }
    underlying, process = outcome
    assert (underlying.get("device"), underlying.get("discarded_bytes"), underlying.get("write_ms")) == (
        "dm-3",
        "512",
        "900",
    )
    assert dict(process.attrib) == {"pid": "7", "name": "rsync", "read_bytes": "1", "written_bytes": "2000000"}
    for name in TELEMETRY_COLUMNS:
        stored = [float(text) for text in (document.findtext(f"time_line/samples/{name}") or "").split()]
        assert stored == list(getattr(line, name))


def test_discards_are_stored_if_there_were_any() -> None:
    """The schema knows them."""
    result = samples.result_of("wsat")
    line = result.time_lines[0]
    first = replace(line.measurements[0], telemetry=vitals(block=block_statistics(discarded_bytes=4096)))
    discarded = replace(line, measurements=[first, *line.measurements[1:]])
    document = parse(result_xml(replace(result, time_lines=(discarded, *result.time_lines[1:]))), "")
    outcome = document.find("time_line/measurement/telemetry")
    assert outcome is not None
    assert outcome.get("discarded_bytes") == "4096"


def test_the_health_of_the_drive_is_stored() -> None:
    """The document has each figure before and after with its role, failed readings, and the write amplification."""
    result = samples.result_of("wsat")
    label = HealthText(name="DSSD Firmware Build Label", text='release "7"', source="OCP log C0h")
    before = replace(BEFORE, unread=("nvme ocp: no",), texts=(label,))
    outcome = parse(result_xml(replace(result, facts=replace(result.facts, health=before), health_after=AFTER)), "")
    by_name = {item.get("name"): dict(item.attrib) for item in outcome.findall("health/figure")}

    assert by_name["Data Units Written"] == {
        "name": "Data Units Written",
        "unit": "bytes",
        "source": "NVMe SMART log",
        "role": "host written",
        "before": "10000000000000",
        "after": "13840000000000",
    }
    assert [item.get("reason") for item in outcome.findall("health/unread")] == ["nvme ocp: no"]
    assert [dict(item.attrib) for item in outcome.findall("health/text")] == [
        {"at": BEFORE.read_at, "name": label.name, "text": 'release "7"', "source": "OCP log C0h"}
    ]
    amplification = outcome.find("health/write_amplification")
    assert amplification is not None
    assert float(amplification.get("factor", "")) == 10.6e12 / 3.84e12

    killed = parse(result_xml(replace(result, facts=replace(result.facts, health=before))), "").find("health")
    assert killed is not None
    assert killed.get("after") is None


def test_mixes_and_skews_are_stored() -> None:
    """A mix of block sizes and a skew are lists of pairs, in place of the one block size."""
    point = parse(of("composite")[1], "").find("loop/window/point")

    assert point is not None
    assert point.get("block_size_bytes") is None
    shares = [tuple(map(int, pair.split(":"))) for pair in point.get("block_mix", "").split()]
    assert (4096, 67) in shares
    assert sum(percent for _, percent in shares) == 100
    assert point.get("skew") == "50:5 30:15 20:80"


def test_operating_points_are_stored() -> None:
    """The Max, Mid and Min IOPS points of a demand loop are in the document."""
    result, document = of("dirth")
    spec, loop = result.facts.spec, result.loop()
    assert isinstance(spec, DemandSpec)
    assert loop is not None
    expected = operating_points(demand_means(loop.window_rounds), spec.operating_points)

    stored = [
        (element.get("name"), int(element.get("thread_count", "")), float(element.get("iops", "")))
        for element in parse(document, "").findall("operating_point")
    ]

    assert stored == [(point.name, point.demand.thread_count, point.iops) for point in expected]
    assert len(stored) == 3


def test_gaps_are_stored_by_part_and_request() -> None:
    """Requested idle times are separate from other pauses, for each part."""
    gaps = [element for element in parse(of("hir")[1], "").findall("gaps") if element.get("requested_seconds")]

    assert [float(gap.get("requested_seconds", "")) for gap in gaps] == [5, 10, 15, 25, 50]
    assert [int(gap.get("count", "")) for gap in gaps] == [360] * 5
    for gap in gaps:
        outcome = 1000 * float(gap.get("requested_seconds", ""))
        assert (
            outcome
            <= float(gap.get("minimum_ms", ""))
            <= float(gap.get("median_ms", ""))
            <= float(gap.get("worst_ms", ""))
            < outcome + 1000
        )


def test_the_end_of_a_saturation_is_stored() -> None:
    """Only a write saturation test that ended has a conclusion."""
    outcome = parse(of("wsat")[1], "").find("conclusion")

    assert outcome is not None
    assert outcome.get("reason") == "time"
    assert parse(of("hir")[1], "").find("conclusion") is None


@pytest.mark.parametrize("test", TESTS)
def test_every_number_of_the_specification_is_stored_once(test: str) -> None:
    """Keys are those of specs/, and a named entry of a list has its name as the key."""
    spec = read_specification(test, "2.0.2", "client").spec
    selected = [key for key, _ in spec_values(spec)]

    assert len(set(selected)) == len(selected)
    assert dict(spec_values(spec))["setup.active_range_percent"] == "75"
    assert ("patterns.oltp.read_percent" in selected) == (test in ("wsat", "dirth"))
    assert ("groups.sequence.AG 2.seconds" in selected) == (test == "xsr")


@pytest.mark.long
def test_a_day_of_seconds_has_every_sample(tmp_path: Path) -> None:
    """The document has all 86 400 one-second samples, and a change in the middle is reported with its place."""
    seconds = [("settling.sample_seconds", 1.0), ("settling.stride_samples", 900), ("saturation.capacities", 100)]
    result = samples.result_of("wsat", pts="1.1", steady=False, overrides=seconds)
    document = result_xml(result)
    (line,) = result.time_lines
    assert len(line) == 86_400
    assert b'<samples count="86400">' in document

    column = document.index(b"<write_ios>") + 11
    values = document[column : document.index(b"<", column)].split()
    changed = b" ".join([*values[:70_000], b"7", *values[70_001:]])
    (tmp_path / "result.xml").write_bytes(document.replace(b" ".join(values), changed, 1))
    (difference,) = differences(tmp_path / "result.xml", result_xml(result))

    assert f"write_ios, value 70001: stored 7, expected {values[70_000].decode()}" in difference


@pytest.mark.long
def test_the_text_of_a_long_line_is_made_in_chunks() -> None:
    """A day of one-second samples is written in a fraction of the memory of its document."""
    seconds = [("settling.sample_seconds", 1.0), ("settling.stride_samples", 900), ("saturation.capacities", 100)]
    result = samples.result_of("wsat", pts="1.1", steady=False, overrides=seconds)
    whole = sum(map(len, chunks(result)))
    tracemalloc.start()
    largest = max(map(len, chunks(result)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert largest < whole / 10
    assert peak < whole / 3


def test_columns_of_a_long_line_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several elements of samples, one after the other, have the numbers of one, and are valid."""
    result = samples.result_of("wsat", steady=False)
    whole = etree.fromstring(result_xml(result))
    monkeypatch.setattr(result_xml_module, "_MAX_SAMPLES", 50)
    monkeypatch.setattr(result_xml_module, "_CHUNK_NUMBERS", 7)
    split = etree.fromstring(result_xml(result))

    def numbers(document: etree._Element) -> list[str]:
        return " ".join(element.text or "" for element in document.iterfind("time_line/samples/write_ios")).split()

    counts = [int(element.get("count", "")) for element in split.iterfind("time_line/samples")]
    assert max(counts) == 50
    assert sum(counts) == len(numbers(split))
    assert numbers(split) == numbers(whole)
    assert len(counts) > len(whole.findall("time_line/samples"))


def test_the_same_result_gives_the_same_bytes() -> None:
    """Nothing in the document depends on when or where it was made."""
    assert result_xml(RESULT) == DOCUMENT


@pytest.mark.parametrize("test", TESTS)
def test_an_equal_document_has_no_difference(test: str, tmp_path: Path) -> None:
    """A stored document agrees with the result it was made from."""
    result, document = of(test)
    (tmp_path / "result.xml").write_bytes(document)

    assert differences(tmp_path / "result.xml", result_xml(result)) == ()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b'verdict="STEADY STATE"', b'verdict="STEADY STATE NOT ACHIEVED"', "verdict"),
        (b'<point access="RND" read_percent="100"', b'<point access="RND" read_percent="99"', "read_percent"),
        (b'conformant="true"', b'conformant="false"', "conformant"),
    ],
)
def test_a_changed_document_is_reported(old: bytes, new: bytes, text: str, tmp_path: Path) -> None:
    """If the stored document differs from the journal, the line and both values are reported."""
    assert old in DOCUMENT
    (tmp_path / "result.xml").write_bytes(DOCUMENT.replace(old, new, 1))

    (difference,) = differences(tmp_path / "result.xml", result_xml(RESULT))

    assert text in difference
    assert ": stored " in difference
    assert ", expected " in difference


def test_a_missing_round_is_reported(tmp_path: Path) -> None:
    """A document with other elements than the journal gives is reported."""
    root = etree.fromstring(DOCUMENT)
    loop = root.find("loop")
    assert loop is not None
    loop.remove(loop[0])
    (tmp_path / "result.xml").write_bytes(etree.tostring(root))

    assert differences(tmp_path / "result.xml", result_xml(RESULT))


@pytest.mark.parametrize("document", [XXE, LAUGHS, b'<!DOCTYPE result SYSTEM "http://127.0.0.1:9/x.dtd"><result/>'])
def test_entities_and_document_types_are_refused(document: bytes) -> None:
    """No entity is expanded, no file or network is read: a document type is refused as such."""
    with pytest.raises(RecordError, match=r"document type|invalid XML") as refused:
        parse(document, "evil.xml")
    assert "root:" not in str(refused.value)


@pytest.mark.parametrize("added", [b'<?xml-stylesheet href="evil.xsl" type="text/xsl"?>', b"<!-- passed -->"])
def test_nothing_surrounds_the_root_element(added: bytes, tmp_path: Path) -> None:
    """A stylesheet could show a false verdict in a browser."""
    document = result_xml(RESULT)
    declaration, rest = document.split(b"\n", 1)

    for altered in (declaration + added + rest, document + added):
        (tmp_path / "result.xml").write_bytes(altered)
        with pytest.raises(RecordError, match="outside its root element"):
            differences(tmp_path / "result.xml", document)


@pytest.mark.parametrize("offset", [0, 4080, 4090, 4095, 4096])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_verdict_is_not_read_after_a_document_type(encoding: str, offset: int, tmp_path: Path) -> None:
    """Also if it is split between two chunks, or not in ASCII: an entity could make any verdict."""
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    rest = '<result><run id="a" finished="f" ending="finished" verdict="&v;"/></result>'
    kind = '<!DOCTYPE result [<!ENTITY v "STEADY STATE">]>'
    (path := tmp_path / "result.xml").write_text(head + " " * (offset - len(head)) + kind + rest, encoding=encoding)
    assert stored_verdict(path, "a", "f") == ""

    path.write_text(head + rest.replace("&v;", "STEADY STATE"), encoding=encoding)
    assert stored_verdict(path, "a", "f") == "STEADY STATE"


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
        DOCUMENT.replace(b"</read_ios>", b" 7</read_ios>"),
        DOCUMENT.replace(b"</read_ios>", b"x</read_ios>"),
    ],
)
def test_other_documents_are_refused(document: bytes) -> None:
    """A document that is not a valid result is refused with the reason."""
    with pytest.raises(RecordError, match=r"evil\.xml"):
        parse(document, "evil.xml")


@given(st.data())
def test_damage_is_refused_or_gives_a_valid_document(data: st.DataObject) -> None:
    """Bytes changed anywhere give RecordError, or a document that is valid against the schema."""
    place = data.draw(st.integers(0, len(DOCUMENT) - 1))
    junk = data.draw(st.binary(max_size=20))
    try:
        root = parse(DOCUMENT[:place] + junk + DOCUMENT[place + len(junk) :], "evil.xml")
    except RecordError:
        return
    assert root.tag == "result"


@pytest.mark.long
@given(st.text(max_size=60))
def test_any_text_of_a_device_fits(text: str) -> None:
    """The document is valid for any text of a drive; characters invalid in XML are replaced."""
    result = samples.iops_result(stop_after=0, ending="interrupted", device=samples.dut(model=text, serial=text))

    model = parse(result_xml(result), "result.xml").find("dut")

    assert model is not None
    if text.isascii() and text.isprintable():
        assert model.get("model") == text


def test_a_window_that_is_not_evaluable_is_valid() -> None:
    """Figures that do not exist are NaN, which the schema accepts."""
    (loop,) = RESULT.loops
    assert loop.window is not None
    rule = read_specification("iops", "2.0.2", "enterprise").spec.steady_state  # type: ignore[attr-defined]
    nothing = tuple((tracked, determine([0.0] * 5, rule, first_round=2)) for tracked, _ in loop.window.determinations)
    unknown = replace(loop, window=replace(loop.window, determinations=nothing))
    root = parse(result_xml(replace(RESULT, loops=(unknown,))), "result.xml")

    assert {element.get("average") for element in root.findall("loop/window/determination")} == {"NaN"}


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "sparse"])
def test_a_special_file_is_no_result(target: str, tmp_path: Path) -> None:
    """A file that cannot be read to its end in limited time and memory is refused at once."""
    special(tmp_path / "result.xml", target)

    with pytest.raises(RecordError, match=r"it is (not a regular file|larger than 256 MiB)"):
        differences(tmp_path / "result.xml", result_xml(RESULT))


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "sparse"])
def test_special_evidence_is_reported(target: str, tmp_path: Path) -> None:
    """Evidence too large to be read in time and memory is reported as a difference."""
    folder = RunFolder.create(tmp_path / "run")
    result = samples.iops_result(ending="interrupted", stop_after=3)
    measurement = next(iter(result.measurements))
    name = f"{measurement.evidence}.json"
    special(folder.evidence / name, target)

    outcome = check_evidence(folder, replace(result, evidence={name: measurement.evidence_sha256})).differences
    (selected,) = (line for line in outcome if "missing" not in line)
    assert selected.endswith(
        "it is too large for an evidence file" if target == "sparse" else "it is not a regular file"
    )


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "a\0b"])
def test_evidence_outside_its_folder_is_not_opened(name: str, tmp_path: Path) -> None:
    """A name that leads out of evidence/ is a difference, even if the file there has the right content."""
    folder = RunFolder.create(tmp_path / "run")
    (tmp_path / "run" / "outside.json").touch()
    result = samples.iops_result(ending="interrupted", stop_after=3)
    (loop,) = result.loops
    (first, *more) = loop.rounds
    forged = replace(first.measurements[0], evidence=name, evidence_sha256=hashlib.sha256().hexdigest())
    rounds = (replace(first, measurements=(forged, *first.measurements[1:])), *more)

    outcome = check_evidence(folder, replace(result, loops=(replace(loop, rounds=rounds),))).differences

    assert any(ascii(f"{name}.json")[1:-1] in line and "missing" in line for line in outcome)


@pytest.mark.parametrize("target", ["fifo", "/dev/zero"])
def test_a_special_file_is_no_journal(target: str, tmp_path: Path) -> None:
    """A journal that is a pipe or a device is refused at once."""
    special(tmp_path / "journal.jsonl", target)

    with pytest.raises(RecordError, match="it is not a regular file"):
        JournalReader(tmp_path / "journal.jsonl")


@pytest.mark.long
def test_the_end_of_a_run_loads_no_library(tmp_path: Path) -> None:
    """If the XML library is deleted during a run, its result.xml is still valid and identical to later ones."""
    program = (
        "import sys; sys.modules['lxml'] = None; from pathlib import Path; from tests.samples import store_run; "
        "store_run(Path('run'), rounds=5)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, env=environment)

    stored = (tmp_path / "run" / "result.xml").read_bytes()
    assert stored == result_xml(assess(RunFolder.existing(tmp_path / "run")))


@pytest.mark.parametrize(
    ("limits", "missed"), [("", False), ('<limit met="true"/>', False), ('<limit met="false"/>', True)]
)
def test_missed_limits_are_read_from_the_start(limits: str, missed: bool, tmp_path: Path) -> None:
    """Only if the file is that of the end of the run; what follows the limits is not read."""
    head = f'<result><run id="a" finished="f" ending="finished" verdict="V"/>{limits}<loop>'
    (path := tmp_path / "result.xml").write_text(head + " " * 9000 + "<nonsense")
    assert stored_missed_limits(path, "a", "f") == missed
    assert not stored_missed_limits(path, "a", "g")
    assert not stored_missed_limits(path / "none", "a", "f")
