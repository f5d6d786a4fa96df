"""The host settings of a profile's points: set, read back, and restored; unsupported ones are refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snia_pts.errors import HostFailed, SniaPtsError, TargetBusy, TargetUnfit
from snia_pts.lab.device.identity import ROOT
from snia_pts.lab.device.target_claim import Target
from snia_pts.lab.host.conditions import Conditions, conditions_applied, restore_settings
from snia_pts.lab.host.configurator import HostConfigurator
from snia_pts.lab.host.settings_list import FileSetting, find
from snia_pts.lab.settings.restore_files import RESTORE_FILE
from snia_pts.lab.settings.settings import applied
from snia_pts.lab.settings.state_dir import restore_file_name
from snia_pts.model.dut import TargetKind
from snia_pts.model.steps import Prepare
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from tests.drives import MIB, need_root
from tests.hosts import FakeHost
from tests.strategies import dut

CPU = "sys/devices/system/cpu/cpufreq"


class Host:
    """A host with two processors and a disk, whose settings accept any value, and a run folder on it."""

    def __init__(self, place: Path) -> None:
        self.host = FakeHost(place / "root")
        self.folder, self.reported = place / "run", list[str]()
        (self.folder / "evidence").mkdir(parents=True)
        (self.host.root / "var/lib").mkdir(parents=True)
        for policy in ("policy0", "policy1"):
            self.host.write(f"{CPU}/{policy}/scaling_governor", "powersave\n")
            self.host.write(f"{CPU}/{policy}/scaling_available_governors", "performance powersave\n")
        self.disk = self.host.disk(queue__scheduler="[none] bfq\n", queue__nr_requests="64\n")
        self.host.write("proc/sys/vm/drop_caches", "0\n")
        self.host.write("proc/sys/kernel/random/boot_id", "boot-1\n")

    def read(self, name: str) -> str:
        """Return the content of a file."""
        return (self.host.root / name).read_text().strip()

    def governors(self) -> set[str]:
        """Return the governors of the processors."""
        return {self.read(f"{CPU}/policy{number}/scaling_governor") for number in (0, 1)}

    @property
    def number(self) -> Path:
        """Return the sysfs name of the device behind the descriptor of ``configured``: a file has the number 0."""
        return self.host.root / "sys/dev/block/0:0"

    @property
    def configurator(self) -> HostConfigurator:
        """Return the configurator of the disk's host."""
        number = (self.disk / "dev").read_text().split(":")
        return HostConfigurator("/dev/sdx", os.makedev(int(number[0]), int(number[1])), root=self.host.root)

    @contextmanager
    def configured(
        self, *staged: str, tune: bool = False, folder: Path | None = None, drive: bool = False
    ) -> Iterator[Conditions]:
        """Configure a run on a file, or on the host's ``drive``."""
        file = self.host.root / "x.img"
        file.write_bytes(bytes(MIB))
        descriptor = os.open(file, os.O_RDWR)
        if drive and not self.number.exists():
            self.number.symlink_to(self.disk)
        try:
            kind: TargetKind = "drive" if drive else "file"
            target = Target(dut=dut(path=str(file), kind=kind, write_cache="unknown"), descriptor=descriptor)
            run = folder or self.folder
            with conditions_applied(
                target,
                run,
                run / "evidence",
                write_cache="as found",
                keep=True,
                tune=tune,
                report=self.reported.append,
                varied=staged,
                root=self.host.root,
            ) as status:
                yield status
        finally:
            os.close(descriptor)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a host."""
    return Host(tmp_path)


def test_a_setting_is_set_and_read_back(host: Host) -> None:
    """Each processor is set; the old value and the value read back are reported."""
    done = host.configurator.prepare(Prepare(settings=(("governor", "performance"),)))

    assert (done.before, done.settings) == ((("governor", "powersave"),), (("governor", "performance"),))
    assert host.governors() == {"performance"}


def test_a_setting_that_keeps_another_value_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a kernel accepts a value but keeps another, the measurement would have the wrong name."""
    monkeypatch.setattr(FileSetting, "write", lambda _setting, _value: None)
    with pytest.raises(HostFailed, match="it is powersave after it was set to performance"):
        host.configurator.prepare(Prepare(settings=(("governor", "performance"),)))


def test_the_page_cache_is_emptied_when_cold(host: Host) -> None:
    """Page cache, dentries and inodes are dropped, and only if the profile asks for a cold cache."""
    host.configurator.prepare(Prepare())
    assert host.read("proc/sys/vm/drop_caches") == "0"
    host.configurator.prepare(Prepare(cold=True))
    assert host.read("proc/sys/vm/drop_caches").startswith("3")


def test_unsupported_settings_are_refused(host: Host) -> None:
    """A setting that the host lacks, or an unknown value, is refused before the first byte."""
    configurator = host.configurator
    configurator.require((("scheduler", "bfq"), ("governor", "powersave")), cold=True)
    for name, value, why in (
        ("scheduler", "cfq", "cannot be cfq; this host supports none, bfq"),
        ("governor", "ondemand", "cannot be ondemand; this host supports performance, powersave"),
    ):
        with pytest.raises(TargetUnfit, match=why):
            configurator.require(((name, value),), cold=False)
    with pytest.raises(TargetUnfit, match="does not support choosing the scheduler"):
        HostConfigurator("/x", os.makedev(7, 99), root=host.host.root).changes(["scheduler"])


@pytest.mark.parametrize(
    ("value", "listed", "hint"),
    [
        ("noop", "[none] bfq", "Linux 5.0 replaced noop by none: use none."),
        ("cfq", "[none] bfq", "Linux 5.0 replaced cfq by bfq: use bfq."),
        ("cfq", "[none] mq-deadline", "Linux 5.0 replaced cfq by bfq: use bfq, after modprobe bfq."),
        ("deadline", "[mq-deadline] none", "Linux 5.0 replaced deadline by mq-deadline: use mq-deadline."),
        ("fast", "[none] bfq", "Choose other values for the axis."),
    ],
)
def test_a_former_scheduler_is_named_as_it_is_today(host: Host, value: str, listed: str, hint: str) -> None:
    """Old instructions say noop and cfq; where the kernel has a scheduler of that name, it is used."""
    (host.disk / "queue/scheduler").write_text(f"{listed}\n")
    with pytest.raises(TargetUnfit) as refused:
        host.configurator.require((("scheduler", value),), cold=False)
    assert refused.value.hint == hint

    (host.disk / "queue/scheduler").write_text("noop [deadline] cfq\n")  # Linux 4.x
    host.configurator.require((("scheduler", "noop"), ("scheduler", "cfq")), cold=False)


#: What kernels reported in /sys/devices/system/cpu/cpufreq/policyN, as posted to linux-pm@vger.kernel.org, and the
#: number of policies.
RECORDED: dict[str, tuple[int, dict[str, str]]] = {
    "intel_pstate": (
        6,
        {
            "cpuinfo_max_freq": "4600000",
            "cpuinfo_min_freq": "800000",
            "cpuinfo_transition_latency": "0",
            "energy_performance_available_preferences": "default performance balance_performance balance_power power ",
            "energy_performance_preference": "balance_performance",
            "scaling_available_governors": "performance powersave",
            "scaling_driver": "intel_pstate",
            "scaling_governor": "powersave",
            "scaling_max_freq": "4600000",
            "scaling_min_freq": "800000",
            "scaling_setspeed": "<unsupported>",
        },
    ),
    "intel_cpufreq": (
        12,
        {
            "base_frequency": "4100000",
            "cpuinfo_max_freq": "4800000",
            "cpuinfo_min_freq": "800000",
            "cpuinfo_transition_latency": "20000",
            "energy_performance_available_preferences": "default performance balance_performance balance_power power ",
            "energy_performance_preference": "balance_performance",
            "scaling_available_governors": "conservative ondemand userspace powersave performance schedutil ",
            "scaling_cur_freq": "4799998",
            "scaling_driver": "intel_cpufreq",
            "scaling_governor": "schedutil",
            "scaling_max_freq": "2400000",
            "scaling_min_freq": "800000",
            "scaling_setspeed": "<unsupported>",
        },
    ),
    "cpufreq-dt": (
        1,  # for both CPUs
        {
            "affected_cpus": "0 1",
            "cpuinfo_max_freq": "1500000",
            "related_cpus": "0 1",
            "scaling_available_frequencies": "375000 750000 937500 1125000 1312500 1500000 ",
            "scaling_available_governors": "conservative ondemand userspace powersave performance schedutil ",
            "scaling_driver": "cpufreq-dt",
            "scaling_governor": "schedutil",
            "scaling_setspeed": "<unsupported>",
        },
    ),
}


@pytest.mark.long
def test_a_profile_runs_over_the_governors_of_a_recorded_host(tmp_path: Path) -> None:
    """The whole program and real fio, with the recorded files in place of the host's: set, measured and restored.

    Other runs that vary the host's own governors do not see it: /var/lib is its own, too.
    """
    need_root()
    if not (ROOT / CPU).is_dir():
        pytest.skip("the kernel has no folder of CPU frequencies")
    count, files = RECORDED["intel_cpufreq"]
    policies = [tmp_path / f"cpufreq/policy{number}" for number in range(count)]
    for policy in policies:
        policy.mkdir(parents=True)
        for name, text in files.items():
            (policy / name).write_text(f"{text}\n")
    governors = ("performance", "powersave")
    script = f'mount -t tmpfs none /var/lib && mount --bind "$1" /{CPU} && shift && exec "$@"'
    program = (sys.executable, "-m", "snia_pts", "profile", "run", "queue-depth", str(tmp_path), "--size", "1M")
    axes = ("--axis", f"host.governor={','.join(governors)}", "--axis", "queue_depth=1", "--seconds", "0.2")
    out = ("--ramp-seconds", "0", "--repeats", "1", "--run-dir", str(tmp_path / "run"), "--to", "none")
    command = ("unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path / "cpufreq"), *program, *axes, *out)
    subprocess.run(command, check=True, timeout=300)

    result = assess(RunFolder.existing(tmp_path / "run"))
    assert [loop.part for loop in result.loops] == [
        f"{order}, governor {governor}" for governor in governors for order in ("random read", "random write")
    ]
    entries = map(json.loads, (tmp_path / "run/journal.jsonl").read_text().splitlines())
    outcomes = [entry["entry"]["outcome"] for entry in entries if entry["entry"]["kind"] == "outcome"]
    prepared = [outcome["settings"] for outcome in outcomes if outcome["kind"] == "prepare"]
    assert prepared == [[["governor", governor]] for governor in governors for _ in range(2)]  # as read back
    for policy in policies:
        assert {name: (policy / name).read_text().strip() for name in files} == {
            name: text.strip() for name, text in files.items()
        }


@pytest.mark.parametrize("driver", RECORDED)
def test_the_governor_axis_on_recorded_hosts(host: Host, driver: str) -> None:
    """Each governor that the kernel lists is set for every policy, read back, and the first one restored."""
    shutil.rmtree(host.host.root / CPU)
    count, files = RECORDED[driver]
    for number in range(count):
        for name, text in files.items():
            host.host.write(f"{CPU}/policy{number}/{name}", f"{text}\n")

    def governors() -> set[str]:
        return {host.read(f"{CPU}/policy{number}/scaling_governor") for number in range(count)}

    before = governors()
    with host.configured("governor") as found:
        for governor in files["scaling_available_governors"].split():
            found.configurator.require((("governor", governor),), cold=False)
            done = found.configurator.prepare(Prepare(settings=(("governor", governor),)))
            assert (done.settings, governors()) == ((("governor", governor),), {governor})
        with pytest.raises(TargetUnfit, match="governor cannot be turbo; this host supports "):
            found.configurator.require((("governor", "turbo"),), cold=False)
    assert (governors(), host.reported) == (before, [])
    for number in range(count):
        assert {name: host.read(f"{CPU}/policy{number}/{name}") for name in files} == {
            name: text.strip() for name, text in files.items()
        }


def test_dependent_settings_are_restored_too(host: Host) -> None:
    """The scheduler changes the number of requests: both are recorded before, and restored after."""
    configurator, block = host.configurator, host.disk / "queue"
    with applied(
        configurator.changes(["scheduler", "governor"]),
        host.folder,
        report=host.reported.append,
        root=host.host.root,
        find=lambda kind, place: find(kind, place, host.host.root),
    ) as status:
        configurator.require_restorable(status)
        configurator.prepare(Prepare(settings=(("scheduler", "bfq"), ("governor", "performance"))))
        (block / "nr_requests").write_text("256\n")
        assert (block / "scheduler").read_text().startswith("bfq")
    assert [(block / name).read_text().strip() for name in ("scheduler", "nr_requests")] == ["none", "64"]
    assert (host.governors(), host.reported) == ({"powersave"}, [])


def test_the_settings_of_a_killed_run_are_restored(host: Host) -> None:
    """Its restore file has only the old value of a setting that the run varied."""
    with host.configured("governor") as found:
        found.configurator.prepare(Prepare(settings=(("governor", "performance"),)))
        note = (host.folder / RESTORE_FILE).read_bytes()
    assert host.governors() == {"powersave"}

    for place in (host.folder / RESTORE_FILE, host.host.root / "var/lib/snia-pts" / restore_file_name(host.folder)):
        place.write_bytes(note)  # as after SIGKILL
    for number in (0, 1):
        host.host.write(f"{CPU}/policy{number}/scaling_governor", "performance\n")
    (restore_setting,) = restore_settings(host.folder, root=host.host.root)
    assert (host.governors(), "governor powersave" in restore_setting) == ({"powersave"}, True)


def test_tune_ignores_settings_that_an_axis_varies(host: Host) -> None:
    """Otherwise the axis's last value would be taken for another program's, and kept."""
    with host.configured("governor", tune=True) as found:
        assert host.governors() == {"powersave"}
        found.configurator.prepare(Prepare(settings=(("governor", "performance"),)))
        found.configurator.prepare(Prepare(settings=(("governor", "powersave"),)))
        found.configurator.prepare(Prepare(settings=(("governor", "performance"),)))
    assert (host.governors(), host.reported) == ({"powersave"}, [])


def test_a_tuned_setting_that_changed_by_itself_is_reported_once(host: Host) -> None:
    """This holds for a setting that needed no change, too; both processors' governors give one message."""
    host.host.write(f"{CPU}/policy1/scaling_governor", "performance\n")
    with host.configured(tune=True) as conditions:
        assert conditions.setting_changes(host.folder / "evidence") == ()
        for policy in ("policy0", "policy1"):
            host.host.write(f"{CPU}/{policy}/scaling_governor", "powersave\n")
        lines = conditions.setting_changes(host.folder / "evidence")

    (line,) = lines
    assert line.startswith(
        "governor changed from performance to powersave (recommended: performance): a CPU that slows"
    )
    assert line.endswith("; measurements may have been made with either value")
    assert host.reported == []


QUEUE = {
    "iostats": ("1", "0", "statistics changed from on to off"),
    "scheduler": ("[none] bfq", "none [bfq]", "scheduler changed from none to bfq"),
    "nr_requests": ("64", "32", "requests changed from 64 to 32"),
    "nomerges": ("2", "0", "merging changed from off to on"),
    "rq_affinity": ("2", "0", "completion changed from the submitting CPU to any CPU"),
    "max_sectors_kb": ("1280", "128", "largest I/O changed from 1280 KiB to 128 KiB"),
    "max_hw_sectors_kb": ("1280", "1280", ""),
    "write_cache": ("write back", "write through", "cache flushes changed from sent to the drive to not sent to"),
    "rotational": ("0", "1", "media changed from solid state to rotational"),
    "read_ahead_kb": ("128", "4096", "read-ahead changed from 128 KiB to 4096 KiB"),
    "wbt_lat_usec": ("2000", "0", "writeback throttling changed from 2000 us to 0 us"),
}


def test_a_setting_that_another_program_changed_is_reported_without_tune(host: Host) -> None:
    """Each queue setting that affects results is reported once, with old and new value; and the governor."""
    for name, (before, _, _) in QUEUE.items():
        host.host.write(f"sys/block/sdx/queue/{name}", f"{before}\n")
    with host.configured(drive=True) as conditions:
        assert conditions.setting_changes(host.folder / "evidence") == ()
        for name, (_, now, _) in QUEUE.items():
            host.host.write(f"sys/block/sdx/queue/{name}", f"{now}\n")
        host.host.write(f"{CPU}/policy0/scaling_governor", "performance\n")
        lines = list(conditions.setting_changes(host.folder / "evidence"))

    expected = ["governor changed from powersave to", *(sentence for _, _, sentence in QUEUE.values() if sentence)]
    for beginning in expected:
        assert len([line for line in lines if line.startswith(beginning)]) == 1, beginning
    assert len(lines) == len(expected)
    assert ["recommended" in line for line in lines] == [True] * 4 + [False] * (len(lines) - 4)


def test_the_settings_of_a_drive_that_disappeared_are_not_compared(host: Host) -> None:
    """The run has failed for that reason; the warnings would add nothing."""
    with host.configured(drive=True) as conditions:
        host.number.unlink()
        assert conditions.setting_changes(host.folder / "evidence") == ()


def test_a_setting_that_the_run_varies_is_not_reported(host: Host) -> None:
    """The last value of an axis is ignored when the settings are read again, as is a setting that changes with it."""
    host.host.write("sys/block/sdx/queue/wbt_lat_usec", "2000\n")
    with host.configured("governor", "scheduler", drive=True) as conditions:
        values = (("governor", "performance"), ("scheduler", "bfq"))
        conditions.configurator.prepare(Prepare(settings=values))
        host.host.write("sys/block/sdx/queue/nr_requests", "256\n")
        host.host.write("sys/block/sdx/queue/wbt_lat_usec", "0\n")
        assert conditions.setting_changes(host.folder / "evidence") == ()


def test_a_setting_of_another_run_is_not_varied(host: Host, tmp_path: Path) -> None:
    """The other run's numbers would change, even if it did not have to set the value; so for two runs that vary one."""
    other = tmp_path / "other"
    (other / "evidence").mkdir(parents=True)
    for before in ("powersave", "performance"):
        for number in (0, 1):
            host.host.write(f"{CPU}/policy{number}/scaling_governor", f"{before}\n")
        with host.configured(tune=True, folder=other):
            assert "keeps it at performance, and this run varies it" in refused(host, TargetBusy)
            assert host.governors() == {"performance"}
    with host.configured("governor", folder=other):
        assert "varies it, and this run varies it" in refused(host, TargetBusy)
    assert host.governors() == {"performance"}


def test_the_refusal_names_the_setting_of_the_axis(host: Host, tmp_path: Path) -> None:
    """The operator set the scheduler, not the number of requests, which changes with it."""
    other = tmp_path / "other"
    (other / "evidence").mkdir(parents=True)
    with (
        host.configured("scheduler", drive=True),
        pytest.raises(TargetBusy, match=r"^scheduler of sdx is in use"),
        host.configured("scheduler", folder=other, drive=True),
    ):
        pass


def test_a_setting_that_could_not_be_restored_is_not_varied(host: Host) -> None:
    """The run is refused with the current value."""
    host.host.write(f"{CPU}/policy0/scaling_governor", "Strange 1\n")
    assert "governor: it is Strange 1, which could not be restored" in refused(host, TargetUnfit)


def refused(host: Host, error: type[SniaPtsError]) -> str:
    """Return the reason for which a run may not vary the governors now."""
    with pytest.raises(error) as raised, host.configured("governor"):
        pass
    return str(raised.value)
