"""``--store`` adds a run to a store when it ends; what happens there costs the run nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.cli.text.terminal import Terminal
from snia_pts.errors import Interrupted, LibraryMissing, LimitsMissed, UsageError
from snia_pts.runner.events import Event, RoundEvaluated
from snia_pts.store.store import Store

BRIEF = ("--set", "rounds.point_seconds=5", "--set", "rounds.maximum=9", "--progress", "none", "--to", "none")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str, test: str = "throughput") -> int:
    return main([test, "sim:enterprise-nvme", *BRIEF, "--seed", "1", "--run-dir", "run", *words])


def test_a_run_is_stored_when_it_ends(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that does not exist yet is made."""
    assert run("--store", url) == 0
    assert "1 added" in capsys.readouterr().out
    with Store(url) as store:
        assert store.runs().columns["test"] == ("throughput",)


def test_a_run_that_misses_its_limits_is_stored(tmp_path: Path) -> None:
    """Its exit code stays that of the limit."""
    (tmp_path / "limits.toml").write_text(
        'format = 1\n[[limit]]\ntest = "throughput"\nmetric = "mb_per_second"\nat = "SEQ 128 KiB 0/100"\n'
        'unit = "MB/s"\nminimum = 1e9\n'
    )
    assert run("--limits", "limits.toml", "--store", "store.sqlite") == LimitsMissed.exit_code
    with Store("store.sqlite") as store:
        assert store.run(1)["limits"].columns["met"] == (False,)


@pytest.mark.long
def test_a_run_that_was_stopped_is_stored_and_replaced_by_its_resumption(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a store lacks no run that has a folder."""
    show = Terminal.on_event

    def stop(terminal: Terminal, event: Event) -> None:
        show(terminal, event)
        if isinstance(event, RoundEvaluated):
            raise KeyboardInterrupt

    with monkeypatch.context() as stopping:
        stopping.setattr(Terminal, "on_event", stop)
        assert run("--store", "store.sqlite") == Interrupted.exit_code
    with Store("store.sqlite") as store:
        assert store.runs().columns["ending"] == ("interrupted",)
        assert main(["resume", "run", "--progress", "none", "--store", "store.sqlite"]) == 0
        assert store.runs().columns["ending"] == ("finished",)


@pytest.mark.long
def test_a_failure_to_store_is_told_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is no database, its folder is missing, or the suite has a bug."""
    (tmp_path / "file").write_bytes(b"somebody's data" * 100)
    assert run("--store", "file") == 0
    output = capsys.readouterr()
    assert "The run was not stored: The store file cannot be used: file is not a database" in output.err
    assert "run folder: " in output.out
    assert (tmp_path / "file").read_bytes() == b"somebody's data" * 100

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Store, "add", fail)
    assert run("--run-dir", "other", "--store", "store.sqlite") == 0
    assert "The run was not stored: ZeroDivisionError: a bug" in capsys.readouterr().err


@pytest.mark.long
def test_all_tests_are_stored(tmp_path: Path) -> None:
    """Each of ``all`` is a run of its own."""
    shortened = ("iops.rounds.maximum=5", "throughput.rounds.maximum=5", "latency.rounds.maximum=5")
    sets = [word for value in (*shortened, "wsat.saturation.seconds=1200") for word in ("--set", value)]
    words = ["all", "sim:enterprise-nvme", *sets, "--run-dir", "run"]
    assert main([*words, "--to", "none", "--progress", "none", "--store", "store.sqlite"]) == 0
    with Store("store.sqlite") as store:
        assert len(store.runs()) == len(list((tmp_path / "run").rglob("journal.jsonl"))) > 1


@pytest.mark.long
def test_a_mistake_is_found_before_the_run(tmp_path: Path) -> None:
    """An invalid URL, a password that the journal would keep, a library that is not installed."""
    assert run("--store", "mysql://host/name") == UsageError.exit_code
    assert run("--store", "postgresql://user:secret@host/name") == UsageError.exit_code
    program = (
        "import sys; sys.modules['sqlalchemy'] = None; from snia_pts.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["throughput", "sim:enterprise-nvme", "--store", "x.sqlite", "--run-dir", "run"]
    assert subprocess.run([sys.executable, "-c", program, *words], check=False).returncode == LibraryMissing.exit_code
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_not_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no folder."""
    assert run("--store", "store.sqlite", "--plan", "--json") == 0
    assert json.loads(capsys.readouterr().out)
    assert list(tmp_path.iterdir()) == []
