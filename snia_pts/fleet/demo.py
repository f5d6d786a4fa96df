"""Demo: a lab with simulated drives on this machine; an agent and the database are killed during the tests."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from ..errors import HostFailed, LabError
from ..files import replace_file
from ..store.store import Filter, Store
from ..temporary import temporary_folder
from ..units import counted
from .campaign import plan_campaign
from .collect import collect
from .operations import UNFINISHED, Lab
from .private_server import PrivateServer
from .state_folder import RunState
from .trial import MODEL, TrialHost

_HOSTS = {"h1": ("DRIVE-1", "DRIVE-2", "DRIVE-3"), "h2": ("DRIVE-4", "DRIVE-5", "DRIVE-6")}
_TESTS = 2 * sum(map(len, _HOSTS.values()))
#: A hundred rounds with points of 5 simulated seconds; a run takes only a few real seconds.
_CAMPAIGN = f"""\
format = 1
name = "demo"
options = {{ formats = [], overrides = ["rounds.maximum=100", "rounds.point_seconds=5", \
"steady_state.data_excursion_percent=0.001"] }}

[[drive]]
model = "{MODEL}"
count = 6

[[test]]
test = "latency"
repeats = 2
"""
_AWAY_SECONDS = 5.0
_LIMIT_SECONDS = 600.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 0.25
_COLLECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """A run of the demo: how many processes started it, and whether its result is in the store."""

    host: str
    serial: str
    test: str
    state: str
    starts: int
    is_stored: bool

    @property
    def passed(self) -> bool:
        """Whether the run was started exactly once, finished, and is in the store."""
        return self.state == "finished" and self.starts == 1 and self.is_stored


def run_demo(say: Callable[[str], None]) -> list[DemoRun]:
    """Perform the demo; ``say`` is called with a message for each step.  Return the runs.

    Whatever ends it, all its processes are ended and its files removed.  Raises HostFailed, ToolMissing and LabError.
    """
    try:
        with ExitStack() as ignored, ExitStack() as cleanup:
            folder = cleanup.enter_context(temporary_folder())
            # The user of the PostgreSQL server must be able to traverse it.
            folder.chmod(0o711)
            try:
                return _Demo(folder, say, cleanup).perform()
            finally:
                say("The demo ends its processes and removes its files.")
                ignored.enter_context(_signals_ignored())  # a second Ctrl-C would interrupt that
    except OSError as error:
        raise HostFailed(
            step="the demo", what=error.filename or "a file", reason=error.strerror or str(error)
        ) from None


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore the signals that end the demo, inside the block."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class _Demo:
    """The lab of a demo in ``folder``; what it starts is ended by ``cleanup``."""

    folder: Path
    say: Callable[[str], None]
    cleanup: ExitStack
    hosts: dict[str, TrialHost] = field(default_factory=dict)
    server: PrivateServer = field(init=False)

    def perform(self) -> list[DemoRun]:
        """Make the lab, run the campaign through the faults, and return its runs."""
        self.server = PrivateServer.at(self.folder / "db")
        self.say(f"A lab is made in {self.folder}.")
        self.server.create()
        self.cleanup.callback(self._stop_server)
        self.server.start()
        self.server.create_database()
        with Lab(self.server.url(), create=True) as lab:
            self._add_hosts(lab)
            self._submit(lab)
            self._kill_agent()
            self._kill_database(lab)
            self.say(f"The lab works through the rest of the {_TESTS} tests.")
            self._until("all tests end", lambda: self._ended_on_hosts() == _TESTS)
            return self._results(lab)

    def _add_hosts(self, lab: Lab) -> None:
        for name, serials in _HOSTS.items():
            lab.add_host(name)
            host = TrialHost(name, self.folder / name, self.server.url(role=f"agent_{name}"), serials)
            self.hosts[name] = host
            self.cleanup.callback(host.close)
            host.start()
        self._until("the agents start", lambda: len(lab.drives()) == _TESTS // 2)
        for name, host in self.hosts.items():
            drives = f"{host.serials[0]} to {host.serials[-1].removeprefix('DRIVE-')}"
            self.say(f"Host {name}: agent {host.pid} has the simulated drives {drives}.")

    def _submit(self, lab: Lab) -> None:
        path = self.folder / "campaign.toml"
        replace_file(path, _CAMPAIGN.encode())
        plan = plan_campaign(path, *lab.campaign_drives())
        lab.submit([run.request for run in plan.runs], campaign=plan.campaign.name)
        self.say(f"A campaign is submitted: {counted(len(plan.runs), 'test')}, two on each drive.")

    def _kill_agent(self) -> None:
        """Kill the agent of the first host while its runs are in progress, and start it again."""
        host = self.hosts["h1"]
        self._until("three runs of h1 are in progress", lambda: len(self._live_runs(host)) == len(host.serials))
        host.end(signal.SIGKILL)
        runs = counted(len(self._live_runs(host)), "test")
        self.say(f"Agent {host.pid} of h1 is killed (SIGKILL), with {runs} in progress.")
        began, size = time.monotonic(), len(host.log)
        host.start()
        self._until("the agent of h1 is back", lambda: "connected to" in host.log[size:])
        self.say(f"New agent {host.pid} took over the tests of h1 after {time.monotonic() - began:.1f} s.")

    def _kill_database(self, lab: Lab) -> None:
        """Kill the database while runs are in progress, and start it again after a run has ended."""
        self._until("runs are in progress", lambda: any(map(self._live_runs, self.hosts.values())))
        before = self._ended_on_hosts()
        self.server.kill()
        runs = [run for host in self.hosts.values() for run in self._live_runs(host)]
        self.say(f"The database is killed (SIGKILL), with {counted(len(runs), 'test')} in progress.")
        began = time.monotonic()
        self._until(
            "a run ends without the database",
            lambda: time.monotonic() - began > _AWAY_SECONDS and (not runs or any(run.exit() for run in runs)),
        )
        ended = counted(sum(run.exit() is not None for run in runs), "test")
        self.say(f"Without it, {ended} ended; the agents keep the results.")
        began = time.monotonic()
        self.server.start()
        self._until("the database has the test ends", lambda: self._ended_in_database(lab) > before)
        seconds = time.monotonic() - began
        self.say(f"The database is restarted; it recorded the first end after {seconds:.1f} s.")

    def _results(self, lab: Lab) -> list[DemoRun]:
        """Collect the results into a store, and return the runs."""
        store = str(self.folder / "store.sqlite")
        received = set[UUID]()

        def collected() -> bool:
            received.update(result.run_id for result in collect(self.server.url(), self.folder / "results", store))
            return len(received) == _TESTS

        self._until("the results are collected", collected, _COLLECT_SECONDS)
        with Store(store) as opened:
            stored = {
                run["run_id"] for run in lab.runs() if len(opened.runs(Filter(labels={"lab_run": str(run["run_id"])})))
            }
        self.say(f"The results are collected from both hosts; the store has {counted(len(stored), 'run')}.")
        return [
            DemoRun(
                host=run["host"],
                serial=run["serial"],
                test=run["test"],
                state=run["state"],
                starts=len(self.hosts[run["host"]].starts(run["run_id"])),
                is_stored=run["run_id"] in stored,
            )
            for run in sorted(lab.runs(), key=lambda run: (run["serial"], run["submitted"]))
        ]

    def _stop_server(self) -> None:
        """Stop the server.  If it was killed, start it first, so that it removes its leftover IPC objects."""
        if not self.server.is_running:
            self.server.start()
        self.server.stop("immediate")

    @staticmethod
    def _live_runs(host: TrialHost) -> list[RunState]:
        """Return the runs in progress on a host; the process of one that has recorded its end may still live."""
        return [run for run in host.live_runs() if run.exit() is None]

    def _ended_on_hosts(self) -> int:
        """Return how many runs have ended according to the files on their hosts."""
        return sum(1 for name in self.hosts for _ in (self.folder / name / "state" / "runs").glob("*/exit"))

    @staticmethod
    def _ended_in_database(lab: Lab) -> int:
        """Return how many runs have ended according to the database."""
        return sum(run["state"] not in UNFINISHED for run in lab.runs())

    def _until(self, what: str, condition: Callable[[], bool], poll_seconds: float = _POLL_SECONDS) -> None:
        """Wait until ``condition``; raises LabError if that takes too long."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                reason = f"it takes more than {_LIMIT_SECONDS:.0f} seconds until {what}"
                raise LabError(url="of the demo", reason=reason, hint="Try it again when this machine has less to do.")
            time.sleep(poll_seconds)
