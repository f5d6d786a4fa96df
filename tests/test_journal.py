"""The journal: durable, checked line by line, and never a source of surprises."""

import os
import signal
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snia_pts.errors import HostFailed, RecordError
from snia_pts.record.journal import Asked, Begun, Came, Ended, Entry, Journal, is_written, read_journal
from snia_pts.specfile import read_specification
from tests import samples

SPECIFICATION = read_specification(
    "iops", "2.0.2", "enterprise", overrides=[("rounds.maximum", 5), ("rounds.read_percents", [100, 65, 0])]
)


def entries(stop_after: int | None = 30) -> list[Entry]:
    """Return the entries of a small run."""
    facts = samples.run_facts(SPECIFICATION.spec, found=SPECIFICATION.deviations)
    listed: list[Entry] = [Begun(facts=facts)]
    for step, outcomes in samples.answers(SPECIFICATION.spec, facts.dut, rounds=5, stop_after=stop_after):
        listed += [Asked(step=step), *(Came(outcome=outcome) for outcome in outcomes)]
    return [*listed, Ended(ending="interrupted", detail="stopped", at="2026-01-02T03:04:05+00:00")]


ENTRIES = entries()


def write(path: Path, listed: list[Entry]) -> bytes:
    """Write a journal and return its bytes."""
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for entry in listed:
            journal.append(entry)
    return path.read_bytes()


@cache
def whole() -> bytes:
    """Return the bytes of a small run's journal; no fixture, as Hypothesis would print them."""
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "journal.jsonl", ENTRIES)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Facts, steps, outcomes and end come back equal to the last digit."""
    write(tmp_path / "journal.jsonl", ENTRIES)

    recorded = read_journal(tmp_path / "journal.jsonl")

    again: list[Entry] = [Begun(facts=recorded.facts)]
    for step, outcomes in recorded.answered:
        again += [Asked(step=step), *(Came(outcome=outcome) for outcome in outcomes)]
    assert recorded.ended is not None
    assert [*again, recorded.ended] == ENTRIES
    assert not recorded.torn


def test_an_entry_is_on_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is one whole line in the file, and was synced, before the run goes on."""
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


def test_no_journal_is_written_over(tmp_path: Path) -> None:
    """A journal that exists is not opened for writing again."""
    (tmp_path / "journal.jsonl").write_text("precious")

    with pytest.raises(FileExistsError):
        Journal(tmp_path / "journal.jsonl")


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that finds no room is taken back, and the journal stays readable and writable."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(ENTRIES[0])
        before = path.read_bytes()
        real = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, line: real(descriptor, line[: len(line) // 2]))
        with pytest.raises(HostFailed, match="No space left"):
            journal.append(ENTRIES[1])
        monkeypatch.setattr(os, "write", real)
        assert path.read_bytes() == before
        journal.append(ENTRIES[1])

    assert [step for step, _ in read_journal(path).answered] == [ENTRIES[1].step]  # type: ignore[union-attr]


def test_a_signal_within_an_entry_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while an entry is synced comes after it: the entry is whole, and the next one follows it."""
    sync = os.fdatasync

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

    recorded = read_journal(tmp_path / "journal.jsonl")
    assert [len(outcomes) for _, outcomes in recorded.answered] == [1]


def test_a_journal_says_that_it_is_written(tmp_path: Path) -> None:
    """Whether a run still goes on can be told from its journal."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(ENTRIES[0])
        assert is_written(path)
    assert not is_written(path)


def test_a_removed_journal_is_noticed(tmp_path: Path) -> None:
    """A run whose journal somebody deletes stops at the next entry, and does not go on writing to nowhere."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(ENTRIES[0])
        (tmp_path / "journal.jsonl").unlink()

        with pytest.raises(HostFailed, match="removed while the run wrote it"):
            journal.append(ENTRIES[1])


@settings(max_examples=60)
@given(where=st.integers(0, 10**6))
def test_a_torn_journal_gives_what_was_whole(where: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cut anywhere, the journal gives just the entries whose lines are whole, and says when one was torn."""
    cut = where % (len(whole()) + 1)
    path = tmp_path_factory.mktemp("cut") / "journal.jsonl"
    path.write_bytes(whole()[:cut])
    lines = whole()[:cut].count(b"\n")

    if lines == 0:
        with pytest.raises(RecordError):
            read_journal(path)
        return
    recorded = read_journal(path)

    outcomes = sum(len(outcomes) for _, outcomes in recorded.answered)
    assert 1 + len(recorded.answered) + outcomes + (recorded.ended is not None) == lines
    assert recorded.torn == (not whole()[:cut].endswith(b"\n"))


@settings(max_examples=150)
@given(where=st.integers(0, 10**6), offset=st.integers(1, 255))
def test_a_changed_journal_is_noticed(where: int, offset: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A changed byte anywhere gives RecordError; a changed end of the last line is a torn line."""
    place = where % len(whole())
    path = tmp_path_factory.mktemp("changed") / "journal.jsonl"
    path.write_bytes(whole()[:place] + bytes([(whole()[place] + offset) % 256]) + whole()[place + 1 :])

    if place == len(whole()) - 1:
        assert read_journal(path).torn
        return
    with pytest.raises(RecordError):
        read_journal(path)


@pytest.mark.parametrize("drop", [0, 1, 2, 5])
def test_a_missing_line_is_noticed(drop: int, tmp_path: Path) -> None:
    """A line taken out of the middle breaks the chain of checksums."""
    lines = whole().splitlines(keepends=True)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(lines[:drop] + lines[drop + 1 :]))

    with pytest.raises(RecordError, match=r"damaged|missing"):
        read_journal(path)


@given(st.binary(max_size=300))
def test_junk_is_refused(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    """Anything that is no journal gives RecordError."""
    path = tmp_path_factory.mktemp("junk") / "journal.jsonl"
    path.write_bytes(junk)

    with pytest.raises(RecordError):
        read_journal(path)


@pytest.mark.parametrize(
    ("listed", "complaint"),
    [
        ([ENTRIES[1]], "does not begin"),
        ([ENTRIES[0], ENTRIES[0]], "begin twice"),
        ([ENTRIES[0], ENTRIES[2]], "nothing asked for"),
        ([ENTRIES[0], ENTRIES[1], ENTRIES[2], ENTRIES[2]], "nothing asked for"),
        ([ENTRIES[0], ENTRIES[1], ENTRIES[4]], "nothing asked for"),
        ([ENTRIES[0], ENTRIES[-1], ENTRIES[1]], "nothing may follow the end"),
    ],
)
def test_entries_out_of_order_are_refused(listed: list[Entry], complaint: str, tmp_path: Path) -> None:
    """A journal tells one run, in the order it happened."""
    write(tmp_path / "journal.jsonl", listed)

    with pytest.raises(RecordError, match=complaint):
        read_journal(tmp_path / "journal.jsonl")


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    """What cannot be read gives RecordError with the reason."""
    with pytest.raises(RecordError, match="directory"):
        read_journal(tmp_path)
