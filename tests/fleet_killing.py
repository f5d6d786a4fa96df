"""Kills the caller of ``ensure``, the processes of runs and their fio at random, and counts the starts of each run."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from snia_pts.errors import NotResumable, TargetBusy
from snia_pts.fleet.configuration import read_configuration
from snia_pts.fleet.request import RequestOptions, RunRequest, TestName, parse_request, request_json
from snia_pts.fleet.run_state import Ended, HostRuns, Lost
from snia_pts.fleet.state_folder import RunState
from tests.breaking import programs_of

#: A real test of a file with fio, of some seconds: preconditioning, and up to five rounds of two points.
_ON_A_FILE = RequestOptions(
    purge="none",
    formats=(),
    overrides=(
        "rounds.point_seconds=0.4",
        "rounds.maximum=5",
        "rounds.read_percents=[100, 0]",
        "rounds.block_sizes_kib=[4]",
        "steady_state.window_rounds=2",
        "steady_state.tracked=[{metric = 'iops', block_size_kib = 4, read_percent = 0}]",
    ),
)
#: Starts callers from a process that has imported all they need.
_CALLERS = multiprocessing.get_context("forkserver")
_CALLERS.set_forkserver_preload(["tests.fleet_killing"])
_FILES, _SIMULATED = 2, 1
_POLL_SECONDS = 0.05
#: The most time between two kills: in the first instants, at the claims and starts, and so that a test reaches fio.
_MOST_SECONDS_BETWEEN_KILLS = (0.03, 1.5, 6.0)
#: Longer than any wave of runs needs on a loaded machine.
_LIMIT_SECONDS = 900


@dataclass(slots=True, kw_only=True)
class Counts:
    """What was killed, and what became of the runs: how each ended, and how often they were started and resumed."""

    kills: Counter[str] = field(default_factory=Counter)
    combinations: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    starts: int = 0
    resumes: int = 0
    most_fresh_starts: int = 0


def configure(folder: Path) -> Path:
    """Write a configuration with drives for trials: two files and a simulated drive; return its path."""
    drives = [f'[[drive]]\nserial = "FILE-{n}"\ntarget = "{folder}/file-{n}"\nsize = "32M"\n' for n in range(_FILES)]
    drives += [f'[[drive]]\nserial = "SIM-{n}"\ntarget = "sim:enterprise-nvme"\n' for n in range(_SIMULATED)]
    path = folder / "agent.toml"
    path.write_text(
        f'format = 1\nhost = "h1"\ndatabase = "postgresql://localhost/lab"\nstate_folder = "{folder}/state"\n'
        f'run_folder = "{folder}/runs"\nunits = "process"\npurges = ["auto", "none"]\n' + "".join(drives)
    )
    return path


def new_requests(chance: random.Random) -> list[RunRequest]:
    """Return two requests for each drive."""
    drives: list[tuple[str, TestName, RequestOptions]] = [
        *((f"FILE-{n}", "iops", _ON_A_FILE) for n in range(_FILES)),
        *((f"SIM-{n}", "wsat", RequestOptions(formats=())) for n in range(_SIMULATED)),
    ]
    return [
        RunRequest(
            run_id=uuid.UUID(int=chance.getrandbits(128), version=4),
            serial=serial,
            model="trial",
            test=test,
            on_lost=chance.choice(("resume", "from-purge")),
            options=options,
        )
        for _ in range(2)
        for serial, test, options in drives
    ]


def call(configuration: Path, requests: Path) -> None:
    """Ensure every request until each run has ended, or waits for a person."""
    runs = HostRuns(read_configuration(configuration))
    waiting = [parse_request(line) for line in requests.read_bytes().splitlines()]
    while waiting:
        for request in list(waiting):
            with suppress(TargetBusy, NotResumable):  # another run has the drive, or an earlier caller was faster
                outcome = runs.ensure(request)
                if isinstance(outcome, Lost) and outcome.decision != "hold":
                    runs.resume(request.run_id, from_purge=outcome.decision == "from-purge")
                elif isinstance(outcome, Ended | Lost):
                    waiting.remove(request)
        time.sleep(_POLL_SECONDS)


def caller(configuration: Path, requests: Path) -> BaseProcess:
    """Start a process that calls ``call``."""
    process = _CALLERS.Process(target=call, args=(configuration, requests))
    process.start()
    return process


def kill_runs(folder: Path, kills: int, seed: int, on_counts: Callable[[Counts], object] = id) -> Counts:
    """Kill until at least this many processes were killed; then let every run end, and require what the counts say.

    ``on_counts`` is called with the counts so far after each set of runs.
    """
    chance, counts, configuration = random.Random(seed), Counts(), configure(folder)
    while counts.kills.total() < kills:
        requests = new_requests(chance)
        _perform(folder, configuration, requests, counts, kills, chance)
        _require_known_ends(folder, configuration, requests, counts)
        on_counts(counts)
    return counts


def _perform(
    folder: Path,
    configuration: Path,
    requests: Sequence[RunRequest],
    counts: Counts,
    kills: int,
    chance: random.Random,
) -> None:
    """Perform the requests, with kills in between; the caller is started again until it ends by itself."""
    file, end = folder / "requests.jsonl", time.monotonic() + _LIMIT_SECONDS
    file.write_bytes(b"".join(request_json(request) + b"\n" for request in requests))
    states = [RunState.of(folder / "state", request.run_id) for request in requests]
    while True:
        process = caller(configuration, file)
        most = chance.choice(_MOST_SECONDS_BETWEEN_KILLS)
        try:
            while process.exitcode is None and counts.kills.total() < kills:
                time.sleep(chance.uniform(0, most))
                _kill_some(process, folder, states, counts, chance)
            process.join(end - time.monotonic())
        finally:
            process.kill()
            process.join()
        if process.exitcode == 0:
            return
        if process.exitcode != -signal.SIGKILL or time.monotonic() > end:
            raise AssertionError(f"the caller ended with {process.exitcode}")


def _kill_some(
    process: BaseProcess, folder: Path, states: Sequence[RunState], counts: Counts, chance: random.Random
) -> None:
    """Kill a random combination of the processes that live."""
    processes = {state.path.name: state.pid for state in states if state.is_locked}
    living = [("process of a run", pid) for pid in processes.values() if pid]
    if process.exitcode is None and process.pid:
        living.append(("caller", process.pid))
    living += [("fio", pid) for name in processes for pid in programs_of(folder / "runs" / name / "evidence")]
    own = {pid for what, pid in living if what != "fio"}
    living = [(what, pid) for what, pid in living if what != "fio" or pid not in own]
    victims = [victim for victim in living if chance.random() < 1 / 2]
    counts.combinations += len({what for what, _ in victims}) > 1
    for what, pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            counts.kills[what] += 1


def _require_known_ends(folder: Path, configuration: Path, requests: Sequence[RunRequest], counts: Counts) -> None:
    """Require at most one fresh start of each run, and that each has ended or is lost; count both."""
    runs = HostRuns(read_configuration(configuration))
    for request in requests:
        state, outcome = RunState.of(folder / "state", request.run_id), runs.state(request.run_id)
        if isinstance(outcome, Lost):
            counts.ends[f"lost, {outcome.progress}"] += 1
        elif isinstance(outcome, Ended):
            counts.ends[f"exit code {outcome.exit_code}"] += 1
        else:
            raise AssertionError(f"{request.run_id}: {outcome}")
        starts = [start for start in state.starts() if not start.began]
        used = [start.claim for start in starts]
        fresh = sum(start.kind == "fresh" for start in starts)
        from_purge = sum(start.kind == "from-purge" for start in starts)
        kinds = journal_kinds(folder / "runs" / str(request.run_id))
        assert len(set(used)) == len(used) <= state.claims, f"{request.run_id}: permissions {used}"
        assert kinds["start"] <= 1, f"{request.run_id}: {kinds['start']} start entries"
        assert kinds["purge"] <= 1 + from_purge, f"{request.run_id}: {kinds['purge']} purges, {from_purge} requested"
        counts.most_fresh_starts = max(counts.most_fresh_starts, fresh, kinds["start"])
        counts.runs += 1
        counts.starts += fresh
        counts.resumes += len(starts) - fresh
    assert counts.most_fresh_starts <= 1


def journal_kinds(run: Path) -> Counter[str]:
    """Count the entries of a journal by kind, and its purges."""
    counts: Counter[str] = Counter()
    with suppress(FileNotFoundError):
        for line in (run / "journal.jsonl").read_bytes().splitlines():
            with suppress(ValueError):  # the last line may be incomplete
                entry = json.loads(line)["entry"]
                counts[entry["kind"]] += 1
                counts["purge"] += entry["kind"] == "step" and entry["step"]["kind"] == "purge"
    return counts
