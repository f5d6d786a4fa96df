"""libblkid of util-linux: the signatures and partitions in a part of a disk.  It only reads."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

#: blkid.h: which values of a superblock to read, also if its checksum is wrong.
_LABEL, _UUID, _TYPE, _USAGE, _BAD_CHECKSUM = 1 << 1, 1 << 3, 1 << 5, 1 << 7, 1 << 10
_VALUES = ("TYPE", "USAGE", "LABEL", "UUID")
_GPT = "gpt"
#: The unit of libblkid, for every sector size of the disk.
_SECTOR_BYTES = 512
_POINTER, _INT, _INT64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_TEXT = ctypes.POINTER(ctypes.c_char_p)
#: The functions of libblkid, with the type of the result and those of the arguments.
_FUNCTIONS = {
    "blkid_new_probe": (_POINTER,),
    "blkid_free_probe": (None, _POINTER),
    "blkid_probe_set_sectorsize": (_INT, _POINTER, ctypes.c_uint),
    "blkid_probe_set_device": (_INT, _POINTER, _INT, _INT64, _INT64),
    "blkid_probe_set_superblocks_flags": (_INT, _POINTER, _INT),
    "blkid_probe_enable_partitions": (_INT, _POINTER, _INT),
    "blkid_do_probe": (_INT, _POINTER),
    "blkid_probe_lookup_value": (_INT, _POINTER, ctypes.c_char_p, _TEXT, _POINTER),
    "blkid_probe_get_partitions": (_POINTER, _POINTER),
    "blkid_partlist_numof_partitions": (_INT, _POINTER),
    "blkid_partlist_get_partition": (_POINTER, _POINTER, _INT),
    "blkid_partition_get_partno": (_INT, _POINTER),
    "blkid_partition_get_start": (_INT64, _POINTER),
    "blkid_partition_get_size": (_INT64, _POINTER),
    "blkid_partition_is_extended": (_INT, _POINTER),
}


class Partition(NamedTuple):
    """An entry of a partition table; an extended partition only contains other partitions of the same table."""

    number: int
    start_bytes: int
    size_bytes: int
    is_extended: bool


class Part(NamedTuple):
    """What a part of a disk contains: signatures, as rows of wipefs, and the partitions of its partition table.

    The partitions begin at bytes of the part.
    """

    signatures: tuple[dict[str, str], ...]
    partitions: tuple[Partition, ...]


def read_part(descriptor: int, offset: int, size_bytes: int) -> Part:
    """Read what a part of an open disk contains; raises OSError, also if libblkid is not installed.

    A GUID partition table is also found if it was made for another sector size, as in a virtual machine's disk.
    """
    part = _read(descriptor, offset, size_bytes)
    for sector_bytes in (512, 4096):
        if all(row["type"] != _GPT for row in part.signatures):
            other = _read(descriptor, offset, size_bytes, sector_bytes)
            tables = tuple(row for row in other.signatures if row["type"] == _GPT)
            part = Part((*part.signatures, *tables), other.partitions) if tables else part
    return part


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libblkid.so.1", use_errno=True)
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@contextmanager
def _probe() -> Iterator[int]:
    probe = _library().blkid_new_probe()
    if not probe:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    try:
        yield probe
    finally:
        _library().blkid_free_probe(probe)


def _read(descriptor: int, offset: int, size_bytes: int, sector_bytes: int = 0) -> Part:
    """Read a part of a disk, with a sector size other than the disk's if it is not 0."""
    library = _library()
    with _probe() as probe:
        _require(library.blkid_probe_set_device(probe, descriptor, offset, size_bytes) == 0)
        if sector_bytes:
            _require(library.blkid_probe_set_sectorsize(probe, sector_bytes) == 0)
        library.blkid_probe_set_superblocks_flags(probe, _LABEL | _UUID | _TYPE | _USAGE | _BAD_CHECKSUM)
        library.blkid_probe_enable_partitions(probe, 1)
        signatures = list[dict[str, str]]()
        while (found := library.blkid_do_probe(probe)) == 0:
            if table := _value(probe, "PTTYPE"):
                signatures.append({"type": table, "usage": "partition-table", "label": ""})
            elif kind := _value(probe, "TYPE"):
                signatures.append({name.lower(): _value(probe, name) for name in _VALUES} | {"type": kind})
        _require(found == 1)
        return Part(tuple(signatures), tuple(_partitions(probe)))


def _partitions(probe: int) -> Iterator[Partition]:
    library = _library()
    entries = library.blkid_probe_get_partitions(probe)
    for index in range(library.blkid_partlist_numof_partitions(entries) if entries else 0):
        entry = library.blkid_partlist_get_partition(entries, index)
        yield Partition(
            library.blkid_partition_get_partno(entry),
            library.blkid_partition_get_start(entry) * _SECTOR_BYTES,
            library.blkid_partition_get_size(entry) * _SECTOR_BYTES,
            bool(library.blkid_partition_is_extended(entry)),
        )


def _value(probe: int, name: str) -> str:
    """Return a value of the signature that was found last; empty if it has none."""
    text = ctypes.c_char_p()
    missing = _library().blkid_probe_lookup_value(probe, name.encode(), ctypes.byref(text), None)
    return "" if missing or text.value is None else text.value.decode("utf-8", "replace")


def _require(succeeded: bool) -> None:
    if not succeeded:
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, os.strerror(number))
