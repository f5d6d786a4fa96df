"""Tables and matrices of the library: types, missing values and units in numpy, pandas, Arrow and xarray."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from snia_pts.api.tables import Table, matrix_of
from snia_pts.errors import LibraryMissing, UsageError

TABLE = Table(
    name="points",
    title="Points",
    columns={
        "point": ("RND 4 KiB", "SEQ", "RND"),
        "part": ("a", None, "c"),
        "iops": (1.5, None, 3),
        "read_bytes": (4096, 2**53 + 1, 0),
        "write_bytes": (1, None, 3),
        "steady": (True, False, True),
        "host_limited": (True, None, False),
        "value": ("text", 7, None),
        "five_nines_response_us": (None, None, None),
        "seconds": array("d", [1.0, math.nan, 2.0]),
    },
)
MATRIX = matrix_of(
    "iops",
    ("round", "block_size_bytes"),
    {(2, 4096): 4.0, (1, 65536): 2.0, (1, 4096): 1.0, (2, 65536): None},
)


def test_an_array_has_the_types_of_its_columns() -> None:
    """Numbers are int64 or float64; nan is a missing number, None any other missing value."""
    values = TABLE.values

    assert {name: values.dtype[name].str for name in TABLE.columns} == {
        "point": "<U9",
        "part": "|O",
        "iops": "<f8",
        "read_bytes": "<i8",
        "write_bytes": "<f8",
        "steady": "|b1",
        "host_limited": "|O",
        "value": "|O",
        "five_nines_response_us": "<f8",
        "seconds": "<f8",
    }
    assert values.shape == (len(TABLE),) == (3,)
    assert values["read_bytes"].tolist() == [4096, 2**53 + 1, 0]
    assert values["host_limited"].tolist() == [True, None, False]
    assert values["value"].tolist() == ["text", 7, None]
    for name in ("iops", "write_bytes", "seconds"):
        assert numpy.isnan(values[name]).tolist() == [False, True, False], name
    assert numpy.isnan(values["five_nines_response_us"]).all()


def test_units_are_those_of_the_names() -> None:
    """Each column with a unit in its name has that unit."""
    assert {name: unit for name, unit in TABLE.units.items() if unit} == {
        "iops": "IOPS",
        "read_bytes": "bytes",
        "write_bytes": "bytes",
        "five_nines_response_us": "us",
        "seconds": "s",
    }


def test_pandas_keeps_integers_and_truth_values() -> None:
    """A missing value does not turn integers into floats; units are attributes."""
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = TABLE.to_pandas()

    assert {
        name: str(frame[name].dtype) for name in ("iops", "read_bytes", "write_bytes", "steady", "host_limited")
    } == {
        "iops": "float64",
        "read_bytes": "int64",
        "write_bytes": "Int64",
        "steady": "bool",
        "host_limited": "boolean",
    }
    assert frame["write_bytes"].tolist() == [1, pandas.NA, 3]
    assert frame["read_bytes"].tolist() == [4096, 2**53 + 1, 0]
    assert frame["value"].tolist()[:2] == ["text", 7]
    assert frame.isna().sum().to_dict() == {
        **dict.fromkeys(TABLE.columns, 1),
        **dict.fromkeys(("point", "read_bytes", "steady"), 0),
        "five_nines_response_us": 3,
    }
    assert frame.attrs["units"] == TABLE.units


def test_arrow_has_nulls_and_units() -> None:
    """A missing value is null, also a nan of samples; several kinds are texts; a field has its unit."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    table = TABLE.to_arrow()

    assert [table.column(name).null_count for name in TABLE.columns] == [0, 1, 1, 0, 1, 0, 1, 1, 3, 1]
    assert table.column("read_bytes").to_pylist() == [4096, 2**53 + 1, 0]
    assert table.column("value").to_pylist() == ["text", "7", None]
    assert table.schema.field("write_bytes").type == pyarrow.int64()
    assert table.schema.field("seconds").metadata == {b"unit": b"s"}
    assert table.schema.field("point").metadata is None


def test_a_matrix_has_labelled_axes() -> None:
    """Labels ascend whatever the order of the measurements; what was not measured is nan."""
    assert MATRIX.axes == {"round": (1, 2), "block_size_bytes": (4096, 65536)}
    assert numpy.array_equal(MATRIX.values, [[1.0, 2.0], [4.0, math.nan]], equal_nan=True)
    assert MATRIX.unit == "IOPS"
    assert MATRIX.at(block_size_bytes=4096).tolist() == [1.0, 4.0]
    assert MATRIX.at(block_size_bytes=65536, round=1) == 2.0
    assert repr(MATRIX) == "Matrix('iops', 2 round x 2 block_size_bytes)"


def test_xarray_has_coordinates() -> None:
    """Axes are dimensions with coordinates, and the unit is an attribute."""
    pytest.importorskip("xarray", reason="the extra xarray is not installed")
    data = MATRIX.to_xarray()

    assert data.dims == ("round", "block_size_bytes")
    assert data.sel(block_size_bytes=4096, round=2) == 4.0
    assert (data.name, data.attrs) == ("iops", {"units": "IOPS"})


@pytest.mark.parametrize("values", [TABLE.values, TABLE["iops"], MATRIX.values], ids=["table", "column", "matrix"])
def test_arrays_cannot_be_changed(values: Any) -> None:
    """A change in place would change the figures of a run for every later reader."""
    with pytest.raises(ValueError, match="read-only"):
        values[0] = values[1]


def test_an_empty_table_has_no_rows() -> None:
    """A run without deviations has the table of them."""
    table = Table(name="deviations", title="Deviations", columns={})

    assert (len(table), table.values.shape, table.units) == (0, (0,), {})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: TABLE["iop"], "Did you mean iops?"),
        (lambda: MATRIX.at(rounds=1), "Did you mean round?"),
        (lambda: MATRIX.at(round=3), "Available: 1; 2."),
    ],
)
def test_a_wrong_name_has_a_remedy(use: Callable[[], object], message: str) -> None:
    """The error lists the existing names, and the most similar one."""
    with pytest.raises(UsageError) as raised:
        use()

    assert message in raised.value.hint


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("pandas", "pandas", TABLE.to_pandas),
        ("pyarrow", "arrow", TABLE.to_arrow),
        ("xarray", "xarray", MATRIX.to_xarray),
    ],
)
def test_a_missing_library_names_its_extra(
    library: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is the command that installs it."""
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(LibraryMissing) as raised:
        use()
    assert raised.value.hint == f"Install it: pip install 'snia-pts[{extra}]'."
