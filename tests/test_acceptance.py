"""The limits at which an answer of fio is rejected, each from both sides; and how the fio process ended."""

from __future__ import annotations

import errno
import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from snia_pts.lab import fio
from snia_pts.lab.fio.agreement import require_sync_times
from snia_pts.lab.process.program import Finished
from snia_pts.model.histogram import Histogram, SyncTimes
from snia_pts.model.measurement import Transfers
from tests.strategies import transfers
from tests.test_fio import answer, side, stimulus
from tests.test_sampling import middle_ns

ENDED = Finished(
    argv=("fio",),
    exit_code=0,
    timed_out=False,
    stopped_seconds=None,
    unkillable_pid=None,
    started="",
    started_monotonic_ns=0,
    ended_monotonic_ns=100_000_000,
    stdout="",
    stderr="fio: its last word\n",
)


def accepted(*, document: Any = None, requested: Any = None, **process_changes: Any) -> tuple[Transfers, Transfers]:
    """Return the transfers of an accepted answer; ``process_changes`` changes how the fio process ended."""
    text = json.dumps(answer() if document is None else document)
    return fio.accept_finished(requested or stimulus(), replace(ENDED, **process_changes), text)


def is_accepted(ios: int, runtime: int, **requested: Any) -> bool:
    """Return whether an answer with this number of writes and this runtime in milliseconds is accepted."""
    try:
        accepted(
            document={"jobs": [{"error": 0, "read": side(), "write": side(ios, runtime=runtime)}]},
            requested=stimulus(**requested),
            ended_monotonic_ns=10**12,
        )
    except fio.AnswerRejected:
        return False
    return True


@pytest.mark.parametrize(("runtime", "valid"), [(98_994, False), (98_995, True), (220_000, True), (220_001, False)])
def test_a_runtime_within_its_limits_is_accepted(runtime: int, valid: bool) -> None:
    """From 99 % of the requested time minus 5 ms, to the requested time plus the 120 s for which a drive may stall."""
    assert is_accepted(round(runtime / 1000), runtime, seconds=100.0, thread_count=1, queue_depth=1) == valid


@pytest.mark.parametrize(("runtime", "valid"), [(100, True), (110, True), (111, False)])
def test_the_runtime_is_at_most_the_lifetime_of_fio(runtime: int, valid: bool) -> None:
    """A runtime longer than the process, 100 ms here, is rejected; 10 ms are allowed for rounding."""
    document = {"jobs": [{"error": 0, "read": side(), "write": side(999, runtime=runtime)}]}
    if valid:
        assert accepted(document=document)[1].runtime_ms == runtime
        return
    with pytest.raises(
        fio.AnswerRejected, match=r"reports 0\.111 s of I/O, but its process ran for only 0\.1 s"
    ) as refused:
        accepted(document=document)
    assert refused.value.blame == "host"


def test_reads_count_for_the_runtime_as_writes_do() -> None:
    """The longer of both sides is the runtime."""
    document = {"jobs": [{"error": 0, "read": side(499, runtime=100), "write": side(499, runtime=95)}]}
    with pytest.raises(fio.AnswerRejected, match="but its process ran for only"):
        accepted(document=document, requested=stimulus(read_percent=50), ended_monotonic_ns=80_000_000)


@pytest.mark.parametrize(
    ("write_ms", "changes", "valid"),
    [
        (990, {}, True),
        (981, {}, True),
        (979, {}, False),
        (979, {"access": "SEQ", "thread_count": 1, "passes": 1, "range_bytes": 998 * 4096}, True),
    ],
)
def test_reads_and_writes_of_a_mix_have_one_runtime(write_ms: int, changes: Any, *, valid: bool) -> None:
    """Within 10 ms and 1 %; of passes, fio leaves out the time before the first write."""
    document = {"jobs": [{"error": 0, "read": side(499, runtime=1000), "write": side(499, runtime=write_ms)}]}
    request = stimulus(**{"read_percent": 50, "seconds": None if changes else 1.0, **changes})
    reason = "measured the reads over 1000 ms and the writes over"
    with nullcontext() if valid else pytest.raises(fio.AnswerRejected, match=reason):
        accepted(document=document, requested=request, ended_monotonic_ns=10**12)


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_the_answer_of_a_stopped_fio_is_rejected(seconds: float) -> None:
    """Even if the answer is valid and the stop was short."""
    with pytest.raises(fio.AnswerRejected, match="another process stopped fio for about") as refused:
        accepted(stopped_seconds=seconds)
    assert refused.value.blame == "host"


def test_a_rejection_says_how_fio_ended() -> None:
    """It quotes the end of standard error, or says that fio hangs in the kernel; blame and error number remain."""
    with pytest.raises(fio.AnswerRejected, match="fio said: fio: its last word") as refused:
        accepted(document=answer(error=5), exit_code=1)
    assert (refused.value.blame, refused.value.number) == ("device", 5)
    with pytest.raises(fio.AnswerRejected, match=r"no answer within .*cannot be killed \(process 77\)") as hung:
        accepted(timed_out=True, unkillable_pid=77)
    assert hung.value.blame == "device"


@pytest.mark.parametrize(
    ("number", "blame"),
    [
        (errno.EIO, "device"),
        (errno.ETIMEDOUT, "device"),
        (errno.ENOSPC, "host"),
        (errno.ENOMEM, "host"),
        (errno.EFBIG, "host"),  # a file size limit (ulimit -f)
        (errno.ETXTBSY, "host"),  # somebody swaps to the file
        (errno.EDQUOT, "host"),
    ],
)
def test_an_error_number_determines_the_blame(number: int, blame: str) -> None:
    """An error that host or device may have caused counts as the device's."""
    assert fio.blame(number) == blame


@pytest.mark.parametrize(
    ("code", "text"), [(0, "ended with exit code 0"), (1, "exit code 1"), (-9, "killed by signal 9")]
)
def test_a_missing_answer_is_reported_with_the_exit_code(code: int, text: str) -> None:
    """An exit code of 0 without an answer is reported as an end without a result, not as a signal."""
    with pytest.raises(fio.AnswerRejected, match=f"{text} and wrote no result"):
        fio.accept(stimulus(), code, False, "")


def test_an_end_without_a_beginning_is_a_document_of_its_own() -> None:
    """The rest of a truncated document does not become part of the next one."""
    assert list(fio.StatusStream().feed(b"\n}\n{\n}\n")) == ["\n}\n", "{\n}\n"]


def test_a_short_runtime_is_reported_without_a_missing_limit() -> None:
    """The message mentions bytes only if the stimulus has a limit of bytes."""
    with pytest.raises(fio.AnswerRejected) as refused:
        fio.accept(stimulus(seconds=1.0), 0, False, json.dumps(answer()))
    assert refused.value.reason == "the stimulus ran 0.1 s, expected 1 s"


@pytest.mark.parametrize(("greatest_ns", "valid"), [(17_100_000_000, True), (29_000_000_000, True), (10**10, False)])
def test_fio_s_last_bin_has_no_end(greatest_ns: int, valid: bool) -> None:
    """Every response time above 17.2 s, as of a drive that stalls, is counted in the last bin."""
    document: Any = {"jobs": [{"error": 0, "read": side(), "write": side(8, runtime=29_500)}]}
    times = document["jobs"][0]["write"]["lat_ns"]
    times.update(max=greatest_ns, mean=(7 * 1000 + greatest_ns) / 8, bins={"1004": 7, "17112760320": 1})
    if valid:
        found = accepted(document=document, requested=stimulus(seconds=29.0), ended_monotonic_ns=10**12)[1]
        assert found.response_max_ns == greatest_ns
        return
    with pytest.raises(fio.AnswerRejected, match="highest bin"):
        accepted(document=document, requested=stimulus(seconds=29.0), ended_monotonic_ns=10**12)


@pytest.mark.parametrize("name", ["short_ios", "drop_ios"])
@pytest.mark.parametrize("part", ["read", "write"])
def test_a_short_io_of_a_timed_point_is_the_device_s_failure(name: str, part: str) -> None:
    """The device transferred less than requested: the reason states the number of I/Os."""
    document = answer()
    document["jobs"][0][part][name] = 2
    with pytest.raises(fio.AnswerRejected, match="fio counted 2 short I/Os") as refused:
        accepted(document=document)
    assert refused.value.blame == "device"


def test_short_reads_that_are_sync_calls_are_accepted() -> None:
    """fio counts each call of fdatasync as a short read; a short write is one."""
    document, request = answer(), stimulus(options=(("fdatasync", "4"),))
    document["jobs"][0]["read"]["short_ios"] = 3
    accepted(document=document, requested=request)
    document["jobs"][0]["write"]["short_ios"] = 1
    with pytest.raises(fio.AnswerRejected, match="fio counted 1 short I/O"):
        accepted(document=document, requested=request)


CAPPED = "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1\n"


@pytest.mark.parametrize(
    ("depth", "options", "valid"),
    [(2, (), False), (1, (), True), (2, (("ioengine", "psync"),), True), (2, (("direct", "0"),), False)],
)
@pytest.mark.parametrize("is_error", [False, True])
def test_a_queue_depth_that_fio_reduced_is_refused(depth: int, options: Any, *, valid: bool, is_error: bool) -> None:
    """Unless a profile chose a synchronous engine itself, whichever stream the note is in."""
    text = json.dumps(answer(write=999))
    request = stimulus(thread_count=1, queue_depth=depth, options=options)
    with nullcontext() if valid else pytest.raises(fio.AnswerRejected, match=f"to 1, expected {depth}"):
        if is_error:
            fio.accept(request, 0, False, text, CAPPED)
        else:
            fio.accept(request, 0, False, CAPPED + text)


def levels(**percents: float) -> dict[str, float]:
    """Return fio's levels of depths, of which some are not 0; ``over`` is the last."""
    names = {"one": "1", "two": "2", "four": "4", "eight": "8", "sixteen": "16", "half": "32", "over": ">=64"}
    return {level: percents.get(name, 0.0) for name, level in names.items()}


@pytest.mark.parametrize(
    ("depth", "found", "valid"),
    [
        (4, levels(two=50.0, one=50.0), True),
        (4, levels(two=49.9, one=50.1), False),
        (8, levels(four=100.0), True),
        (8, levels(two=100.0), False),
        (32, levels(sixteen=99.9, one=0.1), True),
        (32, levels(eight=100.0), False),
        (100, levels(half=100.0), True),
        (256, levels(over=50.0), True),
        (256, levels(half=100.0), False),
        (3, levels(one=100.0), True),
    ],
)
def test_the_queue_depth_was_kept(depth: int, found: dict[str, float], *, valid: bool) -> None:
    """Half of all I/Os or more had at least half the depth outstanding; options of a profile may reduce it."""
    document = {"jobs": [{"error": 0, "read": side(), "write": side(10_000), "iodepth_level": found}]}
    request = stimulus(thread_count=1, queue_depth=depth, ramp_seconds=0.1)
    with nullcontext() if valid else pytest.raises(fio.AnswerRejected, match=f"half of queue depth {depth} in only"):
        accepted(document=document, requested=request)
    accepted(document=document, requested=replace(request, options=(("rate_iops", "1000"),)))


def test_the_queue_depth_is_judged_by_many_ios() -> None:
    """By a thousand, and ten times as many as are outstanding."""
    for ios, depth, valid in ((999, 8, True), (1000, 8, False), (5119, 512, True), (5120, 512, False)):
        document = {"jobs": [{"error": 0, "read": side(), "write": side(ios), "iodepth_level": levels(one=100.0)}]}
        with nullcontext() if valid else pytest.raises(fio.AnswerRejected, match="of queue depth"):
            accepted(document=document, requested=stimulus(thread_count=1, queue_depth=depth, ramp_seconds=0.1))


@pytest.mark.parametrize(("response_us", "is_possible"), [(1000, True), (600, True), (450, False)])
@pytest.mark.parametrize(
    ("depth", "block_kib", "is_judged"),
    [(8, 4, True), (4, 128, True), (1, 4, True), (1, 16, True), (3, 128, False), (1, 128, False)],
)
def test_response_times_fill_the_queue(
    depth: int, block_kib: int, is_judged: bool, response_us: int, is_possible: bool
) -> None:
    """1000 I/Os a second for each place in a full queue take 1 ms each; less than half of that is false.

    With few outstanding I/Os of a large block, refilling the buffer may take as long as the I/O.
    """
    document = _steady_answer(1000 * depth, 1.0, response_us, block_kib)
    request = stimulus(seconds=1.0, thread_count=1, queue_depth=depth, block_size_bytes=1024 * block_kib)
    if is_possible or not is_judged:
        accepted(document=document, requested=request, ended_monotonic_ns=10**12)
        return
    with pytest.raises(fio.AnswerRejected, match=f"too little with {depth} outstanding I/Os") as refused:
        accepted(document=document, requested=request, ended_monotonic_ns=10**12)
    assert refused.value.repeatable


@pytest.mark.parametrize(
    ("threads", "turn_us", "response_us", "is_possible"),
    [(1, 200, 40, False), (1, 101, 40, False), (1, 99, 40, True), (8, 790, 40, True), (8, 810, 40, False)],
)
def test_short_response_times_are_judged_by_the_time_for_an_io(
    threads: int, turn_us: int, response_us: int, is_possible: bool
) -> None:
    """A response of 40 us is false where one I/O of a thread took 100 us, for each thread that may share a CPU."""
    document = _steady_answer(threads * 10_000_000 // turn_us, 10.0, response_us)
    request = stimulus(seconds=10.0, thread_count=threads, queue_depth=1)
    with nullcontext() if is_possible else pytest.raises(fio.AnswerRejected, match="too little with"):
        accepted(document=document, requested=request, ended_monotonic_ns=10**12)


@pytest.mark.parametrize(("ios", "is_possible"), [(128_001, True), (128_000, False), (39_351, False)])
def test_short_response_times_of_a_deep_queue_are_judged_by_the_runtime(ios: int, is_possible: bool) -> None:
    """A false mean of 3 us does not exempt an answer of T4Q32 in which each outstanding I/O took 1 ms or more."""
    request = stimulus(seconds=1.0, thread_count=4, queue_depth=32)
    with nullcontext() if is_possible else pytest.raises(fio.AnswerRejected, match="too little with 128 outstanding"):
        accepted(document=_steady_answer(ios, 1.0, 3), requested=request, ended_monotonic_ns=10**12)


@pytest.mark.parametrize(
    ("depth", "ios", "block_kib"), [(8, 8001, 4), (8, 8000, 128), (4, 4001, 16)], ids=["fast", "large", "shallow"]
)
def test_short_response_times_of_fast_or_large_ios_are_not_judged(depth: int, ios: int, block_kib: int) -> None:
    """Between two I/Os of 40 us, fio's own time counts."""
    request = stimulus(seconds=1.0, thread_count=1, queue_depth=depth, block_size_bytes=1024 * block_kib)
    accepted(document=_steady_answer(ios, 1.0, 40, block_kib), requested=request, ended_monotonic_ns=10**12)


def _steady_answer(ios: int, seconds: float, response_us: int, block_kib: int = 4) -> dict[str, Any]:
    """Return an answer with so many writes that all took the same time."""
    response_ns, io_bytes = 1000 * response_us, 1024 * block_kib * ios
    times = {"N": ios, "min": response_ns, "mean": float(response_ns), "max": response_ns}
    write = side(ios, runtime=round(1000 * seconds)) | {"io_bytes": io_bytes, "bw_bytes": io_bytes / seconds}
    write["lat_ns"] = {**times, "bins": {str(middle_ns(response_ns)): ios}}
    return {"jobs": [{"error": 0, "read": side(), "write": write}]}


@pytest.mark.parametrize(
    ("calls", "call_ns", "reason"),
    [
        (250, 4000, ""),
        (249, 4000, ""),
        (251, 4000, ""),
        (248, 4000, "fio reports 248 sync calls after 1000 writes, expected 250"),
        (252, 4000, "fio reports 252 sync calls after 1000 writes, expected 250"),
        (0, 0, "fio reports 0 sync calls after 1000 writes, expected 250"),
        (250, 3_000_000_000, "a sync call took 3 s in a runtime of"),
        (250, 90_000_000, r"the times of 1250 I/Os and sync calls add up to 22\.\d+ s, impossible with 1 threads"),
    ],
)
def test_sync_calls_are_as_requested(calls: int, call_ns: int, reason: str) -> None:
    """With fdatasync=4, 1000 writes of one thread have 250 calls, which do not overlap; one may be missing."""
    options = (("fdatasync", "4"), ("ioengine", "psync"))
    document, request = answer(), stimulus(options=options, thread_count=1, queue_depth=1)
    if calls:
        document["jobs"][0]["sync"] = {"lat_ns": sync_calls(calls, call_ns)}
    with pytest.raises(fio.AnswerRejected, match=reason) if reason else nullcontext():
        accepted(document=document, requested=request)


@pytest.mark.parametrize(
    ("changes", "least", "most"),
    [
        ({}, 124, 126),
        ({"thread_count": 4}, 121, 129),
        ({"read_percent": 50}, 124, 626),
        ({"access": "SEQ", "range_bytes": 409_600, "passes": 5}, 124, 131),
        ({"access": "SEQ", "range_bytes": 409_600, "limit_bytes": 2_048_000}, 124, 131),
    ],
)
def test_reads_threads_and_restarts_change_the_number_of_sync_calls(
    changes: dict[str, Any], least: int, most: int
) -> None:
    """500 writes with fdatasync=4 have 125 calls; there may be one more for each thread, read and restart."""
    request = stimulus(**{"options": (("fdatasync", "4"),), "thread_count": 1, "queue_depth": 1, **changes})
    document = answer(request.read_percent * 10, 500)
    for calls in range(least - 1, most + 2):
        document["jobs"][0]["sync"] = {"lat_ns": sync_calls(calls, 4000)}
        is_possible = least <= calls <= most
        with nullcontext() if is_possible else pytest.raises(fio.AnswerRejected, match=f"{calls} sync calls"):
            accepted(document=document, requested=request)


@pytest.mark.parametrize(
    ("changes", "mean_ns", "valid"),
    [
        ({}, 499_000.0, True),
        ({}, 498_000.0, False),
        ({"options": (("fdatasync", "1"), ("rate_iops", "1000"))}, 498_000.0, True),
        ({"passes": 1}, 498_000.0, False),
        ({"thread_count": 4}, 1_996_000.0, False),
        ({"thread_count": 4, "passes": 1}, 1_996_000.0, True),
        ({"thread_count": 4, "limit_bytes": 4_096_000}, 1_996_000.0, True),
    ],
)
def test_sync_calls_account_for_the_runtime(changes: dict[str, Any], mean_ns: float, *, valid: bool) -> None:
    """A thread that waits for nothing else spends its time in I/Os and calls; 1000 of both leave 1 ms for a pair.

    Threads with an amount of data end at different times, and the runtime is that of the last one.
    """
    facts = {"options": (("fdatasync", "1"),), "thread_count": 1, "queue_depth": 1, **changes}
    request = stimulus(**facts)
    write = transfers(runtime_ms=1000, response_mean_ns=1000.0)
    sync = SyncTimes(calls=1000, mean_ns=mean_ns, max_ns=2_000_000, histogram=Histogram())
    with nullcontext() if valid else pytest.raises(fio.AnswerRejected, match=r"too little for \d threads"):
        require_sync_times(request, (transfers(ios=0, runtime_ms=0), write), sync)


CACHE_NOT_FLUSHED = "fio: only root may flush block devices. Cache flush bypassed!"


@pytest.mark.parametrize(
    ("errors", "options", "messages"),
    [
        ("", (), ()),
        ("\n \n", (), ()),
        ("fio: odd\n", (), ("fio: odd",)),
        ("odd 1\nother\nodd 22\nat 0x7f3a\nat 0x1\n", (), ("odd 1", "other", "at 0x7f3a")),
        ("\x1b[31mred\ttext\u202e\n", (), ("\ufffd[31mred text\ufffd",)),
        ("x" * 300, (), ("x" * 200,)),
        ("a\nb\nc\nd\ne\nf\n", (), ("a", "b", "c", "d", "e")),
        (f"{CACHE_NOT_FLUSHED}\n", (), ()),
        (f"{CACHE_NOT_FLUSHED}\n", (("direct", "0"),), (CACHE_NOT_FLUSHED,)),
    ],
)
def test_messages_of_fio_are_kept_once_per_kind(errors: str, options: Any, messages: tuple[str, ...]) -> None:
    """Lines that differ in numbers only are of one kind; the harmless line about the cache is left out if it is."""
    assert fio.unexpected_messages(stimulus(options=options), errors) == messages


def sync_calls(calls: int, call_ns: int) -> dict[str, Any]:
    """Return calls of fdatasync of the same duration, as fio reports them."""
    times = {"N": calls, "min": call_ns, "mean": float(call_ns), "max": call_ns}
    return {**times, "bins": {str(middle_ns(call_ns)): calls}}
