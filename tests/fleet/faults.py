"""The faults of a lab: an agent, run or database is killed, or a network is cut; with their figures in seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from uuid import UUID

from tests.fleet.labs import LONG, Host, TestLab, request, until


def kill_the_agent(lab: TestLab, name: str) -> float:
    """Kill the agent in the middle of a run, and start it again; return the seconds until it has attached."""
    host, run_id = _running(lab, name)
    with _paused(host, run_id):
        host.end(signal.SIGKILL)
        workers = lab.query("SELECT id FROM procrastinate_workers")
        host.start()
        began = time.monotonic()
        attached = "SELECT id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id <> ALL (%s)"
        until(lambda: lab.query(attached, [number for (number,) in workers]), f"the agent attaches; {host.log}")
        seconds = time.monotonic() - began
    _require_ended_once(lab, host, run_id)
    return seconds


def kill_the_run(lab: TestLab, name: str) -> float:
    """Kill the process of a run in the middle of its rounds; return the seconds until the agent has resumed it."""
    host, run_id = _in_its_rounds(lab, name)
    began = time.monotonic()
    os.kill(host.process(run_id), signal.SIGKILL)
    return _until_resumed(lab, host, run_id, began)


def lose_the_host(lab: TestLab, name: str) -> float:
    """Kill the agent and the process of its run, as a power failure does, and start the agent again.

    Returns the seconds until it has resumed the run.
    """
    host, run_id = _in_its_rounds(lab, name)
    with _paused(host, run_id):
        host.end(signal.SIGKILL)
        os.kill(host.process(run_id), signal.SIGKILL)
    began = time.monotonic()
    host.start()
    return _until_resumed(lab, host, run_id, began)


def kill_the_database_while_a_run_ends(lab: TestLab, name: str) -> float:
    """Start the database again after the end of the run; return the seconds until the result is reported."""
    host, run_id = _running(lab, name)
    lab.server.kill()
    until((host.state(run_id) / "exit").exists, f"the run ends without the database; {host.log}")
    lab.server.start()
    began = time.monotonic()
    lab.until_state(run_id, "finished")
    seconds = time.monotonic() - began
    _require_ended_once(lab, host, run_id)
    return seconds


def restart_the_database(lab: TestLab, name: str) -> float:
    """Restart the database at once in the middle of a run; return the seconds until a run on another drive starts."""

    def restart() -> None:
        lab.server.stop("fast")
        lab.server.start()

    return _start_after(lab, name, restart)


def outage(seconds: float) -> Callable[[TestLab, str], float]:
    """Return a fault: the database is killed, and started again after ``seconds``.

    Returns the seconds from then until a run on another drive starts, while the first run goes on.
    """

    def fault(lab: TestLab, name: str) -> float:
        def interrupt() -> None:
            lab.server.kill()
            time.sleep(seconds)
            lab.server.start()

        return _start_after(lab, name, interrupt)

    return fault


def partition(seconds: float) -> Callable[[TestLab, str], float]:
    """Return a fault: the loopback interface, which is that of a network namespace of its own, drops every packet.

    Returns the seconds from the end of that until a run on another drive starts, while the first run goes on.
    """

    def fault(lab: TestLab, name: str) -> float:
        def interrupt() -> None:
            subprocess.run(["tc", "qdisc", "add", *_DROP_ALL], check=True)
            try:
                time.sleep(seconds)
            finally:
                subprocess.run(["tc", "qdisc", "del", *_DROP_ALL], check=True)

        return _start_after(lab, name, interrupt)

    return fault


#: A token bucket filter whose bucket is smaller than any packet.
_DROP_ALL = ("dev", "lo", "root", "tbf", "rate", "8bit", "burst", "1", "limit", "1")
#: The faults by name, with the seconds that their figures may have.
FAULTS: Mapping[str, tuple[Callable[[TestLab, str], float], float]] = {
    "agent killed": (kill_the_agent, 5.0),
    "run killed": (kill_the_run, 5.0),
    "host lost": (lose_the_host, 15.0),
    "database killed, run ends": (kill_the_database_while_a_run_ends, 15.0),
    "database restarted": (restart_the_database, 15.0),
    "database away for 25 s": (outage(25), 15.0),
    "database away for 60 s": (outage(60), 15.0),
}
#: Those that need a network namespace of their own, with a server that is reached by TCP.
NETWORK_FAULTS: Mapping[str, tuple[Callable[[TestLab, str], float], float]] = {
    "partition of 45 s": (partition(45), 15.0),
}


def _start_after(lab: TestLab, name: str, interrupt: Callable[[], None]) -> float:
    host, run_id = _running(lab, name)
    with _paused(host, run_id):
        interrupt()
        began = time.monotonic()
        other = request(f"{name}-B")
        lab.submit(other)
        lab.until_state(other.run_id, "running", "finished")
        seconds = time.monotonic() - began
        lab.until_state(other.run_id, "finished")
    _require_ended_once(lab, host, run_id)
    return seconds


def _running(lab: TestLab, name: str) -> tuple[Host, UUID]:
    """Add a host with two drives, start its agent and a run of some seconds on the first drive; return both."""
    host = lab.add(name, f"{name}-A", f"{name}-B").start()
    until(lambda: lab.query("SELECT serial FROM lab_drive WHERE claimed_by_host = %s", name), "the agent starts")
    run = request(f"{name}-A", LONG)
    lab.submit(run)
    lab.until_state(run.run_id, "running")
    host.process(run.run_id)
    return host, run.run_id


def _in_its_rounds(lab: TestLab, name: str) -> tuple[Host, UUID]:
    """As ``_running``, when two rounds of the run are finished: the rule of ``resume`` keeps them."""
    host, run_id = _running(lab, name)
    output = host.state(run_id) / "output"
    until(lambda: "round 2 of" in output.read_text(), f"the second round of the run; {host.log}")
    return host, run_id


def _until_resumed(lab: TestLab, host: Host, run_id: UUID, began: float) -> float:
    """Return the seconds since ``began`` until the run is resumed; require that it ends as it would have otherwise."""
    until(lambda: host.starts(run_id) == ["fresh", "resume"], f"the run is resumed; {host.log}")
    seconds = time.monotonic() - began
    _require_ended_once(lab, host, run_id, resumed=1)
    return seconds


@contextmanager
def _paused(host: Host, run_id: UUID) -> Iterator[None]:
    """Pause the process of a run, so that the run goes on for as long as the block."""
    process = host.process(run_id)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # the block may have killed it
            os.kill(process, signal.SIGCONT)


def _require_ended_once(lab: TestLab, host: Host, run_id: UUID, *, resumed: int = 0) -> None:
    """Require that a run was started once, that its result is reported, and that its job is closed; stop the agent.

    The server must not keep a connection of the agent, also not one from before the fault.
    ``resumed``: how often it was resumed.
    """
    assert lab.until_state(run_id, "finished")["exit_code"] == 0
    assert host.starts(run_id) == ["fresh"] + ["resume"] * resumed
    closed = "SELECT id FROM procrastinate_jobs WHERE queue_name = %s AND status <> 'succeeded'"
    until(lambda: not lab.query(closed, f"host:{host.name}"), "the job is closed")
    assert host.end() == 0
    connections = "SELECT pid FROM pg_stat_activity WHERE usename = %s"
    until(lambda: not lab.query(connections, f"agent_{host.name}"), "the server has ended the agent's connections")
