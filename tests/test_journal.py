"""The journal: synced entry by entry, checked line by line, and read as untrusted input."""

import os
import re
import resource
import shutil
import signal
import tempfile
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snia_pts.errors import HostFailed, RecordError, RunFolderError
from snia_pts.model.measurement import IdleOutcome, Measurement, Outcome, Sample
from snia_pts.model.steps import ContinuousStimulus, Idle, Round, Step
from snia_pts.record.ends import read_ends
from snia_pts.record.entries import BEFORE, EndEntry, Entry, OutcomeEntry, ResumeEntry, StartEntry, StepEntry, line
from snia_pts.record.journal import Journal, uninterrupted
from snia_pts.record.journal_reader import JournalReader, end_detail, is_complete
from snia_pts.record.locks import is_locked
from snia_pts.results.builder import ResultBuilder
from snia_pts.spec.reader import read_specification
from tests import samples
from tests.procedure_runs import answered

IOPS = read_specification(
    "iops", "2.0.2", "enterprise", overrides=[("rounds.maximum", 5), ("rounds.read_percents", [100, 65, 0])]
)
HIR = read_specification(
    "hir",
    "2.0.2",
    "enterprise",
    overrides=[
        ("settling.stride_samples", 1),
        ("wait_states.cycles", 2),
        ("wait_states.idle_seconds", [5, 10]),
        ("wait_states.access_c_seconds", 20),
    ],
)


@cache
def entries(test: str = "iops") -> list[Entry]:
    """Return the entries of a small run: an interrupted one with rounds, or one with continuous stimuli and idles."""
    specification, stop_after = (IOPS, 30) if test == "iops" else (HIR, None)
    facts = samples.run_facts(specification.spec, found=specification.deviations)
    listed: list[Entry] = [StartEntry(facts=facts)]
    for step, outcomes in samples.answers(specification.spec, facts.dut, stop_after=stop_after)[0]:
        listed += [StepEntry(step=step), *(OutcomeEntry(outcome=outcome) for outcome in outcomes)]
    return [*listed, EndEntry(ending="interrupted", detail="stopped", at="2026-01-02T03:04:05+00:00")]


ENTRIES = entries()


def write(path: Path, listed: list[Entry]) -> bytes:
    """Write a journal and return its bytes."""
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for entry in listed:
            journal.append(entry)
    return path.read_bytes()


@cache
def whole(test: str = "iops") -> bytes:
    """Return the bytes of a small run's journal; not a fixture, because Hypothesis would print them."""
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "journal.jsonl", entries(test))


def read(path: Path) -> tuple[JournalReader, list[tuple[Step, tuple[Outcome, ...]]]]:
    """Read a journal to its end."""
    recorded = JournalReader(path)
    return recorded, list(answered(recorded))


@pytest.mark.parametrize("test", ["iops", "hir"])
def test_what_is_written_is_read(test: str, tmp_path: Path) -> None:
    """Facts, steps of every kind, outcomes and end come back equal to the last digit."""
    write(tmp_path / "journal.jsonl", entries(test))

    recorded, answered = read(tmp_path / "journal.jsonl")

    again: list[Entry] = [StartEntry(facts=recorded.facts)]
    for step, outcomes in answered:
        again += [StepEntry(step=step), *(OutcomeEntry(outcome=outcome) for outcome in outcomes)]
    assert recorded.end is not None
    assert [*again, recorded.end] == entries(test)
    assert not recorded.torn_bytes


def test_an_entry_is_on_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is one complete line in the file, and is synced, before the run continues."""
    synced: list[int] = []
    sync = os.fdatasync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fdatasync", noted)
    path = tmp_path / "journal.jsonl"

    with Journal(path) as journal:
        for count, entry in enumerate(ENTRIES, start=1):
            journal.append(entry)
            assert path.read_bytes().count(b"\n") == count
            assert len(synced) == count


def test_no_journal_is_overwritten(tmp_path: Path) -> None:
    """An existing journal is not opened for writing again."""
    (tmp_path / "journal.jsonl").write_text("precious")

    with pytest.raises(RunFolderError, match="already exists"):
        Journal(tmp_path / "journal.jsonl")

    assert (tmp_path / "journal.jsonl").read_text() == "precious"


def test_an_entry_without_space_is_removed_again(tmp_path: Path) -> None:
    """The error is that of the file size limit, not of a full disk, and the journal stays readable and writable."""
    path, limits = tmp_path / "journal.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path) as journal:
        journal.append(ENTRIES[0])
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))  # space for a part of the entry
        try:
            with pytest.raises(HostFailed, match="File too large") as failed:
                journal.append(ENTRIES[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "ulimit" in failed.value.hint
        assert path.read_bytes() == before
        journal.append(ENTRIES[1])

    assert [step for step, _ in read(path)[1]] == [ENTRIES[1].step]  # type: ignore[union-attr]


def test_added_bytes_are_removed_again(tmp_path: Path) -> None:
    """The run stops, and its journal can be continued."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(ENTRIES[0])
        before = path.read_bytes()
        path.write_bytes(before + b"garbage\n")
        with pytest.raises(HostFailed, match="another process added 8 bytes to the journal"):
            journal.append(ENTRIES[1])
        assert path.read_bytes() == before
        journal.append(ENTRIES[1])

    assert [step for step, _ in read(path)[1]] == [ENTRIES[1].step]  # type: ignore[union-attr]


@pytest.mark.parametrize("change", ["cut", "copy", "symlink"])
def test_a_changed_journal_is_not_written(change: str, tmp_path: Path) -> None:
    """Nothing is appended after a missing part, or to a file that is no longer the journal."""
    path, away = tmp_path / "journal.jsonl", tmp_path / "away"
    with Journal(path) as journal:
        journal.append(ENTRIES[0])
        if change == "cut":
            os.truncate(path, path.stat().st_size - 5)
        else:
            path.rename(away)
            path.symlink_to(away) if change == "symlink" else shutil.copy(away, path)
        before = path.read_bytes()
        reason = "cut 5 bytes from the journal" if change == "cut" else "another process replaced the journal"
        for entry in ENTRIES[1:3]:
            with pytest.raises(HostFailed, match=reason) as failed:
                journal.append(entry)
            assert "earlier entries are safe" not in failed.value.hint
        assert path.read_bytes() == before
        assert change == "cut" or away.read_bytes() == before


def test_a_signal_during_an_entry_is_deferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an entry is synced takes effect after it: the entry is complete, and the next one follows it."""
    sync, before = os.fdatasync, signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(descriptor: int) -> None:
        monkeypatch.setattr(os, "fdatasync", sync)
        signal.raise_signal(signal.SIGINT)
        sync(descriptor)

    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(ENTRIES[0])
        monkeypatch.setattr(os, "fdatasync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append(ENTRIES[1])
        journal.append(ENTRIES[2])
    signal.signal(signal.SIGINT, before)

    assert [len(outcomes) for _, outcomes in read(tmp_path / "journal.jsonl")[1]] == [1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_another_thread_receives_does_not_interrupt_the_block(number: signal.Signals) -> None:
    """Python handles it in the main thread; its own handler gets it after the block, once, and stays installed."""
    handled, completed, release = list[int](), list[bool](), threading.Event()
    other = threading.Thread(target=release.wait)
    other.start()

    def handle(received: int, _frame: object) -> None:
        handled.append(received)
        raise KeyboardInterrupt

    def work() -> None:
        with uninterrupted():
            signal.pthread_kill(other.ident or 0, number)
            for _ in range(100):
                time.sleep(0.001)
            completed.append(True)

    before = signal.signal(number, handle)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert (handled, completed) == ([number], [True])
        assert signal.getsignal(number) is handle
        assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(number, before)
        release.set()
        other.join()


def test_in_another_thread_nothing_is_deferred() -> None:
    """Only the main thread may change signal handlers, and Python runs them only there."""

    def work() -> bool:
        with uninterrupted():
            return True

    with ThreadPoolExecutor() as pool:
        assert pool.submit(work).result()


def test_an_ignored_signal_stays_ignored() -> None:
    """Under nohup SIGHUP is ignored, inside the block, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with uninterrupted():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_journal_tells_whether_it_is_being_written(tmp_path: Path) -> None:
    """Whether a run is still in progress can be found out from its journal."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(ENTRIES[0])
        assert is_locked(path)
    assert not is_locked(path)


def test_a_removed_journal_is_noticed(tmp_path: Path) -> None:
    """If somebody deletes the journal of a run, the run stops at the next entry."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(ENTRIES[0])
        (tmp_path / "journal.jsonl").unlink()

        with pytest.raises(HostFailed, match="removed during the run") as failed:
            journal.append(ENTRIES[1])
    assert "no further entry can be stored" in failed.value.hint
    assert "room" not in failed.value.hint


@settings(max_examples=60)
@given(test=st.sampled_from(["iops", "hir"]), where=st.integers(0, 10**6))
def test_a_torn_journal_yields_its_complete_entries(
    test: str, where: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cut anywhere, it yields exactly the entries of its complete lines, and says whether the last one is torn."""
    cut = where % (len(whole(test)) + 1)
    path = tmp_path_factory.mktemp("cut") / "journal.jsonl"
    path.write_bytes(whole(test)[:cut])
    lines = whole(test)[:cut].count(b"\n")

    if lines == 0:
        with pytest.raises(RecordError):
            read(path)
        return
    recorded, answered = read(path)

    assert 1 + len(answered) + sum(len(outcomes) for _, outcomes in answered) + (recorded.end is not None) == lines
    assert recorded.torn_bytes == len(whole(test)[:cut].rpartition(b"\n")[2])


@settings(max_examples=150)
@given(where=st.integers(0, 10**6), offset=st.integers(1, 255))
def test_a_changed_journal_is_noticed(where: int, offset: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A changed byte anywhere gives RecordError; a changed end of the last line is a torn line."""
    place = where % len(whole())
    path = tmp_path_factory.mktemp("changed") / "journal.jsonl"
    path.write_bytes(whole()[:place] + bytes([(whole()[place] + offset) % 256]) + whole()[place + 1 :])

    if place == len(whole()) - 1:
        assert read(path)[0].torn_bytes
        return
    with pytest.raises(RecordError):
        read(path)


RESUME = ResumeEntry(
    kept_steps=1,
    policy="rule",
    stopped="2026-01-02T03:04:05+00:00",
    at="2026-01-02T03:05:05+00:00",
    idle_seconds=60.0,
    reason="interrupted: stopped",
    command_line=("snia-pts", "resume", "run"),
)


@pytest.mark.long
@settings(max_examples=60)
@given(seed=st.integers(1, 10**6), lost=st.integers(0, 200))
def test_a_torn_resume_entry_is_reported(seed: int, lost: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A crash while a resume writes its first entry leaves a part of it, or zero bytes, after the end entry."""
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    added = write(path, [*ENTRIES, RESUME])[len(whole()) :]
    torn = added[: seed % (len(added) - 1) + 1].removesuffix(b"\n") + bytes(lost)
    path.write_bytes(whole() + torn)

    recorded = read(path)[0]

    assert recorded.end == read_ends(path).end == ENTRIES[-1]
    assert recorded.torn_bytes == read_ends(path).torn_bytes == len(torn)
    assert f"({len(torn)} byte" in end_detail(recorded.end, recorded.torn_bytes)


@pytest.mark.parametrize("added", [b"x", b" ", b'{"crc32":"01234567","entry":{"kind":"step"', b'{"crc32":"0", "'])
def test_other_bytes_after_the_end_are_refused(added: bytes, tmp_path: Path) -> None:
    """No crash leaves bytes after the end entry that do not start a resume entry."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole() + added)

    for reader in (read, read_ends):
        with pytest.raises(RecordError, match=f"{len(added)} bytes? after its end entry"):
            reader(path)


def test_no_byte_may_follow_the_end_of_a_finished_run(tmp_path: Path) -> None:
    """A finished run cannot be resumed: not even the start of a resume entry may follow."""
    path = tmp_path / "journal.jsonl"
    finished = EndEntry(ending="finished", detail="", at="2026-01-02T03:04:05+00:00")
    journal = write(path, [ENTRIES[0], finished, RESUME])
    path.write_bytes(journal[:-100])

    for reader in (read, read_ends):
        with pytest.raises(RecordError, match="after its end entry"):
            reader(path)


@pytest.mark.parametrize("drop", [0, 1, 2, 5])
def test_a_missing_line_is_noticed(drop: int, tmp_path: Path) -> None:
    """A missing line breaks the chain of checksums."""
    lines = whole().splitlines(keepends=True)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(lines[:drop] + lines[drop + 1 :]))

    with pytest.raises(RecordError, match=r"damaged|missing"):
        read(path)


@given(st.binary(max_size=300))
def test_other_files_are_refused(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    """Anything that is not a journal gives RecordError."""
    path = tmp_path_factory.mktemp("junk") / "journal.jsonl"
    path.write_bytes(junk)

    with pytest.raises(RecordError):
        read(path)


@pytest.mark.parametrize(
    ("listed", "complaint"),
    [
        ([ENTRIES[1]], "not a start entry"),
        ([ENTRIES[0], ENTRIES[0]], "a second start entry"),
        ([ENTRIES[0], ENTRIES[2]], "this outcome"),
        ([ENTRIES[0], ENTRIES[1], ENTRIES[2], ENTRIES[2]], "this outcome"),
        ([ENTRIES[0], ENTRIES[1], ENTRIES[4]], "this outcome"),
        ([ENTRIES[0], ENTRIES[-1], ENTRIES[1]], "an entry after the end"),
    ],
)
def test_entries_out_of_order_are_refused(listed: list[Entry], complaint: str, tmp_path: Path) -> None:
    """The entries of a journal must be in the order in which a run writes them."""
    write(tmp_path / "journal.jsonl", listed)

    with pytest.raises(RecordError, match=complaint):
        read(tmp_path / "journal.jsonl")


def test_a_folder_is_not_a_journal(tmp_path: Path) -> None:
    """If the journal cannot be read, RecordError gives the reason."""
    with pytest.raises(RecordError, match="not a regular file"):
        read(tmp_path)


def stimulus_of(samples_wanted: bool = True) -> tuple[StepEntry, list[OutcomeEntry]]:
    """Return the first continuous stimulus of the run with idle times that has samples (or none), and its outcomes."""
    listed = entries("hir")
    place, step, count = next(
        (place, entry, entry.step.samples)
        for place, entry in enumerate(listed)
        if isinstance(entry, StepEntry)
        and isinstance(entry.step, ContinuousStimulus)
        and bool(entry.step.samples) == samples_wanted
    )
    return step, [entry for entry in listed[place + 1 : place + 2 + count] if isinstance(entry, OutcomeEntry)]


@pytest.mark.parametrize(
    "change",
    [
        lambda item: [item[1], item[0], *item[2:]],
        lambda item: [item[0], item[0], *item[1:]],
        lambda item: item[1:],
        lambda item: [item[-1], *item[:-1]],
        lambda item: [*item, item[-1]],
    ],
    ids=["exchanged", "twice", "first missing", "whole first", "whole twice"],
)
def test_samples_are_in_order_and_the_total_is_last(
    change: Callable[[list[OutcomeEntry]], list[OutcomeEntry]], tmp_path: Path
) -> None:
    """The samples of a continuous stimulus are numbered from 1 without gaps; the single total follows them."""
    step, outcomes = stimulus_of()
    write(tmp_path / "journal.jsonl", [ENTRIES[0], step, *change(outcomes)])

    with pytest.raises(RecordError, match="this outcome"):
        read(tmp_path / "journal.jsonl")


def test_a_total_without_samples_is_refused(tmp_path: Path) -> None:
    """A continuous stimulus with a sample interval gives at least one sample."""
    step, outcomes = stimulus_of()
    write(tmp_path / "journal.jsonl", [ENTRIES[0], step, outcomes[-1]])

    with pytest.raises(RecordError, match="this outcome"):
        read(tmp_path / "journal.jsonl")


def rechecked(journal: bytes) -> bytes:
    """Return a journal with the checksums that match its entries."""
    checksum, lines = 0, []
    for text in journal.splitlines():
        payload = text[BEFORE:-1]
        checksum = zlib.crc32(payload, checksum)
        lines.append(line(checksum, payload))
    return b"".join(lines)


@pytest.mark.parametrize(
    ("number", "beyond"),
    [
        (rb'"ios":[1-9][0-9]*', b'"ios":1%b' % (b"0" * 400)),
        (rb'"ios":[1-9][0-9]*', b'"ios":-1'),
        (rb'"transferred_bytes":[1-9][0-9]*', b'"transferred_bytes":1000000000000000001'),
        (rb'"response_max_ns":[1-9][0-9]*', b'"response_max_ns":1%b' % (b"0" * 400)),
        (rb'"counted":"[0-9]+ [0-9]+', b'"counted":"1 1%b' % (b"0" * 400)),
        (rb'"counted":"[0-9]+ [0-9]+', b'"counted":"-5 1'),
        (rb'"started_monotonic_ns":[0-9]+', b'"started_monotonic_ns":-1'),
        (rb'"capacity_bytes":[0-9]+', b'"capacity_bytes":1%b' % (b"0" * 400)),
        (rb'"memory_bytes":[0-9]+', b'"memory_bytes":1%b' % (b"0" * 400)),
        (rb'"survivors":[0-9]+', b'"survivors":-1'),
        (rb'"seconds":42.5', b'"seconds":NaN'),
        (rb'"range_bytes":[0-9]+', b'"range_bytes":1%b' % (b"0" * 400)),
        (rb'"block_size_bytes":[0-9]+', b'"block_size_bytes":1%b' % (b"0" * 400)),
        (rb'"seconds":60.0', b'"seconds":1e300'),
        (rb'"seconds":60.0', b'"seconds":0.0'),
        (rb'"sample_seconds":60.0', b'"sample_seconds":5e-324'),
        (rb'"write_ios":[0-9]+', b'"write_ios":-1'),
        (rb'"three_nines_us":[0-9.]+', b'"three_nines_us":NaN'),
        (rb'"kind":"idle","part":"[^"]*","seconds":[0-9.]+', b'"kind":"idle","part":"","seconds":Infinity'),
    ],
)
def test_implausibly_large_numbers_are_refused(number: bytes, beyond: bytes, tmp_path: Path) -> None:
    """Even with valid checksums, a number that cannot be measured is refused, with its line and name."""
    journal = whole("iops") if re.search(number, whole("iops")) else whole("hir")
    changed, count = re.subn(number, beyond, journal, count=1)
    assert count == 1
    path = tmp_path / "journal.jsonl"
    path.write_bytes(rechecked(changed))

    with pytest.raises(RecordError, match=r"line \d+: "):
        read(path)


@pytest.mark.parametrize("version", [1, 3])
def test_a_journal_of_another_version_is_not_called_damaged(tmp_path: Path, version: int) -> None:
    """A complete line with unknown content needs another version of the suite, not a backup."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(rechecked(whole().replace(b'"format":2', b'"format":%d' % version, 1)))

    with pytest.raises(RecordError, match=r"start\.format") as refused:
        read(path)
    assert "use that version" in refused.value.hint
    assert "backup" not in refused.value.hint


def test_a_continuous_stimulus_that_ended_early_is_complete(tmp_path: Path) -> None:
    """If a limit ends a continuous stimulus, fewer samples than requested and the total are complete."""
    stimulus, listed = stimulus_of()
    write(tmp_path / "journal.jsonl", [ENTRIES[0], stimulus, listed[0], listed[-1]])

    ((step, outcomes),) = read(tmp_path / "journal.jsonl")[1]

    assert [type(outcome) for outcome in outcomes] == [Sample, Measurement]
    assert is_complete(step, outcomes)


def test_more_samples_than_requested_are_refused(tmp_path: Path) -> None:
    """A continuous stimulus without a sample interval has no samples."""
    step, _ = stimulus_of(samples_wanted=False)
    _, outcomes = stimulus_of()
    write(tmp_path / "journal.jsonl", [ENTRIES[0], step, outcomes[0]])

    with pytest.raises(RecordError, match="this outcome"):
        read(tmp_path / "journal.jsonl")


@pytest.mark.parametrize("test", ["iops", "hir"])
def test_a_step_is_complete_only_with_all_its_outcomes(test: str) -> None:
    """With fewer outcomes than all, a step of any kind is incomplete."""
    facts = samples.run_facts(IOPS.spec)
    seen = set()
    for step, outcomes in samples.answers(IOPS.spec if test == "iops" else HIR.spec, facts.dut)[0]:
        seen.add(type(step))
        assert is_complete(step, outcomes)
        assert not any(is_complete(step, outcomes[:count]) for count in range(len(outcomes)))
    assert {Round, Idle} & seen


def test_an_outcome_of_another_kind_is_refused(tmp_path: Path) -> None:
    """An idle outcome, for example, does not belong to a stimulus."""
    idled = OutcomeEntry(outcome=IdleOutcome(started="", seconds=5.0))
    write(tmp_path / "journal.jsonl", [ENTRIES[0], ENTRIES[1], idled])

    with pytest.raises(RecordError, match="this outcome"):
        read(tmp_path / "journal.jsonl")


#: In seconds: six hours.
HOURS = 21_600


@pytest.mark.long
def test_hours_of_samples_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a journal with six hours of one-second samples takes little more memory than its 16 columns."""
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    seconds = [
        ("settling.sample_seconds", 1.0),
        ("settling.stride_samples", 900),
        ("saturation.capacities", 100),
        ("saturation.seconds", HOURS),
    ]
    spec = read_specification("wsat", "1.1", "enterprise", overrides=seconds).spec
    facts = samples.run_facts(spec)
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(StartEntry(facts=facts))
        for step, outcomes in samples.answers(spec, facts.dut, steady=False)[0]:
            journal.append(StepEntry(step=step))
            for outcome in outcomes:
                journal.append(OutcomeEntry(outcome=outcome))

    tracemalloc.start()
    recorded = JournalReader(tmp_path / "journal.jsonl")
    folding = ResultBuilder(recorded.facts)
    for step, outcomes in answered(recorded):
        folding.add(step, outcomes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    (line,) = folding.result(ending="unfinished", ending_detail="", finished="").time_lines
    assert len(line) == HOURS
    assert peak < 16 * 8 * HOURS * 1.125 + 1_000_000  # a growing array may have an eighth of spare space
