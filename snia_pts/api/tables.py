"""Tables and matrices of numbers, with names and units, for numpy, pandas, Arrow and xarray.

numpy is imported when the first array is requested; pandas, pyarrow and xarray are optional.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import product
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from ..errors import LibraryMissing, UsageError
from ..results.attributes import Value
from ..results.tables import unit
from ..text import suggestion

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow
    import xarray
    from numpy.typing import NDArray

Kind = Literal["float", "integer", "bool", "text", "mixed"]
#: The maximum number of valid words in a message.
_MAX_LISTED = 20
_INT64 = range(-(2**63), 2**63)


def one_of(word: str, valid_words: Sequence[str], what: str) -> str:
    """Return ``word`` if it is valid; raises UsageError, which lists the valid words, for any other."""
    if word in valid_words:
        return word
    more = "; ..." if len(valid_words) > _MAX_LISTED else ""
    hint = f"Available: {'; '.join(valid_words[:_MAX_LISTED]) or 'none'}{more}."
    if similar := suggestion(word, valid_words):
        hint = f"{similar[0].upper()}{similar[1:]} {hint}"
    raise UsageError(detail=f"{word!r}: there is no such {what}.", hint=hint)


def _library(name: str, extra: str) -> Any:
    """Import an optional library; raises LibraryMissing, which names the extra that installs it."""
    try:
        return import_module(name)
    except ImportError:
        raise LibraryMissing(library=name, extra=extra) from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A table: ``columns`` are its values by column name, None (or nan) for a missing value; all are equally long.

    Units are part of the names: ``mb_per_second``, ``average_response_us``, ``write_bytes``; ``units`` lists them.
    ``table["iops"]`` is a column as a numpy array, ``len(table)`` the number of rows.
    """

    name: str
    title: str
    columns: Mapping[str, Sequence[Value]]

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows, columns: {', '.join(self.columns)})"

    def __len__(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """Return a column as an array of shape (rows,); raises UsageError if there is no such column."""
        return self.values[one_of(column, tuple(self.columns), f"column of the table {self.name}")]

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column; empty if it has none."""
        return {name: unit(name) for name in self.columns}

    @property
    def numeric(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(name for name, column in self.columns.items() if _examine(column)[0] in ("float", "integer"))

    @cached_property
    def values(self) -> NDArray[numpy.void]:
        """The rows as a structured array of shape (rows,), with a field for each column.

        Integers are int64, other numbers float64, truth values bool.  A missing number is nan, which makes a column of
        integers float64.  Texts are as long as the longest one.  A column of several kinds, or a column of texts or
        truth values with missing values, has objects; None is a missing one.  The array cannot be changed.
        """
        import numpy

        arrays = {name: _array(column) for name, column in self.columns.items()}
        values = numpy.empty(len(self), dtype=[(name, column.dtype) for name, column in arrays.items()])
        for name, column in arrays.items():
            values[name] = column
        values.flags.writeable = False
        return values

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a DataFrame; ``attrs["units"]`` are the units.

        Integers and truth values with missing values have pandas' types Int64 and boolean.  Raises LibraryMissing
        without pandas (``pip install 'snia-pts[pandas]'``).
        """
        pandas = _library("pandas", "pandas")
        frame = pandas.DataFrame({name: _series(pandas, column) for name, column in self.columns.items()})
        frame.attrs["units"] = self.units
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Return the table as an Arrow table; the metadata of a field has its ``unit``, and null is a missing value.

        The values of a column of several kinds become texts.  Raises LibraryMissing without pyarrow
        (``pip install 'snia-pts[arrow]'``).
        """
        pyarrow = _library("pyarrow", "arrow")
        arrays = {name: _arrow(pyarrow, column) for name, column in self.columns.items()}
        fields = [
            pyarrow.field(name, column.type, metadata={"unit": self.units[name]} if self.units[name] else None)
            for name, column in arrays.items()
        ]
        return pyarrow.Table.from_arrays(list(arrays.values()), schema=pyarrow.schema(fields))


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrix:
    """A metric at every combination of labels: ``values`` has a dimension for each axis, nan if not measured.

    ``axes`` are the labels of each axis, ascending, in the order of the dimensions, such as ``round``,
    ``block_size_bytes`` and ``read_percent`` (the percentage of reads).
    """

    metric: str
    axes: Mapping[str, tuple[int | str, ...]]
    values: NDArray[numpy.float64]

    def __repr__(self) -> str:
        sizes = " x ".join(f"{len(labels)} {name}" for name, labels in self.axes.items())
        return f"Matrix({self.metric!r}, {sizes})"

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return unit(self.metric)

    def at(self, **labels: int | str) -> NDArray[numpy.float64]:
        """Return the values at a label of one or several axes, as an array over the other axes.

        ``matrix.at(read_percent=0)`` are those of writes.  Raises UsageError if there is no such axis or label.
        """
        for axis in labels:
            one_of(axis, tuple(self.axes), "axis")
        return self.values[tuple(self._index(axis, labels.get(axis)) for axis in self.axes)]

    def _index(self, axis: str, label: int | str | None) -> int | slice:
        if label is None:
            return slice(None)
        if label not in self.axes[axis]:
            one_of(str(label), tuple(map(str, self.axes[axis])), f"label of the axis {axis}")
        return self.axes[axis].index(label)

    def to_xarray(self) -> xarray.DataArray:
        """Return the matrix as a DataArray with coordinates; ``attrs["units"]`` is the unit.

        Raises LibraryMissing without xarray (``pip install 'snia-pts[xarray]'``).
        """
        coordinates = {name: list(labels) for name, labels in self.axes.items()}
        arguments = {"dims": list(self.axes), "name": self.metric, "attrs": {"units": self.unit}}
        matrix: xarray.DataArray = _library("xarray", "xarray").DataArray(self.values, coordinates, **arguments)
        return matrix


def matrix_of(metric: str, names: Sequence[str], cells: Mapping[tuple[int | str, ...], Value]) -> Matrix:
    """Return the matrix of values by their labels, one for each of the axes ``names``; None is a missing value."""
    import numpy

    labels = [tuple(dict.fromkeys(column)) for column in zip(*cells, strict=True)]
    axes = {name: _ascending(column) for name, column in zip(names, labels, strict=True)}
    values = numpy.array([cells.get(key) for key in product(*axes.values())], dtype="f8")
    values = values.reshape([len(labels) for labels in axes.values()])
    values.flags.writeable = False
    return Matrix(metric=metric, axes=axes, values=values)


def _ascending(labels: Sequence[int | str]) -> tuple[int | str, ...]:
    """Return numbers in ascending order; texts keep their order."""
    numbers = [label for label in labels if isinstance(label, int)]
    return tuple(sorted(numbers)) if len(numbers) == len(labels) else tuple(labels)


# -- columns ----------------------------------------------------------------------------------------------------------


def _examine(column: Sequence[Value]) -> tuple[Kind, bool]:
    """Return the kind of a column's values, and whether some are missing; if all are, it is a column of numbers."""
    if isinstance(column, array):  # missing values are nan
        return "float", False
    kinds, missing = {type(value) for value in column} - {NoneType}, None in column
    if kinds == {int} and all(value is None or value in _INT64 for value in column):
        return "integer", missing
    if kinds <= {int, float}:
        return "float", missing
    if len(kinds) > 1:
        return "mixed", missing
    return ("bool" if kinds == {bool} else "text"), missing


def _array(column: Sequence[Value]) -> NDArray[Any]:
    import numpy

    kind, missing = _examine(column)
    if kind == "mixed" or (missing and kind in ("bool", "text")):
        objects = numpy.empty(len(column), dtype=object)
        objects[:] = column
        return objects
    types = {"float": "f8", "integer": "f8" if missing else "i8", "bool": "?", "text": "U"}
    return numpy.array(column, dtype=types[kind])


def _series(pandas: Any, column: Sequence[Value]) -> Any:
    kind, missing = _examine(column)
    types = {"float": "f8", "integer": "Int64" if missing else "i8", "bool": "boolean" if missing else "?"}
    return pandas.Series(column, dtype=types.get(kind))


def _arrow(pyarrow: Any, column: Sequence[Value]) -> Any:
    kind, _ = _examine(column)
    if kind == "mixed":
        return pyarrow.array([None if value is None else str(value) for value in column], pyarrow.string())
    types = {"float": pyarrow.float64(), "integer": pyarrow.int64(), "bool": pyarrow.bool_(), "text": pyarrow.string()}
    return pyarrow.array(column, types[kind], from_pandas=True)
