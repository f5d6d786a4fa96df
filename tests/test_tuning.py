"""Host settings that may change the numbers: found, judged with a reason, set by --tune, shown by ``snia-pts host``."""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.commands import host as verb
from snia_pts.cli.main import main
from snia_pts.lab.host import tuning
from snia_pts.lab.host.conditions import conditions_applied
from snia_pts.lab.host.settings_list import find
from snia_pts.lab.host.tuning import processors, queue
from snia_pts.lab.host.tuning.finding import Finding, numbers
from snia_pts.lab.host.tuning.io_path import numa_local_cpus
from snia_pts.lab.observation.telemetry import CpuTimes
from snia_pts.lab.settings.settings import applied
from snia_pts.model.test_platform import HostSetting
from snia_pts.report.sections.provenance import provenance
from snia_pts.report.tables import Table
from snia_pts.runner.resume import platform_changes
from snia_pts.runner.setup import host_warnings
from tests import samples
from tests.drives import MIB, loop_device
from tests.hosts import FakeHost

CPU = "sys/devices/system/cpu"
POLICY = f"{CPU}/cpufreq/policy"


def findings(host: FakeHost, block: Path | None = None) -> dict[str, Finding]:
    """Return the findings of a host by name."""
    listed = tuning.inspect(block, root=host.root, sample_seconds=0)
    assert len({entry.name for entry in listed}) == len(listed)
    assert all(item.setting.reason and item.setting.value for item in listed)
    return {entry.name: entry for entry in listed}


def judged(host: FakeHost, block: Path | None = None) -> dict[str, tuple[str, str]]:
    """Return value and judgement of each setting."""
    return {name: (item.setting.value, item.setting.judgement) for name, item in findings(host, block).items()}


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """Return a host."""
    return FakeHost(tmp_path)


def test_a_host_without_any_information(host: FakeHost) -> None:
    """Nothing is guessed, nothing fails, and nothing would be set."""
    listed = findings(host)

    assert {entry.setting.judgement for entry in listed.values()} <= {"unknown", "good"}
    assert listed["governor"].setting.judgement == "unknown"
    assert tuning.changes(listed.values(), host.root) == ()


@pytest.mark.parametrize(
    ("files", "name", "value", "judgement"),
    [
        ({f"{POLICY}0/scaling_governor": "powersave"}, "governor", "powersave", "affects results"),
        (
            {f"{POLICY}{n}/scaling_governor": "performance" if n else "ondemand" for n in range(3)},
            "governor",
            "performance (2), ondemand (1)",
            "affects results",
        ),
        ({f"{POLICY}0/scaling_governor": "performance"}, "governor", "performance", "good"),
        (
            {f"{POLICY}0/energy_performance_preference": "balance_performance"},
            "energy preference",
            "balance_performance",
            "affects results",
        ),
        ({f"{CPU}/intel_pstate/no_turbo": "0"}, "turbo", "on", "noted"),
        ({f"{CPU}/intel_pstate/no_turbo": "1"}, "turbo", "off", "noted"),
        ({f"{CPU}/cpufreq/boost": "1"}, "turbo", "on", "noted"),
        (
            {
                f"{CPU}/cpu0/cpuidle/state{n}/{name}": text
                for n, latency in enumerate(("0", "2", "133"))
                for name, text in (("name", f"C{n}"), ("latency", latency), ("disable", "0"))
            },
            "idle states",
            "up to 133 us to wake up (C2)",
            "affects results",
        ),
        (
            {
                f"{CPU}/cpu0/cpuidle/state{n}/{name}": text
                for n, latency in enumerate(("0", "2", "133"))
                for name, text in (("name", f"C{n}"), ("latency", latency), ("disable", str(n // 2)))
            },
            "idle states",
            "up to 2 us to wake up (C1)",
            "good",
        ),
        (
            {
                f"{CPU}/vulnerabilities/{name}": text
                for name, text in (
                    ("mds", "Mitigation: Clear CPU buffers"),
                    ("l1tf", "Not affected"),
                    ("tsa", "Vulnerable: no microcode"),
                )
            },
            "mitigations",
            "1 on, 1 off or missing, 1 not needed",
            "noted",
        ),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor lm\n"}, "virtual machine", "yes", "affects results"),
        ({"proc/cpuinfo": "flags\t\t: fpu lm\n"}, "virtual machine", "no", "good"),
        (
            {"proc/swaps": "Filename Type Size Used Priority\n/dev/sdb1 partition 2097148 1024 -2\n"},
            "swap",
            "1.049 MB in use",
            "noted",
        ),
        (
            {"proc/swaps": "Filename Type Size Used Priority\n/dev/sdb1 partition 2097148 0 -2\n"},
            "swap",
            "not in use",
            "good",
        ),
    ],
)
def test_processors(host: FakeHost, files: dict[str, str], name: str, value: str, judgement: str) -> None:
    """Each setting of the host has the value of the kernel's files."""
    for path, text in files.items():
        host.write(path, f"{text}\n")

    assert judged(host)[name] == (value, judgement)


@pytest.mark.parametrize(
    ("files", "name", "value", "judgement"),
    [
        ({"queue/scheduler": "none [mq-deadline] kyber"}, "scheduler", "mq-deadline", "affects results"),
        ({"queue/scheduler": "[none] mq-deadline"}, "scheduler", "none", "good"),
        ({"queue/nomerges": "0"}, "merging", "on", "noted"),
        ({"queue/nomerges": "2"}, "merging", "off", "good"),
        (
            {"queue/max_sectors_kb": "128", "queue/max_hw_sectors_kb": "2048"},
            "largest I/O",
            "128 KiB",
            "affects results",
        ),
        ({"queue/max_sectors_kb": "128", "queue/max_hw_sectors_kb": "128"}, "largest I/O", "128 KiB", "noted"),
        ({"queue/max_sectors_kb": "1280", "queue/max_hw_sectors_kb": "2048"}, "largest I/O", "1280 KiB", "good"),
        ({"queue/nr_requests": "256"}, "requests", "256", "good"),
        ({"queue/nr_requests": "1"}, "requests", "1", "affects results"),
        ({"queue/rq_affinity": "0"}, "completion", "any CPU", "noted"),
        ({"queue/iostats": "1"}, "statistics", "on", "good"),
        ({"queue/iostats": "0"}, "statistics", "off", "affects results"),
        ({"queue/iostats": "0", "stat": "1 0 8 0 1 0 8 0 0 0 0 0 0 0 0 0 0"}, "other I/O", "unknown", "unknown"),
        ({"queue/write_cache": "write back"}, "cache flushes", "sent to the drive", "good"),
        ({"queue/write_cache": "write through"}, "cache flushes", "not sent to the drive", "good"),
        ({"queue/rotational": "0"}, "media", "solid state", "good"),
        ({"queue/rotational": "1"}, "media", "rotational", "good"),
        ({"queue/read_ahead_kb": "128"}, "read-ahead", "128 KiB", "good"),
        ({"queue/wbt_lat_usec": "2000"}, "writeback throttling", "2000 us", "good"),
        ({"device/queue_depth": "1"}, "commands at a time", "1", "affects results"),
        ({"device/queue_depth": "32"}, "commands at a time", "32", "good"),
        ({"stat": "1 0 8 0 1 0 8 0 0 0 0 0 0 0 0 0 0"}, "other I/O", "none", "good"),
        (
            {"stat": "1 0 8 0 1 0 8 0 3 0 0 0 0 0 0 0 0"},
            "other I/O",
            "0 I/Os completed, 3 outstanding",
            "affects results",
        ),
    ],
)
def test_the_queue_of_a_drive(host: FakeHost, files: dict[str, str], name: str, value: str, judgement: str) -> None:
    """Each setting of the block layer has its value."""
    block = host.disk("sdx", **{key.replace("/", "__"): f"{text}\n" for key, text in files.items()})

    assert judged(host, block)[name] == (value, judgement)


def nodes(host: FakeHost, count: int) -> None:
    """Give a host memory nodes of eight processors each."""
    for node in range(count):
        host.write(f"sys/devices/system/node/node{node}/cpulist", f"{8 * node}-{8 * node + 7}\n")
    host.write(f"{CPU}/online", f"0-{8 * count - 1}\n")


def test_the_io_path_to_an_nvme_drive(host: FakeHost) -> None:
    """The link is slower than the drive's, a link has power saving, and the process may run on another node."""
    block = host.nvme()
    nodes(host, 2)
    host.write("sys/module/pcie_aspm/parameters/policy", "default performance [powersave] powersupersave\n")
    listed = judged(host, block)

    assert listed["PCIe link"] == ("8 GT/s x4", "affects results")
    assert findings(host, block)["PCIe link"].setting.recommended == "16 GT/s x4"
    assert listed["PCIe power saving"] == ("powersave", "affects results")
    assert listed["memory nodes"][1] == "affects results"
    assert numa_local_cpus(block, host.root) == frozenset(range(8, 16))
    host.write("sys/devices/pci0000:00/0000:01:00.0/current_link_speed", "16.0 GT/s PCIe\n")
    assert judged(host, block)["PCIe link"] == ("16 GT/s x4", "good")


def test_one_memory_node_needs_no_placement(host: FakeHost) -> None:
    """No setting is reported."""
    block = host.nvme()
    nodes(host, 1)

    assert judged(host, block)["memory nodes"] == ("one", "good")
    assert numa_local_cpus(block, host.root) == frozenset()


@pytest.mark.parametrize(
    ("lists", "value", "judgement"),
    [
        (["0", "1", "2", "3"], "4 on 4 of 16 CPUs", "good"),
        (["3", "3", "3", "3"], "4 on 1 of 16 CPUs", "affects results"),
        (["3"], "1 on 1 of 16 CPUs", "good"),
        ([], "unknown", "unknown"),
    ],
)
def test_interrupts(host: FakeHost, lists: list[str], value: str, judgement: str) -> None:
    """Queues that all interrupt one processor are reported."""
    block = host.nvme()
    nodes(host, 2)
    for number, cpus in enumerate(lists, start=40):
        host.write(f"sys/devices/pci0000:00/0000:01:00.0/msi_irqs/{number}", "msix\n")
        host.write(f"proc/irq/{number}/effective_affinity_list", f"{cpus}\n")

    assert judged(host, block)["interrupts"] == (value, judgement)


@pytest.mark.parametrize(
    ("policy", "judgement"),
    [("max_performance", "good"), ("med_power_with_dipm", "affects results"), ("keep_firmware_settings", "noted")],
)
def test_a_sata_link_with_power_saving(host: FakeHost, policy: str, judgement: str) -> None:
    """Each disk has its own host adapter."""
    block = host.disk("sdx")
    host.write("sys/class/scsi_host/host0/link_power_management_policy", f"{policy}\n")

    assert judged(host, block)["SATA power saving"] == (policy, judgement)
    link = find("SATA power saving", "host0", host.root)
    assert link is not None
    assert link.accepts(policy) == (policy != "keep_firmware_settings")  # which the kernel accepts from nobody


def test_other_load() -> None:
    """Other programs may use a tenth of all processors."""
    before, after = CpuTimes(100, 1000, 0), CpuTimes(110, 1100, 0)

    assert processors.load(CpuTimes(0, 0, 0), CpuTimes(11, 100, 0)).setting.judgement == "affects results"
    assert processors.load(before, after).setting.value == "10 % of all CPUs"
    assert processors.load(before, after).setting.judgement == "good"
    assert processors.load(before, before).setting.judgement == "unknown"


def test_io_of_others_is_detected() -> None:
    """I/Os that completed during the check, or are in flight, count."""
    assert queue.other_io((5, 0), (5, 0)).setting.judgement == "good"
    assert queue.other_io((5, 0), (6, 0)).setting.value == "1 I/O completed, 0 outstanding"
    assert queue.other_io(None, (6, 0)).setting.judgement == "unknown"


@pytest.mark.parametrize(
    ("text", "listed"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("5", {5}), ("x-3", set()), ("0-99999999", set()), ("\u00b2", set())],
)
def test_lists_of_the_kernel(text: str, listed: set[int]) -> None:
    """Ranges and numbers are parsed; invalid parts are ignored."""
    assert numbers(text) == listed


@pytest.mark.parametrize("junk", [b"", b"\xff\xfe\n", b"9" * 5000, b"-1\n", b"[", b"a b c\n" * 300, b"0-\n,,-"])
def test_malformed_files_are_no_failure(host: FakeHost, junk: bytes) -> None:
    """Any content of the kernel's files gives findings, and nothing fails."""
    block = tuned(host)
    nodes(host, 2)
    for name in ("proc/cpuinfo", "proc/stat", f"{CPU}/vulnerabilities/mds", f"{CPU}/intel_pstate/no_turbo"):
        host.write(name, "")
    for state in ("name", "latency", "disable"):
        host.write(f"{CPU}/cpu0/cpuidle/state1/{state}", "")
    host.write("proc/irq/40/smp_affinity_list", "")
    host.write("sys/devices/pci0000:00/0000:01:00.0/msi_irqs/40", "")
    for path in host.root.rglob("*"):
        if path.is_file() and path.name != "dev":
            path.write_bytes(junk)

    assert tuning.changes(findings(host, block).values(), host.root) is not None


# -- --tune ----------------------------------------------------------------------------------------------------------


def tuned(host: FakeHost) -> Path:
    """Make a host with many settings to change; return its drive."""
    for number in range(2):
        host.write(f"{POLICY}{number}/scaling_governor", "powersave")
        host.write(f"{POLICY}{number}/energy_performance_preference", "balance_power")
    host.write("sys/module/pcie_aspm/parameters/policy", "powersave")
    block = host.nvme()
    for name, text in (("scheduler", "mq-deadline"), ("nr_requests", "256"), ("nomerges", "0")):
        (block / "queue" / name).write_text(text)
    (block / "queue/max_sectors_kb").write_text("128")
    (block / "queue/max_hw_sectors_kb").write_text("2048")
    return block


def test_relevant_settings_are_applied_and_restored(host: FakeHost, tmp_path: Path) -> None:
    """Those that --tune sets get the desired value, are reported with the old one, and are restored exactly."""
    block = tuned(host)
    before, listed = sysfs(host), tuning.inspect(block, root=host.root, sample_seconds=0)
    changes = tuning.changes(listed, host.root)
    with applied(changes, tmp_path, find=partial(find, root=host.root), report=print, root=host.root) as status:
        now = tuning.inspect(block, root=host.root, sample_seconds=0)
        reported = {
            to_host_setting.name: to_host_setting
            for to_host_setting in tuning.to_host_settings(now, listed, status, {})
        }
    names = ("governor", "energy preference", "scheduler", "merging", "largest I/O", "PCIe power saving")

    assert {item.change.setting.kind for item in status} == {*names, "requests"}
    assert {reported[name].judgement for name in names} == {"good"}
    assert [reported[name].before for name in names] == [
        "powersave",
        "balance_power",
        "mq-deadline",
        "on",
        "128 KiB",
        "powersave",
    ]
    assert {text.before for name, text in reported.items() if name not in names} == {""}
    assert sysfs(host) == before


def sysfs(host: FakeHost) -> dict[str, str]:
    """Return every file of a host's sysfs."""
    return {str(path): path.read_text() for path in (host.root / "sys").rglob("*") if path.is_file()}


def test_the_reason_of_a_failed_setting_is_reported() -> None:
    """The reason of the judgement has the kernel's message; a setting that is already good has none."""
    bad = HostSetting(name="scheduler", value="kyber", judgement="affects results", recommended="none", reason="slow")
    good = HostSetting(name="merging", value="off", judgement="good", reason="exact")
    reported = tuning.to_host_settings(
        [Finding(setting=bad), Finding(setting=good)], [], [], {"scheduler": "busy", "merging": "odd"}
    )

    assert [text.reason for text in reported] == ["slow; it could not be set: busy", "exact"]


def test_the_suite_runs_on_the_cpus_near_the_drive(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """It and its fio use the processors of the drive's node; both limits end with the block."""
    block = host.nvme()
    nodes(host, 2)
    host.write("dev/cpu_dma_latency", "1234")
    allowed: list[Any] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: allowed.append(set(cpus)))
    with tuning.low_latency(block, host.root) as troubles:
        assert allowed == [set(range(8, 16))]
        limit = (host.root / "dev/cpu_dma_latency").read_bytes()
        assert struct.unpack("=i", limit) == (processors.MAX_WAKE_US,)
    assert allowed == [set(range(8, 16)), set(range(16))]
    assert troubles == {}
    with tuning.low_latency(None, host.root / "nowhere") as troubles:
        assert troubles == {"idle states": "/dev/cpu_dma_latency: No such file or directory"}


def test_the_limit_of_idle_states_is_detected(host: FakeHost) -> None:
    """Deeper states exist, but are not entered."""
    for number, latency in enumerate((0, 2, 133)):
        for name, text in (("name", f"C{number}"), ("latency", str(latency))):
            host.write(f"{CPU}/cpu0/cpuidle/state{number}/{name}", text)
    (host.root / "dev").mkdir(exist_ok=True)
    (host.root / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", 10))

    assert judged(host)["idle states"] == ("up to 2 us to wake up (C1, limited to 10 us)", "good")


def test_relevant_settings_are_warnings_of_the_run() -> None:
    """Each has its value, the recommended one, and the reason; other settings have none."""
    (warning,) = host_warnings(samples.SETTINGS)

    assert warning.what == "host: scheduler"
    assert warning.detail.startswith("mq-deadline (recommended: none): a scheduler sorts")


def test_settings_changed_between_stop_and_resume_are_reported() -> None:
    """Volatile settings, and those without an earlier value, are ignored."""
    before = samples.platform()
    changed = [
        dataclasses.replace(item, value="kyber") if item.name == "scheduler" else item for item in samples.SETTINGS
    ]
    new = [HostSetting(name=name, value="9", judgement="good", reason="") for name in ("other load", "requests")]
    now = samples.platform(settings=(*changed, *new))

    (line,) = platform_changes(before, now)
    assert line.startswith("scheduler of the host was mq-deadline, and is kyber (recommended: none): a scheduler sorts")
    assert list(platform_changes(before, before)) == []


def test_a_report_has_relevant_settings_first() -> None:
    """The page Provenance has a table of them, and a line of unknown settings; a simulation has none."""
    (table,) = (
        block
        for block in provenance(samples.iops_result()).blocks
        if isinstance(block, Table) and block.title == "Host settings"
    )
    assert [row[:4] for row in table.rows] == [
        ("scheduler", "mq-deadline", "affects results", "none"),
        ("governor", "performance (was schedutil)", "good", ""),
        ("turbo", "\N{EN DASH}", "unknown", ""),
    ]
    without = provenance(samples.iops_result(host=samples.platform(settings=())))
    assert all(item.title != "Host settings" for item in without.blocks if isinstance(item, Table))


# -- a real device, and the verb -------------------------------------------------------------------------------------


@pytest.mark.root
@pytest.mark.device
def test_a_loop_devices_queue_is_tuned_and_restored(tmp_path: Path) -> None:
    """The number of requests, which somebody had changed, changes with the scheduler, and is restored too."""
    from snia_pts.lab.device.target_claim import claim_target as hold_target

    with loop_device(tmp_path / "x.img", 4 * MIB) as device:
        folder = Path("/sys/block") / device.name / "queue"
        if "mq-deadline" not in (folder / "scheduler").read_text():
            pytest.skip("this kernel has no mq-deadline")
        for name, text in (("scheduler", "mq-deadline"), ("nr_requests", "64")):
            (folder / name).write_text(text)
        listed = queue_of(folder)
        run = tmp_path / "run"
        (run / "evidence").mkdir(parents=True)
        with (
            hold_target(device, size_bytes=None, overwrite=False, discard_data=True) as target,
            conditions_applied(
                target, run, run / "evidence", write_cache="disabled", keep=False, tune=True, report=print
            ) as state,
        ):
            reported = {setting.name: setting for setting in state.settings}
            assert (reported["scheduler"].value, reported["scheduler"].before) == ("none", "mq-deadline")
            assert (reported["merging"].value, reported["merging"].before) == ("off", "on")
            assert state.apply_to(target.dut).write_cache_source.startswith("as reported by the kernel; a loop device")
        assert queue_of(folder) == listed
        (folder / "scheduler").write_text("none")


def queue_of(folder: Path) -> dict[str, str]:
    """Return the kernel's values of a queue's settings."""
    return {name: (folder / name).read_text() for name in ("scheduler", "nr_requests", "nomerges", "max_sectors_kb")}


def test_the_verb_lists_this_host(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints JSON for programs, and one row per setting in a pipe."""
    assert main(["host", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["format"], output["target"]) == (1, None)
    assert {"governor", "swap", "other load"} <= {setting["name"] for setting in output["settings"]}
    assert main(["host"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["judgement", "setting", "value", "recommended", "reason"]
    assert [row[1] for row in rows[1:]] == [item["name"] for item in output["settings"]]


def test_a_terminal_shows_a_reason_below_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines fit the width; settings that are not good have a recommended value."""
    lines = list(
        verb.setting_lines(
            [
                HostSetting(
                    name="scheduler",
                    value="kyber",
                    judgement="affects results",
                    recommended="none",
                    reason="word " * 30,
                ),
                HostSetting(name="turbo", value="on", judgement="good", recommended="on", reason="fast"),
            ],
            60,
        )
    )
    assert lines[0] == "affects results  scheduler  kyber; recommended: none"
    assert max(map(len, lines)) <= 60
    assert "good             turbo      on" in lines
    assert lines[-1] == "1 setting that affects results"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["host", "/nowhere"], 6, "/nowhere does not exist"),
        (["host", "--restore", "/nowhere"], 14, "there is no such folder"),
        (["host", "--restore", "--json"], 2, "--restore takes the folder of a run"),
        (["iops", "sim:enterprise-nvme", "--tune"], 2, "--tune is for real targets"),
        (["iops", "sim:enterprise-nvme", "--keep-write-cache"], 2, "--keep-write-cache is for real targets"),
    ],
)
def test_invalid_uses_of_the_verb_and_options_are_refused(
    argv: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its message and exit code."""
    assert main(argv) == code
    assert text in capsys.readouterr().err


def test_restore_reports_that_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without a restore file has nothing to restore."""
    monkeypatch.setattr(
        verb, "restore_settings", lambda folder: () if folder == tmp_path else pytest.fail("another folder")
    )

    assert main(["host", "--restore", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing to restore\n"
