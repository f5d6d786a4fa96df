"""Masks a copy of a run folder: texts that identify a drive, a host or a person become placeholders: ``serial-1``."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from xml.sax.saxutils import escape

from ..errors import RecordError
from ..files import create_file, remove
from ..model.array import Member
from ..model.dut import Dut
from ..results.result import RunFacts
from .entries import AFTER, BEFORE, line
from .folder import RunFolder, name_part

_SUFFIXES = (".csv", ".fio", ".json", ".log", ".txt")
#: A path below a folder that a user named; its last component stays, for example the name of a file of evidence.
_FOLDER = re.compile(
    r"(?<![\w./<*])(/(?!(?:bin|dev|etc|lib|proc|run|sbin|sys|usr)/)[^\s\"'<>:,;()\\]*[^\s\"'<>:,;()\\/])/"
)
_HOME = re.compile(r"/home/[^\s\"'<>:,;()\\/]+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w+.-])[a-z][a-z0-9+]*://[^\s\"'<>\\]+")
#: Identifiers in ``Dut.instance``, and in the answers of a drive as nvme-cli, hdparm and the kernel print them.
_INSTANCE = re.compile(r"[0-9A-Fa-f][0-9A-Fa-f-]{7,}")
_IDENTIFIER = re.compile(
    r"(?i)(?:nguid|eui64|eui|naa|uuid|wwid|unique id|identifier)[\s\\\".:=]+(?:0x)?([0-9a-f-]{9,36})\b"
)
#: The name of a drive in the JSON of smartctl: it consists of numbers.
_WWN = re.compile(r'(\\*"wwn\\*"\s*:\s*)\{[^{}]*\}')
#: Shorter texts, and numbers, are only replaced where they are a whole value; longer numbers of drives also elsewhere.
_MIN_LETTERS, _MIN_DIGITS = 4, 8
_NUMBER = re.compile(r"[\d.,-]+")
#: A word that may also be the name of a key or an element.
_NAME = re.compile(r"[a-z_]+")


def mask(folder: RunFolder, facts: RunFacts) -> tuple[str, ...]:
    """Mask the files of a copy of a run folder in place, and remove those that cannot be masked; return their names.

    The journal keeps valid checksums, and the digests of the evidence are those of the masked files.  Reports are
    removed: they can be made from the masked run.  Raises RecordError if a compressed file is damaged, and OSError.
    """
    late = [path for path in (folder.journal, folder.result) if path.exists()]  # they have the digests of the others
    texts, removed = [folder.log] if folder.log.exists() else [], list[Path]()
    for path in sorted(path for path in folder.path.rglob("*") if path.is_file() and path not in (*late, folder.log)):
        is_text = folder.evidence in path.parents and (path.suffix in _SUFFIXES or path.name.endswith(".json.gz"))
        (texts if is_text else removed).append(path)
    replace = _replacer(*_placeholders(facts, map(_read, (*texts, *late))))
    digests: dict[str, str] = {}
    for path in texts:
        before = path.read_bytes()
        _write(path, replace(_read(path)))
        digests[sha256(before).hexdigest()] = sha256(path.read_bytes()).hexdigest()
    digest = re.compile(r"\b[0-9a-f]{64}\b")
    for path in late:
        _write(path, digest.sub(lambda found: digests.get(found[0], found[0]), replace(_read(path))))
    create_file(folder.journal, b"".join(_with_checksums(folder.journal.read_bytes())), replace=True)
    for path in removed:
        remove(path)
    return tuple(str(path.relative_to(folder.path)) for path in removed)


def _read(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise RecordError(path=path.name, reason=f"it cannot be decompressed ({error})") from None
    return content.decode("utf-8", "surrogateescape")


def _write(path: Path, text: str) -> None:
    content = text.encode("utf-8", "surrogateescape")
    create_file(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content, replace=True)


def _with_checksums(journal: bytes) -> Iterator[bytes]:
    """Yield the lines of a journal with checksums of their present content; an incomplete last line stays as it is."""
    checksum = 0
    for text in journal.splitlines(keepends=True):
        if not text.endswith(b"\n"):
            yield text
            return
        payload = text[BEFORE:-AFTER]
        checksum = zlib.crc32(payload, checksum)
        yield line(checksum, payload)


def _placeholders(facts: RunFacts, texts: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the placeholders of the identifiers of drives, and those of all other texts that identify something."""
    drives: list[Dut | Member] = [facts.dut, *(facts.dut.array.members if facts.dut.array else ())]
    about = facts.about
    identifiers, folders, addresses = set(_INSTANCE.findall(facts.dut.instance or "")), set[str](), set[str]()
    for text in texts:
        identifiers.update(found for found in _IDENTIFIER.findall(text) if found.strip("0-"))
        folders.update(_FOLDER.findall(text), _HOME.findall(text))
    for word in facts.command_line:
        addresses.update(_ADDRESS.findall(word))
    signers = (about.sign_off.approved_by, about.sign_off.auditor) if about.sign_off else ()
    of_drives = {"serial": (*(drive.serial for drive in drives), about.serial), "id": sorted(identifiers)}
    others: Mapping[str, Iterable[str]] = {
        "model": (*(drive.model for drive in drives), about.model, about.vendor),
        "firmware": (*(drive.firmware for drive in drives), about.firmware),
        "host": (facts.platform.hostname,),
        "person": (about.operator, *signers),
        "note": (*about.notes, about.hba, *(feature.value for feature in about.features)),
        "address": sorted(addresses),
        "/path": sorted(folders),
    }
    return _numbered(of_drives), {**_numbered(others), **({about.logo: ""} if about.logo else {})}


def _numbered(kinds: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {
        value: f"{kind}-{number}"
        for kind, values in kinds.items()
        for number, value in enumerate(dict.fromkeys(filter(None, values)), start=1)
    }


def _replacer(identifiers: Mapping[str, str], others: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that replaces all texts, also as JSON and XML write them; the longest first."""
    placeholders = {**others, **identifiers}
    written: dict[str, str] = {}
    patterns: list[str] = []
    for value in sorted(placeholders, key=len, reverse=True):
        for form in _forms(value):
            written[form] = placeholders[value]
            patterns.append(_pattern(value, re.escape(form), anywhere=value in identifiers))
    pattern = re.compile("|".join(patterns) or r"(?!)")
    return lambda text: _WWN.sub(r"\1{}", pattern.sub(lambda found: written[found[0]], text))


def _forms(value: str) -> set[str]:
    """Return a text as it is written in a log, in JSON, in XML, and in the name of a run folder."""
    in_json = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    in_name = name_part(value)
    return {value, *in_json, escape(value, {'"': "&quot;"}), *([in_name] if len(in_name) >= _MIN_LETTERS else [])}


def _pattern(value: str, form: str, *, anywhere: bool) -> str:
    """Return the pattern of a text: ``anywhere``, or where it is a word, and not the name of a key or an element."""
    not_key = r"(?!\" *:| *=)" if _NAME.fullmatch(value) else ""
    is_number = _NUMBER.fullmatch(value) is not None
    if len(value) < _MIN_LETTERS or (is_number and not (anywhere and len(value) >= _MIN_DIGITS)):
        return rf"(?<=[\"'>=]){form}(?=[\"'<\n]){not_key}"
    if anywhere and not is_number and not not_key:
        return form
    return rf"(?<![\w<])(?<!</){form}(?!\w){not_key}"
