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

from ..files import create_file, remove
from ..model.array import Member
from ..model.dut import Dut
from ..results.result import RunFacts
from .entries import AFTER, BEFORE, line
from .folder import RunFolder

_SUFFIXES = (".csv", ".fio", ".json", ".log", ".txt")
#: A path below a folder that a user named; its last component stays, for example the name of a file of evidence.
_FOLDER = re.compile(
    r"(?<![\w./<*])(/(?!(?:bin|dev|etc|lib|proc|run|sbin|sys|usr)/)[^\s\"'<>:,;()\\]*[^\s\"'<>:,;()\\/])/"
)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w+.-])[a-z][a-z0-9+]*://[^\s\"'<>\\]+")
#: An identifier of a drive in the text that distinguishes it from another one of its name.
_IDENTIFIER = re.compile(r"[0-9A-Fa-f][0-9A-Fa-f-]{7,}")
#: Shorter texts, and numbers, are only replaced where they are a whole value.
_MIN_LETTERS = 4
_NUMBER = re.compile(r"[\d.,-]+")
#: The first two letters of the placeholders of serial numbers and identifiers, which a name joins to others with "_".
_IN_NAMES = ("se", "id")


def mask(folder: RunFolder, facts: RunFacts) -> tuple[str, ...]:
    """Mask the files of a copy of a run folder in place, and remove those that cannot be masked; return their names.

    The journal keeps valid checksums, and the digests of the evidence are those of the masked files.  Reports are
    removed: they can be made from the masked run.  Raises OSError.
    """
    kept, removed = list[Path](), list[Path]()
    for path in sorted(path for path in folder.path.rglob("*") if path.is_file()):
        is_text = path.suffix in _SUFFIXES or path.name.endswith(".json.gz")
        of_run = path in (folder.journal, folder.result, folder.log) or folder.evidence in path.parents
        (kept if of_run and (is_text or path in (folder.journal, folder.result)) else removed).append(path)
    texts = {path: _read(path) for path in kept}
    placeholders = _placeholders(facts, texts.values())
    replace = _replacer(placeholders)
    digests: dict[str, str] = {}
    for path in (path for path in kept if path not in (folder.journal, folder.result)):
        before = path.read_bytes()
        _write(path, replace(texts[path]))
        digests[sha256(before).hexdigest()] = sha256(path.read_bytes()).hexdigest()
    with_digests = re.compile(r"\b[0-9a-f]{64}\b")
    for path in (path for path in kept if path in (folder.journal, folder.result)):
        text = with_digests.sub(lambda found: digests.get(found[0], found[0]), replace(texts[path]))
        _write(path, text)
    create_file(folder.journal, b"".join(_with_checksums(folder.journal.read_bytes())), replace=True)
    for path in removed:
        remove(path)
    return tuple(str(path.relative_to(folder.path)) for path in removed)


def _read(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", "surrogateescape")


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


def _placeholders(facts: RunFacts, texts: Iterable[str]) -> dict[str, str]:
    """Return the placeholder of each text that identifies something."""
    drives: list[Dut | Member] = [facts.dut, *(facts.dut.array.members if facts.dut.array else ())]
    about = facts.about
    folders, addresses = set[str](), set[str]()
    for text in texts:
        folders.update(_FOLDER.findall(text))
    for word in facts.command_line:
        addresses.update(_ADDRESS.findall(word))
    signers = (about.sign_off.approved_by, about.sign_off.auditor) if about.sign_off else ()
    kinds: Mapping[str, Iterable[str]] = {
        "serial": (*(drive.serial for drive in drives), about.serial),
        "id": _IDENTIFIER.findall(facts.dut.instance or ""),
        "model": (*(drive.model for drive in drives), about.model, about.vendor),
        "firmware": (*(drive.firmware for drive in drives), about.firmware),
        "host": (facts.platform.hostname,),
        "person": (about.operator, *signers),
        "note": (*about.notes, about.hba, *(feature.value for feature in about.features)),
        "address": sorted(addresses),
        "/path": sorted(folders),
        "logo": (about.logo,),
    }
    found: dict[str, str] = {}
    for kind, values in kinds.items():
        for number, value in enumerate(dict.fromkeys(filter(None, values)), start=1):
            found.setdefault(value, f"{kind}-{number}" if kind != "logo" else "")
    return found


def _replacer(placeholders: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that replaces all texts, also as JSON and XML write them; the longest first."""
    written: dict[str, str] = {}
    patterns: list[str] = []
    for value in sorted(placeholders, key=len, reverse=True):
        for form in _forms(value):
            written[form] = placeholders[value]
            patterns.append(
                _pattern(value, form, letters="A-Za-z0-9" if placeholders[value][:2] in _IN_NAMES else r"\w")
            )
    pattern = re.compile("|".join(patterns))
    return lambda text: pattern.sub(lambda found: written[found[0]], text) if patterns else text


def _forms(value: str) -> set[str]:
    """Return a text as it is written in a log, in JSON and in XML."""
    in_json = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
    return {value, *in_json, escape(value, {'"': "&quot;"})}


def _pattern(value: str, form: str, letters: str) -> str:
    """Return the pattern of a text where it is a value, or a word of one, but not the name of a key or an element."""
    if len(value) < _MIN_LETTERS or _NUMBER.fullmatch(value):
        return rf"(?<=[\"'>=]){re.escape(form)}(?=[\"'<\n])(?!\" *:)"
    return rf"(?<![{letters}<])(?<!</){re.escape(form)}(?![{letters}])(?!\" *:| *=)"
