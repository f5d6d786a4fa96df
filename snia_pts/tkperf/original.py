"""Export the runs of an imported file as that file."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from ..importer.runs import read_copies
from ..record.folder import RunFolder
from ..results.result import TestResult
from .document import KINDS
from .writer import file_stem
from .zones import kind_of

_IMPORTER = "tkperf"


def original(folders: Sequence[RunFolder], results: Sequence[TestResult]) -> tuple[bytes, str, tuple[str, ...]] | None:
    """Return the imported file with the tests of ``results``, its name in TKperf, and no omissions.

    It is the copy in the evidence of the first folder, whose checksum the caller has verified.  A file of which all
    tests are exported is unchanged to the byte.  None if the runs are not those of one imported file of TKperf.
    """
    imported = [result.facts.imported for result in results if result.facts.imported]
    origins = {(origin.importer, origin.sha256) for origin in imported}
    if len(imported) < len(results) or len(origins) > 1 or imported[0].importer != _IMPORTER:
        return None
    (copy,) = read_copies(folders[0].evidence, imported[0])
    root = etree.fromstring(copy.content, etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True))
    kinds = {kind_of(result.facts.spec) for result in results}
    others = [element for kind in KINDS if kind not in kinds for element in root.findall(kind)]
    for element in others:
        root.remove(element)
    return etree.tostring(root) if others else copy.content, file_stem(str(root.tag)), ()
