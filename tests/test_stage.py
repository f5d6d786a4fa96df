"""The host as a profile's points want it: set, read back, put back; what cannot be set is refused before the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snia_pts.errors import HostFailed, SniaPtsError, TargetBusy, TargetUnfit
from snia_pts.lab.device.target_claim import Target
from snia_pts.lab.host.conditions import Conditions, conditions_applied, restore_settings
from snia_pts.lab.host.configurator import HostConfigurator
from snia_pts.lab.host.settings_list import FileSetting, find
from snia_pts.lab.settings.settings import RESTORE_FILE, applied
from snia_pts.lab.settings.state_dir import restore_file_name
from snia_pts.model.dut import TargetKind
from snia_pts.model.steps import Prepare
from tests.drives import MIB
from tests.hosts import FakeHost
from tests.strategies import dut

CPU = "sys/devices/system/cpu/cpufreq"


class Host:
    """A host with two processors and a disk, whose settings take whatever is written, and a run folder on it."""

    def __init__(self, place: Path) -> None:
        self.host = FakeHost(place / "root")
        self.folder, self.told = place / "run", list[str]()
        (self.folder / "evidence").mkdir(parents=True)
        (self.host.root / "var/lib").mkdir(parents=True)
        for policy in ("policy0", "policy1"):
            self.host.write(f"{CPU}/{policy}/scaling_governor", "powersave\n")
            self.host.write(f"{CPU}/{policy}/scaling_available_governors", "performance powersave\n")
        self.disk = self.host.disk(queue__scheduler="[none] bfq\n", queue__nr_requests="64\n")
        self.host.write("proc/sys/vm/drop_caches", "0\n")
        self.host.write("proc/sys/kernel/random/boot_id", "boot-1\n")

    def read(self, name: str) -> str:
        """Return what a file holds."""
        return (self.host.root / name).read_text().strip()

    def governors(self) -> set[str]:
        """What the processors have."""
        return {self.read(f"{CPU}/policy{number}/scaling_governor") for number in (0, 1)}

    @property
    def number(self) -> Path:
        """The name in sysfs of the device that the descriptor of ``settled`` refers to: a file has the number 0."""
        return self.host.root / "sys/dev/block/0:0"

    @property
    def stage(self) -> HostConfigurator:
        """The stage around the disk."""
        number = (self.disk / "dev").read_text().split(":")
        return HostConfigurator("/dev/sdx", os.makedev(int(number[0]), int(number[1])), root=self.host.root)

    @contextmanager
    def settled(
        self, *staged: str, tune: bool = False, folder: Path | None = None, drive: bool = False
    ) -> Iterator[Conditions]:
        """Settle a run on a file, or on the host's ``drive``."""
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
                report=self.told.append,
                varied=staged,
                root=self.host.root,
            ) as status:
                yield status
        finally:
            os.close(descriptor)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host."""
    return Host(tmp_path)


def test_a_setting_is_set_and_read_back(host: Host) -> None:
    """Each processor is set, and what was found and what is read back is told."""
    done = host.stage.prepare(Prepare(settings=(("governor", "performance"),)))

    assert (done.before, done.settings) == ((("governor", "powersave"),), (("governor", "performance"),))
    assert host.governors() == {"performance"}


def test_a_setting_that_does_not_take_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes a value and keeps another: what was measured then would have the wrong name."""
    monkeypatch.setattr(FileSetting, "write", lambda _setting, _value: None)
    with pytest.raises(HostFailed, match="it is powersave after it was set to performance"):
        host.stage.prepare(Prepare(settings=(("governor", "performance"),)))


def test_the_page_cache_is_emptied_when_cold(host: Host) -> None:
    """Page cache, dentries and inodes; and not otherwise."""
    host.stage.prepare(Prepare())
    assert host.read("proc/sys/vm/drop_caches") == "0"
    host.stage.prepare(Prepare(cold=True))
    assert host.read("proc/sys/vm/drop_caches").startswith("3")


def test_what_cannot_be_set_is_refused(host: Host) -> None:
    """A setting that the host lacks, a value that it does not know: before the first byte."""
    stage = host.stage
    stage.require((("scheduler", "bfq"), ("governor", "powersave")), cold=True)
    for name, value, why in (
        ("scheduler", "cfq", "cannot be cfq; this host supports none, bfq"),
        ("governor", "ondemand", "cannot be ondemand; this host supports performance, powersave"),
    ):
        with pytest.raises(TargetUnfit, match=why):
            stage.require(((name, value),), cold=False)
    with pytest.raises(TargetUnfit, match="does not support choosing the scheduler"):
        HostConfigurator("/x", os.makedev(7, 99), root=host.host.root).changes(["scheduler"])


def test_all_is_put_back_with_what_goes_with_it(host: Host) -> None:
    """The scheduler takes the number of requests along: both are noted before, and put back after."""
    stage, block = host.stage, host.disk / "queue"
    with applied(
        stage.changes(["scheduler", "governor"]),
        host.folder,
        report=host.told.append,
        root=host.host.root,
        find=lambda kind, place: find(kind, place, host.host.root),
    ) as status:
        stage.require_restorable(status)
        stage.prepare(Prepare(settings=(("scheduler", "bfq"), ("governor", "performance"))))
        (block / "nr_requests").write_text("256\n")
        assert (block / "scheduler").read_text().startswith("bfq")
    assert [(block / name).read_text().strip() for name in ("scheduler", "nr_requests")] == ["none", "64"]
    assert (host.governors(), host.told) == ({"powersave"}, [])


def test_a_killed_run_is_put_back(host: Host) -> None:
    """Its note is followed, though it says of a setting that the run went through only what was before."""
    with host.settled("governor") as found:
        found.configurator.prepare(Prepare(settings=(("governor", "performance"),)))
        note = (host.folder / RESTORE_FILE).read_bytes()
    assert host.governors() == {"powersave"}

    for place in (host.folder / RESTORE_FILE, host.host.root / "var/lib/snia-pts" / restore_file_name(host.folder)):
        place.write_bytes(note)  # as SIGKILL leaves it
    for number in (0, 1):
        host.host.write(f"{CPU}/policy{number}/scaling_governor", "performance\n")
    (restore_setting,) = restore_settings(host.folder, root=host.host.root)
    assert (host.governors(), "governor powersave" in restore_setting) == ({"powersave"}, True)


def test_tune_leaves_alone_what_an_axis_goes_through(host: Host) -> None:
    """Else, at the end, the axis's last value would be taken for somebody else's, and left."""
    with host.settled("governor", tune=True) as found:
        assert host.governors() == {"powersave"}
        found.configurator.prepare(Prepare(settings=(("governor", "performance"),)))
        found.configurator.prepare(Prepare(settings=(("governor", "powersave"),)))
        found.configurator.prepare(Prepare(settings=(("governor", "performance"),)))
    assert (host.governors(), host.told) == ({"powersave"}, [])


def test_a_tuned_setting_that_changed_by_itself_is_reported_once(host: Host) -> None:
    """Also one that needed no change; both processors' governors give one sentence."""
    host.host.write(f"{CPU}/policy1/scaling_governor", "performance\n")
    with host.settled(tune=True) as conditions:
        assert conditions.setting_changes(host.folder / "evidence") == ()
        for policy in ("policy0", "policy1"):
            host.host.write(f"{CPU}/{policy}/scaling_governor", "powersave\n")
        lines = conditions.setting_changes(host.folder / "evidence")

    (line,) = lines
    assert line.startswith(
        "governor changed from performance to powersave (recommended: performance): a CPU that slows"
    )
    assert line.endswith("; measurements may have been made with either value")
    assert host.told == []


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
    """Each setting of the queue that a result depends on, once, with old and new value; and the governor."""
    for name, (before, _, _) in QUEUE.items():
        host.host.write(f"sys/block/sdx/queue/{name}", f"{before}\n")
    with host.settled(drive=True) as conditions:
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
    """The run has failed for that reason; each of them would be a warning that says nothing."""
    with host.settled(drive=True) as conditions:
        host.number.unlink()
        assert conditions.setting_changes(host.folder / "evidence") == ()


def test_a_setting_that_the_run_varies_is_not_reported(host: Host) -> None:
    """The last value of an axis is left when the settings are read again, also of what changes with it."""
    host.host.write("sys/block/sdx/queue/wbt_lat_usec", "2000\n")
    with host.settled("governor", "scheduler", drive=True) as conditions:
        values = (("governor", "performance"), ("scheduler", "bfq"))
        conditions.configurator.prepare(Prepare(settings=values))
        host.host.write("sys/block/sdx/queue/nr_requests", "256\n")
        host.host.write("sys/block/sdx/queue/wbt_lat_usec", "0\n")
        assert conditions.setting_changes(host.folder / "evidence") == ()


def test_what_another_run_needs_is_not_varied(host: Host, tmp_path: Path) -> None:
    """Its numbers would change under it, also if the setting already had its value; so for two runs that vary one."""
    other = tmp_path / "other"
    (other / "evidence").mkdir(parents=True)
    for before in ("powersave", "performance"):
        for number in (0, 1):
            host.host.write(f"{CPU}/policy{number}/scaling_governor", f"{before}\n")
        with host.settled(tune=True, folder=other):
            assert "keeps it at performance, and this run varies it" in refused(host, TargetBusy)
            assert host.governors() == {"performance"}
    with host.settled("governor", folder=other):
        assert "varies it, and this run varies it" in refused(host, TargetBusy)
    assert host.governors() == {"performance"}


def test_the_refusal_names_the_setting_of_the_axis(host: Host, tmp_path: Path) -> None:
    """Not the number of requests, which changes with the scheduler: the operator has not asked for that."""
    other = tmp_path / "other"
    (other / "evidence").mkdir(parents=True)
    with (
        host.settled("scheduler", drive=True),
        pytest.raises(TargetBusy, match=r"^scheduler of sdx is in use"),
        host.settled("scheduler", folder=other, drive=True),
    ):
        pass


def test_a_setting_that_could_not_be_restored_is_not_varied(host: Host) -> None:
    """The run is refused with the value that is in the way."""
    host.host.write(f"{CPU}/policy0/scaling_governor", "Strange 1\n")
    assert "governor: it is Strange 1, which could not be restored" in refused(host, TargetUnfit)


def refused(host: Host, error: type[SniaPtsError]) -> str:
    """Return why a run may not vary the governors now."""
    with pytest.raises(error) as raised, host.settled("governor"):
        pass
    return str(raised.value)
