"""The data tables of a result as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
import unicodedata

from ...results.attributes import Value
from ...results.tables import DataTable, unit
from ...text import json_values, printable

#: The characters that start a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(table: DataTable) -> bytes:
    """Return a table as CSV (RFC 4180, UTF-8): a header line, then the rows; missing values are empty.

    A text that a spreadsheet would read as a formula gets a leading apostrophe, the spreadsheets' mark for text.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(table.fields)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        shown = printable(value)
        is_formula = unicodedata.normalize("NFKC", shown).lstrip().startswith(_FORMULA)  # also in fullwidth characters
        return f"'{shown}" if is_formula else shown
    return repr(value)


def as_json(all_tables: tuple[DataTable, ...]) -> bytes:
    """Return tables as one JSON document; nan and infinity are null."""
    document = {
        "format": 1,
        "tables": [
            {
                "name": table.name,
                "title": table.title,
                "fields": [{"name": field, "unit": unit(field)} for field in table.fields],
                "rows": json_values(table.rows),
            }
            for table in all_tables
        ],
    }
    return (json.dumps(document, indent=None, allow_nan=False, separators=(",", ":")) + "\n").encode()
