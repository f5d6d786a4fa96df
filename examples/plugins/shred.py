"""A purge method: overwrites the whole target with random data, then with zeros, by ``shred`` of coreutils."""

from snia_pts.lab.purge import Method, PurgeCapability
from snia_pts.lab.purge.method import Tools, any_device

_MIN_BYTES_PER_SECOND = 50e6


def _query(tools: Tools) -> PurgeCapability:
    """Return the command and an estimate of its time; a method that needs a feature of the drive looks for it here."""
    command = ("shred", "--iterations=1", "--zero", "--exact", tools.dut.path)
    return PurgeCapability(
        command=command, seconds=2 * tools.dut.capacity_bytes / _MIN_BYTES_PER_SECOND, by_descriptor=True
    )


METHOD = Method(
    name="shred",
    title="shred, random data and zeros",
    words=("shred", "--zero"),
    standard=False,
    fits=any_device,
    query=_query,
)


def register(registries):
    """Add the purge method ``--purge shred``."""
    registries.PURGE_METHODS["shred"] = f"{__name__}:METHOD"
