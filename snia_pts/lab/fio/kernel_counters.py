"""Compare fio's answer with the counters of the kernel's block layer."""

from __future__ import annotations

from ...model.measurement import Transfers
from ...model.steps import Stimulus
from ...model.telemetry import TelemetrySample
from ...units import MB, exact_capacity
from .job import AnswerRejected

#: The block layer may count this share of fio's bytes, and this many bytes, less than fio.
_UNCOUNTED_SHARE, _UNCOUNTED_BYTES = 0.02, 8 * MB
#: The block layer may merge this share of random I/Os, and this many.
_MERGED_SHARE, _MERGED_IOS = 0.1, 1000
#: fio's response times include those of the block layer; true answers on a loaded host had 1.09 to 12.9 times their
#: sum.  The kernel counts in milliseconds, and may count this time more for each outstanding I/O.
_LEAST_OF_COUNTED, _COUNTED_SECONDS = 0.5, 0.01


def require_counted(
    stimulus: Stimulus, read: Transfers, write: Transfers, telemetry: TelemetrySample, path: str
) -> None:
    """Check that the kernel counted the bytes and random I/Os that fio reports, and shorter response times.

    ``telemetry`` begins before fio's first I/O on ``path``, and ends after its last one.  The page cache delays I/O, so
    a cached stimulus is not checked.  Raises AnswerRejected.
    """
    block = telemetry.block
    if block is None or stimulus.cached:
        return
    for name, side, counted_bytes, counted_ios in (
        ("read", read, block.read_bytes, block.read_ios),
        ("written", write, block.write_bytes, block.write_ios),
    ):
        reported_bytes = side.transferred_bytes
        if reported_bytes - counted_bytes > max(_UNCOUNTED_BYTES, _UNCOUNTED_SHARE * reported_bytes):
            reported, counted = f"{exact_capacity(reported_bytes)} {name}", exact_capacity(counted_bytes)
        elif _are_ios_separate(stimulus) and side.ios - counted_ios > max(_MERGED_IOS, _MERGED_SHARE * side.ios):
            reported, counted = f"{side.ios} I/Os {name}", str(counted_ios)
        else:
            continue
        raise AnswerRejected("host", f"fio reports {reported}, but the kernel counted {counted} on {path}")
    _require_response_times(stimulus, read, write, telemetry, path)


def _require_response_times(
    stimulus: Stimulus, read: Transfers, write: Transfers, telemetry: TelemetrySample, path: str
) -> None:
    """Check that fio's response times add up to no less than the times of the same I/Os in the block layer.

    The block layer's sum is also that of I/Os in a ramp, of the parts of I/Os that it splits and of other programs'
    I/Os; then it is not compared.
    """
    block = telemetry.block
    ios = read.ios + write.ios
    if block is None or stimulus.ramp_seconds or block.discarded_bytes:
        return
    if block.read_ios + block.write_ios > ios + max(_MERGED_IOS, _MERGED_SHARE * ios):
        return
    reported_seconds = (read.ios * read.response_mean_ns + write.ios * write.response_mean_ns) / 1e9
    counted_seconds = block.queue * telemetry.seconds
    if reported_seconds < _LEAST_OF_COUNTED * counted_seconds - _COUNTED_SECONDS * stimulus.total_oio:
        reason = (
            f"fio's response times add up to {reported_seconds:.4g} s, but the kernel counted {counted_seconds:.4g} s "
            f"for the same I/Os on {path}"
        )
        raise AnswerRejected("host", reason, repeatable=True)


def _are_ios_separate(stimulus: Stimulus) -> bool:
    """Return whether the block layer can merge few I/Os: random ones in a range of many more blocks than are in flight.

    In a range of 100 blocks for each outstanding I/O, 2 % of the I/Os have an outstanding neighbour.
    """
    blocks = stimulus.range_bytes // stimulus.largest_block_bytes
    return stimulus.access == "RND" and not stimulus.skew and blocks >= 100 * stimulus.total_oio
