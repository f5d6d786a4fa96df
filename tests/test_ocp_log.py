"""OCP's log page C0h: the position of each field in each Log Page Version, and other pages."""

from __future__ import annotations

import random
import struct

import pytest

from snia_pts.lab.device.ocp_log import Decoded, PageRejected, decode, layout
from snia_pts.model.health import Health, alarms, changes, write_amplification

#: The page in the order of nvme-cli's struct ocp_smart_extended_log, not of the table under test.
PAGE = struct.Struct(
    "<16s16s 6sH 6sH QQQ II B7s II BB BHHB Q I4x B7x H BBBB2x QQQ 16s16s QQ 8s HHHBB QI IB3x IB3x IB3x HH6s"
    " 8s16s64s 6sH128x H16s"
)
GUID = bytes.fromhex("C5AF1028EABFF2A49C4F6F7CC914D5AF")
#: The first Log Page Version with the field, and the value in ``page``; None for a text.
COUNTS = {
    "Physical Media Units Written": (2, 0x0DE0_B6B3_A763_0101),
    "Physical Media Units Read": (2, 202 << 40),
    "Bad User NAND Blocks, Raw": (2, 0x0300_0000_0003),
    "Bad User NAND Blocks, Normalized": (2, 404),
    "Bad System NAND Blocks, Raw": (2, 0x0500_0000_0005),
    "Bad System NAND Blocks, Normalized": (2, 606),
    "XOR Recovery Count": (2, 7 << 48),
    "Uncorrectable Read Error Count": (2, 8 << 48),
    "Soft ECC Error Count": (2, 9 << 48),
    "End to End Detected Errors": (2, 0x0A00_0001),
    "End to End Corrected Errors": (2, 0x0B00_0002),
    "System Data % Used": (2, 12),
    "Refresh Counts": (2, 0x0D_0000_0000_0003),
    "Maximum User Data Erase Count": (2, 0x0E00_0004),
    "Minimum User Data Erase Count": (2, 0x0F00_0005),
    "Number of Thermal Throttling Events": (2, 16),
    "Current Throttling Status": (2, 3),
    "DSSD Specification Version, Errata": (3, 18),
    "DSSD Specification Version, Point": (3, 0x1913),
    "DSSD Specification Version, Minor": (3, 0x2014),
    "DSSD Specification Version, Major": (3, 21),
    "PCIe Correctable Error Count": (2, 22 << 40),
    "Incomplete Shutdowns": (2, 0x1700_0006),
    "% Free Blocks": (2, 24),
    "Capacitor Health": (2, 0x1901),
    "Unaligned I/O": (2, 30 << 40),
    "Security Version Number": (2, 31 << 40),
    "Total NUSE": (2, 32 << 40),
    "PLP Start Count": (2, 33 << 40),
    "Endurance Estimate": (2, 34 << 40),
    "PCIe Link Retraining Count": (3, 35 << 40),
    "Power State Change Count": (3, 36 << 40),
    "Total Media Dies": (5, 0x2601),
    "Total Die Failure Tolerance": (5, 0x2702),
    "Media Dies Offline": (5, 0x2803),
    "Max Temperature Recorded": (5, 41),
    "Form Factor": (6, 42),
    "NAND Avg. Erase Count": (5, 43 << 40),
    "Command Timeouts": (5, 0x2C00_0001),
    "System Area Program Fail Count, Raw": (5, 0x2D00_0002),
    "System Area Program Fail Count, Normalized": (5, 46),
    "System Area Uncorrectable Read Count, Raw": (5, 0x2F00_0003),
    "System Area Uncorrectable Read Count, Normalized": (5, 48),
    "System Area Erase Fail Count, Raw": (5, 0x3100_0004),
    "System Area Erase Fail Count, Normalized": (5, 50),
    "Max Peak Power Capability": (5, 0x3301),
    "Current Average Power": (5, 0x3402),
    "Lifetime Power Consumed": (5, 0x3500_0000_0003),
    "Dies In Use Bad NAND Blocks, Raw": (6, 0x3900_0000_0004),
    "Dies In Use Bad NAND Blocks, Normalized": (6, 0x3A05),
}
TEXTS = {
    "NVM Express Base Errata Version": (3, "b"),
    "NVM Command Set Errata Version": (4, "c"),
    "NVMe over PCIe Transport Errata Version": (5, "d"),
    "NVM Express Management Interface Errata Version": (5, "e"),
    "Lowest Permitted Firmware Revision": (4, "FW1.0"),
    "DSSD Firmware Revision": (5, "2.5.1"),
    "DSSD Firmware Build UUID": (5, "00112233-4455-6677-8899-aabbccddeeff"),
    "DSSD Firmware Build Label": (5, "debug build 7"),
}


def page(version: int, *, guid: bytes = GUID) -> bytes:
    """Return a handmade page in which every field has a different value."""

    def wide(name: str, size: int) -> bytes:
        return COUNTS[name][1].to_bytes(size, "little")

    def count(name: str) -> int:
        return COUNTS[name][1]

    return PAGE.pack(
        wide("Physical Media Units Written", 16),
        wide("Physical Media Units Read", 16),
        wide("Bad User NAND Blocks, Raw", 6),
        count("Bad User NAND Blocks, Normalized"),
        wide("Bad System NAND Blocks, Raw", 6),
        count("Bad System NAND Blocks, Normalized"),
        count("XOR Recovery Count"),
        count("Uncorrectable Read Error Count"),
        count("Soft ECC Error Count"),
        count("End to End Detected Errors"),
        count("End to End Corrected Errors"),
        count("System Data % Used"),
        wide("Refresh Counts", 7),
        count("Maximum User Data Erase Count"),
        count("Minimum User Data Erase Count"),
        count("Number of Thermal Throttling Events"),
        count("Current Throttling Status"),
        count("DSSD Specification Version, Errata"),
        count("DSSD Specification Version, Point"),
        count("DSSD Specification Version, Minor"),
        count("DSSD Specification Version, Major"),
        count("PCIe Correctable Error Count"),
        count("Incomplete Shutdowns"),
        count("% Free Blocks"),
        count("Capacitor Health"),
        *b"bcde",
        count("Unaligned I/O"),
        count("Security Version Number"),
        count("Total NUSE"),
        wide("PLP Start Count", 16),
        wide("Endurance Estimate", 16),
        count("PCIe Link Retraining Count"),
        count("Power State Change Count"),
        b"FW1.0   ",
        count("Total Media Dies"),
        count("Total Die Failure Tolerance"),
        count("Media Dies Offline"),
        count("Max Temperature Recorded"),
        count("Form Factor"),
        count("NAND Avg. Erase Count"),
        count("Command Timeouts"),
        count("System Area Program Fail Count, Raw"),
        count("System Area Program Fail Count, Normalized"),
        count("System Area Uncorrectable Read Count, Raw"),
        count("System Area Uncorrectable Read Count, Normalized"),
        count("System Area Erase Fail Count, Raw"),
        count("System Area Erase Fail Count, Normalized"),
        count("Max Peak Power Capability"),
        count("Current Average Power"),
        wide("Lifetime Power Consumed", 6),
        b"2.5.1",
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        b"debug build 7",
        wide("Dies In Use Bad NAND Blocks, Raw", 6),
        count("Dies In Use Bad NAND Blocks, Normalized"),
        version,
        guid,
    )


def of(found: Decoded) -> dict[str, float]:
    return {figure.name: figure.value for figure in found.figures}


@pytest.mark.parametrize(("version", "counts", "texts"), [(2, 27, 0), (3, 33, 1), (4, 33, 3), (5, 48, 8), (6, 51, 8)])
def test_each_version_has_its_fields(version: int, counts: int, texts: int) -> None:
    """Every field of the version is decoded from its bytes, and no field of a later version."""
    found = decode(page(version))

    expected = {name: float(value) for name, (since, value) in COUNTS.items() if since <= version}
    assert of(found) == {"Log Page Version": version, **expected}
    assert len(found.figures) == len(expected) + 1
    assert {item.name: item.text for item in found.texts} == {
        name: text for name, (since, text) in TEXTS.items() if since <= version
    }
    assert (len(found.figures), len(found.texts)) == (counts, texts)
    assert found.unread == ()


@pytest.mark.parametrize("version", [0, 1, 7, 0xFFFF])
def test_the_common_fields_of_an_unknown_version_are_decoded(version: int) -> None:
    """The fields since version 2 are at the same bytes in every version; a message says that there may be others."""
    found = decode(page(version))

    assert of(found) == {**of(decode(page(2))), "Log Page Version": version}
    assert found.texts == ()
    assert found.unread == (
        f"Log Page Version {version} is not known, so only the fields common to all versions are decoded",
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "its output has 0 bytes, expected 512"),
        (page(3)[:-1], "its output has 511 bytes, expected 512"),
        (page(3) + b"\n", "its output has 513 bytes, expected 512"),
        (bytes(512), f"its GUID is {'0' * 32}, expected AFD514C97C6F4F9CA4F2BFEA2810AFC5"),
        (page(3, guid=GUID[::-1]), "its GUID is C5AF1028EABFF2A49C4F6F7CC914D5AF, expected AFD514"),
    ],
    ids=["empty", "short", "long", "zeros", "big endian"],
)
def test_another_page_is_rejected(raw: bytes, reason: str) -> None:
    """Log pages from C0h on are vendor specific: only the GUID identifies OCP's page."""
    with pytest.raises(PageRejected, match=reason):
        decode(raw)


def test_all_ones_are_unreported_or_implausible() -> None:
    """Optional fields of all ones are omitted, impossible values are reported, and bytes of 255 are numbers."""
    found = decode(b"\xff" * 494 + (6).to_bytes(2, "little") + GUID)
    values = of(found)

    for name in ("Bad User NAND Blocks", "Bad System NAND Blocks", "Dies In Use Bad NAND Blocks"):
        assert not {f"{name}, Raw", f"{name}, Normalized"} & set(values)
    assert "Capacitor Health" not in values
    assert values["System Data % Used"] == 255
    assert values["End to End Detected Errors"] == 0xFFFF_FFFF
    assert values["Refresh Counts"] == float(0xFF_FFFF_FFFF_FFFF)
    (sentence,) = found.unread
    assert sentence.startswith("implausible values of more than 1e+18: Physical Media Units Written, ")
    assert "Capacitor" not in sentence


@pytest.mark.parametrize(("value", "kept"), [(0, True), (10**18, True), (10**18 + 1, False), (1 << 127, False)])
def test_edges_of_a_count_of_16_bytes(value: int, kept: bool) -> None:
    """A count is one number of 16 bytes, not two of 8; a number above every quantity is not reported."""
    found = decode(value.to_bytes(16, "little") + page(4)[16:])

    assert of(found).get("Physical Media Units Written") == (value if kept else None)
    assert bool(found.unread) is not kept


def test_any_bytes_are_decoded() -> None:
    """Whatever a drive answers, each figure is a quantity and each text one printable line."""
    dice = random.Random(1)
    for version in range(9):
        for _ in range(50):
            found = decode(dice.randbytes(494) + version.to_bytes(2, "little") + GUID)
            assert all(0 <= figure.value <= 10**18 for figure in found.figures)
            assert all(text.text.isprintable() and text.text == text.text.strip() for text in found.texts)
            assert len(found.figures) > 10


def test_texts_are_one_line_and_blank_ones_are_omitted() -> None:
    """A label contains whatever bytes the vendor wrote."""
    raw = bytearray(page(6))
    raw[294:358] = (b"a\n<b> \x01\xff" + bytes(64))[:64]
    raw[278:294] = bytes(16)
    raw[130:134] = b"\0 \0\x02"
    found = {text.name: text.text for text in decode(bytes(raw)).texts}

    assert found["DSSD Firmware Build Label"] == "a <b> \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert "DSSD Firmware Build UUID" not in found
    assert "NVM Express Base Errata Version" not in found
    assert "NVM Command Set Errata Version" not in found
    assert found["NVM Express Management Interface Errata Version"] == "\N{REPLACEMENT CHARACTER}"


def test_a_recorded_answer() -> None:
    """A WUS4BB019D4M9E7 by ``nvme wdc vs-smart-add-log``, recorded in a test of facebook/CacheLib (NandWritesTest.cpp).

    The values of its lines are put at the bytes from which nvme-cli's plugin for WDC reads them.
    """
    raw = bytearray(512)
    raw[0:8] = (609651339018240).to_bytes(8, "little")
    raw[16:24] = (567611790770176).to_bytes(8, "little")
    raw[38], raw[46] = 100, 100
    raw[81] = 4
    raw[88:92], raw[92:96] = (293).to_bytes(4, "little"), (197).to_bytes(4, "little")
    raw[120], raw[128], raw[160] = 1, 114, 42
    raw[176:184] = (16896000000000000).to_bytes(8, "little")
    raw[494] = 2
    raw[496:512] = GUID
    found = decode(bytes(raw))
    values = of(found)

    assert {name: value for name, value in values.items() if value} == {
        "Log Page Version": 2,
        "Physical Media Units Written": 609651339018240,
        "Physical Media Units Read": 567611790770176,
        "Bad User NAND Blocks, Normalized": 100,
        "Bad System NAND Blocks, Normalized": 100,
        "Refresh Counts": 4,
        "Maximum User Data Erase Count": 293,
        "Minimum User Data Erase Count": 197,
        "% Free Blocks": 1,
        "Capacitor Health": 114,
        "PLP Start Count": 42,
        "Endurance Estimate": 16896000000000000,
    }
    assert found.unread == ()


def _reading(written: int, detected: int, corrected: int) -> Health:
    raw = bytearray(page(4))
    raw[0:16] = written.to_bytes(16, "little")
    raw[72:76], raw[76:80] = detected.to_bytes(4, "little"), corrected.to_bytes(4, "little")
    raw[97] = 0
    found = decode(bytes(raw))
    return Health(read_at="", figures=found.figures, unread=(), evidence=())


def test_two_pages_give_differences_and_faults() -> None:
    """Detected errors are a fault, corrected ones are not: nvme-cli 2.3 swaps them."""
    before, after = _reading(10**12, 5, 5), _reading(3 * 10**12, 5, 9)

    grown = {change.name: change.difference for change in changes(before, after) if change.difference}
    assert grown == {"Physical Media Units Written": 2 * 10**12, "End to End Corrected Errors": 4}
    assert list(alarms(before, after)) == []
    assert write_amplification(before, after) is None  # the host's bytes are in the SMART log
    assert [what for what, _ in alarms(before, _reading(10**12, 6, 5))] == ["faults of the drive"]


def test_the_table_has_no_overlap_and_no_duplicate_name() -> None:
    """Fields are in the page, before its version, and each byte belongs to one field."""
    table = layout()
    names = [field.name for field in table.fields]
    used = [byte for field in table.fields for byte in range(field.offset, field.offset + field.size_bytes)]

    assert len(set(names)) == len(names) == len(COUNTS) + len(TEXTS)
    assert len(set(used)) == len(used)
    assert max(used) < table.version_offset
    assert {str(field.since) for field in table.fields} == set(table.versions)
