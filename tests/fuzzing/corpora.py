"""Valid inputs of every kind, short ones: what hostile inputs are made of."""

from __future__ import annotations

import gzip
import io
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from snia_pts.lab.simulated.laboratory import SimulatedLaboratory
from snia_pts.lab.simulated.preset import PRESETS, read_preset, simulated_dut
from snia_pts.model.health import Health, HealthText, HealthValue
from snia_pts.model.measurement import Measurement, Outcome, Sample
from snia_pts.profiles.reader import builtin_profiles, profile_path
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import inspect_run
from snia_pts.results.interruption import ResumePolicy
from snia_pts.runner.session import resume, run
from snia_pts.spec.reader import SPECS, read_specification
from tests import samples
from tests.fio_files.make import HERE as FIO_FILES
from tests.strategies import TESTS, block_statistics, toml_document, vitals
from tests.tkperf_files import hdd, ssd

from .forms import FILE_END, encoded

BEGAN = datetime(2026, 11, 3, 12, tzinfo=UTC)
#: Seven characters of a line of the journal before its entry, the checksum, and the text between.
_ENTRY = len(b'{"crc32":"01234567","entry":')
_WINDOW = ("steady_state.window_rounds", 2)
_SETTLING = (("settling.window_rounds", 2), ("settling.stride_samples", 1))
_DEMAND = (
    _WINDOW,
    *_SETTLING,
    ("conditioning.maximum", 2),
    ("demand.maximum", 2),
    ("demand.thread_counts", [2, 1]),
    ("demand.queue_depths", [2, 1]),
    ("operating_points.pre_write_seconds", 60),
    ("steady_state.tracked", [{"metric": "iops", "thread_count": 2, "queue_depth": 2}]),
)
_GROUPS = [
    {
        "name": f"AG {number}",
        "access": access,
        "read_percent": 0,
        "block_size_kib": size,
        "seconds": 120,
        "thread_count": 1,
        "queue_depth": 32,
    }
    for number, (access, size) in enumerate((("SEQ", 1024), ("RND", 8), ("SEQ", 1024)), start=1)
]
#: Two rounds of a few points, for each test.
SHORT: Mapping[str, Sequence[tuple[str, Any]]] = {
    "iops": (
        _WINDOW,
        ("rounds.maximum", 2),
        ("rounds.read_percents", [65, 0]),
        ("rounds.block_sizes_kib", [4]),
        ("steady_state.tracked", [{"metric": "iops", "read_percent": 0, "block_size_kib": 4}]),
    ),
    "throughput": (_WINDOW, ("rounds.maximum", 2), ("rounds.block_sizes_kib", [128])),
    "latency": (
        _WINDOW,
        ("rounds.maximum", 2),
        ("rounds.read_percents", [0]),
        ("rounds.block_sizes_kib", [4]),
    ),
    "wsat": (*_SETTLING, ("saturation.seconds", 180)),
    "hir": (
        *_SETTLING,
        ("conditioning.maximum", 2),
        ("wait_states.cycles", 1),
        ("wait_states.idle_seconds", [5]),
        ("wait_states.access_c_seconds", 10),
    ),
    "xsr": (("groups.sequence", _GROUPS),),
    "composite": _DEMAND,
    "dirth": _DEMAND,
}


_RESUMED: Sequence[tuple[str, ResumePolicy]] = (
    ("iops", "rule"),
    ("wsat", "continue"),
    ("dirth", "rule"),
    ("hir", "purge"),
)


def _laboratory(folder: RunFolder) -> SimulatedLaboratory:
    return SimulatedLaboratory(read_preset("enterprise-nvme"), seed=1, evidence=folder.evidence, started=BEGAN)


def stored(test: str, folder: RunFolder) -> None:
    """Run a short test on a simulated drive into ``folder``; write saturation on one that reports its health."""
    specification = read_specification(test, "2.0.2", "enterprise", overrides=SHORT[test])
    device = simulated_dut("enterprise-nvme", read_preset("enterprise-nvme"))
    facts = samples.run_facts(specification.spec, device=device, found=specification.deviations)
    laboratory = _laboratory(folder)
    if test != "wsat":
        run(facts, laboratory.perform, folder, lambda _: None, now=laboratory.now, durable=False)
        return
    run(
        replace(facts, health=_health(10**12)),
        lambda step: map(_seen, laboratory.perform(step)),
        folder,
        lambda _: None,
        now=laboratory.now,
        read_health=lambda: _health(5 * 10**12),
        durable=False,
    )


def _seen(outcome: Outcome) -> Outcome:
    """Let drive and host tell of themselves in an outcome."""
    if not isinstance(outcome, Measurement | Sample):
        return outcome
    seen = vitals(
        cpu_percent=9.5, busiest_cpu_percent=40.0, block=block_statistics(), celsius=41.85, throttlings=1, link_errors=0
    )
    return replace(outcome, telemetry=seen)


def _health(written_bytes: float) -> Health:
    """Return the health figures of a drive."""
    figures = (
        HealthValue(name="Data Units Written", value=written_bytes, unit="bytes", source="SMART", role="host written"),
        HealthValue(
            name="Physical Media Units Written",
            value=3 * written_bytes,
            unit="bytes",
            source="OCP log C0h",
            role="media written",
        ),
        HealthValue(
            name="5 Reallocated_Sector_Ct", value=written_bytes // 10**12, unit="", source="SMART", role="fault"
        ),
    )
    return Health(
        read_at=BEGAN.isoformat(),
        figures=figures,
        unread=("nvme: no",),
        evidence=("00000-health-ocp.process.json",),
        texts=(HealthText(name="DSSD Firmware Build Label", text="release", source="OCP log C0h"),),
    )


def _resumed(journal: bytes, policy: ResumePolicy, folder: RunFolder) -> None:
    """Let the second half of a run be lost, and resume it in ``folder``."""
    lines = journal.splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    laboratory = _laboratory(folder)
    again = ("snia-pts", "resume")
    resume(
        inspect_run(folder, policy),
        laboratory,
        folder,
        lambda _: None,
        command_line=again,
        now=laboratory.now,
        durable=False,
    )


@cache
def _records() -> tuple[tuple[bytes, bytes], ...]:
    """Journal and result.xml of a short run of every test, and of some that were resumed."""
    with TemporaryDirectory() as place:
        folders = {test: RunFolder.create(Path(place) / test) for test in TESTS}
        for test, folder in folders.items():
            stored(test, folder)
        for test, policy in _RESUMED:
            folder = folders[f"{test} {policy}"] = RunFolder.create(Path(place) / f"{test} {policy}")
            _resumed(folders[test].journal.read_bytes(), policy, folder)
        return tuple((folder.journal.read_bytes(), folder.result.read_bytes()) for folder in folders.values())


def journals() -> tuple[bytes, ...]:
    """Journals, a short run of every test, and some that were resumed."""
    return tuple(journal for journal, _ in _records())


def entries() -> tuple[bytes, ...]:
    """The entries of these journals, a JSON object a line, without their checksums."""
    return tuple(b"".join(line[_ENTRY:-1] + b"\n" for line in journal.splitlines()) for journal in journals())


def results() -> tuple[bytes, ...]:
    """result.xml of these runs."""
    return tuple(result for _, result in _records())


@cache
def specifications() -> tuple[bytes, ...]:
    """The standard's specification files."""
    return tuple(path.read_bytes() for path in sorted(SPECS.glob("*.toml")))


@cache
def short_specifications() -> tuple[bytes, ...]:
    """Return the same with few rounds and samples, because planning takes time for each."""
    return tuple(encoded(toml_document(_shortened(tomllib.loads(data.decode())))) for data in specifications())


def _shortened(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    short = {"maximum": 6, "cycles": 1, "stride_samples": 1, "access_c_seconds": 10, "seconds": 600}
    return {
        key: {**inner, "value": short[key]} if key in short and isinstance(inner, dict) else _shortened(inner)
        for key, inner in value.items()
    }


@cache
def limits() -> tuple[bytes, ...]:
    """A file of limits, with every key."""
    figure = 'test = "latency"\nmetric = "iops"\nat = "histogram"\nunit = "IOPS"\n'
    most, least = "maximum = 5.0\ntolerance_percent = 1.5\n", "minimum = 1\n"
    return (f"format = 1\n[[limit]]\n{figure}{most}[[limit]]\n{figure}{least}".encode(),)


@cache
def profiles() -> tuple[bytes, ...]:
    """A workload profile with every key, then those that come with the suite."""
    workload = (
        '[[workload]]\nname = "a"\naccess = "SEQ"\nread_percent = 100\nblock_size = "4 KiB"\nthread_count = 1\n'
        'queue_depth = 1\nrange = "8 MiB"\norder = "stride"\nstride_blocks = 3\nzones = 2\nfresh = true\ncold = true\n'
        'fio = { ioengine = "psync", direct = 0, fdatasync = 1 }\n'
        '[[workload]]\nname = "b"\naccess = "RND"\nread_percent = 30\nblock_size = "8K"\nseconds = 3\n'
        "ramp_seconds = 1\n"
    )
    axes = (
        '[[axis]]\nkey = "host.scheduler"\nvalues = ["none", "bfq"]\n'
        '[[axis]]\nkey = "queue_depth"\nvalues = [1, 8]\nworkloads = ["b"]\n'
    )
    limit = (
        '[[limit]]\nmetric = "iops"\nat = "b, Q8, scheduler bfq"\nunit = "IOPS"\nminimum = 1\ntolerance_percent = 5\n'
    )
    head = (
        'format = 1\nname = "p"\ntitle = "P"\ndescription = "p"\nsource = "s"\nrepeats = 2\npurge = true\nfill = true\n'
    )
    return (
        f"{head}{workload}{axes}{limit}".encode(),
        *(profile_path(name).read_bytes() for name in builtin_profiles()),
    )


def axes() -> tuple[bytes, ...]:
    """What --axis says."""
    return (b"queue_depth=1,4, 16", b"seconds=0.5", b"block_size=4096,64 KiB", b"fio.thinktime=5", b"host.governor=a,b")


def abouts() -> tuple[bytes, ...]:
    """A file of what people say, with every key."""
    words = "".join(f'{key} = "{key}"\n' for key in ("operator", "vendor", "nand_type", "hba"))
    return (f'format = 1\n{words}logo = "logo.png"\nnotes = ["one", "two"]\n'.encode(),)


@cache
def logo() -> bytes:
    """A picture."""
    output = io.BytesIO()
    Image.new("P", (4, 2)).save(output, "PNG")
    return output.getvalue()


def presets() -> tuple[bytes, ...]:
    """The simulated drives."""
    return tuple(path.read_bytes() for path in sorted(PRESETS.glob("*.toml")))


def overrides() -> tuple[bytes, ...]:
    """What --set says, an override a line, after the name of the test."""
    return tuple(
        "\n".join([test, *(f"{key}={json.dumps(value).replace(': ', ' = ')}" for key, value in changes)]).encode()
        for test, changes in SHORT.items()
    )


def suites() -> tuple[bytes, ...]:
    """suite.json."""
    return tuple(json.dumps(suite_document(TESTS[:count])).encode() for count in (1, 4, 8))


def suite_document(tests: Sequence[str]) -> dict[str, object]:
    """Return the suite.json of these tests of a simulated drive."""
    options = [{"test": test, "target": "sim:client-qlc"} for test in tests]
    return {"format": 1, "tests": list(tests), "options": options}


@cache
def fio_files() -> tuple[bytes, ...]:
    """Results of fio: JSON with and without bins, and its normal output."""
    names = ("plain-json", "stonewalls", "mix-70", "unified", "client", "fsync", "threads-json", "normal")
    return tuple(gzip.decompress((FIO_FILES / f"{name}.gz").read_bytes()) for name in names)


@cache
def tkperf_files() -> tuple[bytes, ...]:
    """Result files of TKperf, of all kinds and versions."""
    kinds = [(kind, version) for kind in ("iops", "lat", "tp", "writesat") for version in ("2.2", "1.1")]
    short = [ssd(kind, version=version, rounds=5) for kind, version in kinds]
    return (
        *short,
        ssd("iops", "lat", sector=4096, rounds=5),
        ssd("tp", sector=4096, rounds=5),
        hdd("tp", 3),
        hdd("iops", 2),
    )


def _side(ios: int, runtime_ms: int) -> dict[str, Any]:
    """Return fio's figures of the reads, or the writes, with most of its other members."""
    mean = 2000 - 1000 * (ios - ios // 2) / ios if ios else 0.0
    times = {
        "min": 1000,
        "max": 2003,
        "mean": mean,
        "stddev": 700.25,
        "N": ios,
        "percentile": {"99.000000": 1800, "99.900000": 2000},
        "bins": {"1004": ios - ios // 2, "2008": ios // 2},
    }
    return {
        "io_bytes": 4096 * ios,
        "io_kbytes": 4 * ios,
        "bw_bytes": 4096 * 1000 * ios // runtime_ms,
        "bw": 40 * ios,
        "iops": 1000 * ios / runtime_ms,
        "runtime": runtime_ms if ios else 0,
        "total_ios": ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0},
        "lat_ns": times,
        "bw_samples": 0,
    }


def _answer(reads: int, writes: int, runtime_ms: int = 100) -> bytes:
    job = {
        "jobname": "rnd0",
        "groupid": 0,
        "error": 0,
        "eta": 0,
        "elapsed": 1,
        "job options": {"rw": "randrw"},
        "read": _side(reads, runtime_ms),
        "write": _side(writes, runtime_ms),
        "job_runtime": runtime_ms,
        "usr_cpu": 1.5,
        "sys_cpu": 2.5,
        "ctx": 100,
        "majf": 0,
        "iodepth_level": {"1": 0.1, "4": 99.9, ">=64": 0.0},
    }
    document = {"fio version": "fio-3.33", "timestamp": 1_800_000_000, "global options": {"direct": "1"}, "jobs": [job]}
    return json.dumps(document, indent=2).encode() + b"\n"


def answers() -> tuple[bytes, ...]:
    """What fio says to ``targets.ASKED``."""
    return (
        _answer(650, 350),
        b"note: both iodepth >= 1 and synchronous\n" + _answer(650, 350),
        _answer(649, 351, 99),
        _answer(650, 350).replace(b'"error": 0', b'"error": 5'),
    )


def streams() -> tuple[bytes, ...]:
    """Running totals, and the final answer."""
    return (
        b"".join(_answer(65 * step, 35 * step, 10 * step) for step in (1, 4, 7, 10)),
        _answer(300, 200, 50) + b"fio: a line of text\n" + _answer(650, 350),
    )


def _files(*contents: str) -> bytes:
    return FILE_END.join(content.encode() for content in contents)


#: The attributes of a block device that ``targets.device`` lays out, in this order; the last is udev's.
ATTRIBUTES = (
    "size",
    "dev",
    "ro",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/rotational",
    "queue/write_cache",
    "queue/discard_max_bytes",
    "device/vendor",
    "device/model",
    "device/serial",
    "device/firmware_rev",
    "device/rev",
    "device/vpd_pg80",
    "loop/backing_file",
    "udev",
)


def devices() -> tuple[bytes, ...]:
    """What sysfs and udev say of an NVMe, a SATA and a loop device."""
    return (
        _files(
            "1875385008\n",
            "259:0\n",
            "0\n",
            "512\n",
            "4096\n",
            "0\n",
            "write back\n",
            "2199023255040\n",
            "",
            "SAMSUNG MZQL2960HCJR-00A07              \n",
            "S64HNE0R500001      \n",
            "GDC5302Q\n",
        ),
        _files(
            "1875385008\n",
            "8:16\n",
            "0\n",
            "512\n",
            "4096\n",
            "0\n",
            "write through\n",
            "2147450880\n",
            "ATA     \n",
            "INTEL SSDSC2KB96\n",
            "",
            "",
            "0132\n",
            "\0\x80\0\x14BTYF9382047Q960CGN  \0",
            "",
            "E:ID_MODEL=x\nE:ID_SERIAL=x_y\nE:ID_SERIAL_SHORT=Z9 \n",
        ),
        _files("2048\n", "7:0\n", "1\n", "4096\n", "", "1\n", "", "0\n", "", "", "", "", "", "", "/srv/x.img\n"),
    )


def contents() -> tuple[bytes, ...]:
    """Return the output of wipefs for an empty drive, one with a label, and a member of a pool."""
    rows = (
        {"device": "sdx", "type": "gpt", "usage": "partition-table", "label": None},
        {"device": "sdx1", "type": "ext4", "usage": "filesystem", "label": "photos 2019"},
        {"device": "sdx1", "type": "zfs_member", "usage": "raid", "label": "tank"},
    )
    return tuple(json.dumps({"signatures": rows[:count]}, indent=1).encode() for count in (0, 1, 2, 3))


#: The files that ``targets.mounts`` lays out, in this order.
TABLES = ("proc/self/mountinfo", "proc/1/mountinfo", "proc/swaps", "proc/locks", "sys/block/loop0/loop/backing_file")


def mounts() -> tuple[bytes, ...]:
    """Mount tables and swap of a host that does not use the device, and of two that do."""
    root = "22 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    here = "97 22 8:16 / /mnt/a\\040b rw,relatime shared:9 master:3 - xfs /dev/sdx rw,attr2\n"
    proc = "24 22 0:22 / /proc rw,nosuid shared:12 - proc proc rw\n"
    swaps = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    locks = "1: POSIX  ADVISORY  WRITE 812 fd:01:131 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 00:05:123 0 EOF\n"
    return (
        _files(root + proc, root, f"{swaps}/swap\\040file                file\t\t2097148\t\t0\t\t-2\n", locks),
        _files(root + proc + here, root, swaps, "", "/srv/x.img\n"),
        _files(root, root, f"{swaps}/dev/sdx                                partition\t2097148\t0\t-2\n", locks),
        _files(root, root, "", "", "/dev/sdx\n"),
    )


#: What ``targets.host`` lays out, in this order.
HOST_FILES = (
    "proc/cpuinfo",
    "proc/meminfo",
    "etc/os-release",
    "sys/class/dmi/id/board_vendor",
    "sys/class/dmi/id/board_name",
)


def hosts() -> tuple[bytes, ...]:
    """Return the files in which a host describes itself."""
    return (
        _files(
            "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz\nflags\t\t: fpu vme\n",
            "MemTotal:       24618976 kB\nMemFree:        22000000 kB\n",
            'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n',
            "Supermicro\n",
            "X12\n",
        ),
    )


#: What ``targets.counters`` lays out, in this order: for the first reading, and again for the second.
COUNTERS = (
    "proc/stat",
    "sys/devices/0000:01:00.0/nvme0n1/stat",
    "sys/devices/0000:01:00.0/nvme0n1/queue/iostats",
    "sys/devices/0000:01:00.0/nvme0n1/device/hwmon1/temp1_input",
    "sys/devices/0000:01:00.0/nvme0n1/device/hwmon1/name",
    "sys/devices/0000:01:00.0/aer_dev_correctable",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
)


def counters() -> tuple[bytes, ...]:
    """What the kernel counts of a drive and its host, twice."""
    first = (
        "cpu  10 0 10 100 5 0 0 0 0 0\ncpu0 10 0 10 100 5 0 0 0 0 0\nintr 1 2\n",
        "100 0 800 5 10 0 80 5 0 10 10 0 0 0 0 0 0\n",
        "1\n",
        "41850\n",
        "nvme\n",
        "RxErr 0\nTOTAL_ERR_COR 0\n",
        "3\n",
    )
    second = (
        "cpu  60 0 30 130 5 0 0 0 0 0\ncpu0 60 0 30 130 5 0 0 0 0 0\nintr 1 2\n",
        "200 0 1600 9 90 0 720 9 3 900 9000 0 0 0 0 0 0\n",
        "1\n",
        "55000\n",
        "nvme\n",
        "RxErr 2\nTOTAL_ERR_COR 2\n",
        "4\n",
    )
    return (_files(*first, *second),)


def logs() -> tuple[bytes, ...]:
    """What drives tell of their lives, by nvme-cli and smartctl."""
    smart = {
        "critical_warning": 0,
        "temperature": 311,
        "avail_spare": 100,
        "percent_used": 2,
        "data_units_written": 2000,
        "media_errors": 0,
        "power_on_hours": 900,
        "thm_temp1_trans_count": 0,
    }
    table = [
        {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 0, "string": "0 (1 2)"}},
        {"id": 249, "name": "NAND_Writes_1GiB", "raw": {"value": 25, "string": "25"}},
    ]
    statistics = [{"table": [{"name": "Logical Sectors Written", "value": 2048, "flags": {"valid": True}}]}]
    ata = {
        "smart_status": {"passed": True},
        "temperature": {"current": 31},
        "power_on_time": {"hours": 77},
        "ata_smart_attributes": {"table": table},
        "ata_device_statistics": {"pages": statistics},
    }
    sas = {
        "scsi_error_counter_log": {"write": {"gigabytes_processed": "3.250", "total_uncorrected_errors": 0}},
        "scsi_grown_defect_list": 2,
    }
    return tuple(json.dumps(item).encode() for item in (smart, ata, sas))


def sizes() -> tuple[bytes, ...]:
    """Return sizes, seeds, speeds and versions, as they are typed or reported."""
    return (b"4K", b"1.5 GiB", b"960GB", b"512", b"4711", b"500", b"1e3", b"0.5", b"fio-3.33", b"fio-3.41-12-gabc")


def command_lines() -> tuple[bytes, ...]:
    """Arguments of the verbs that touch no device; ``run`` and ``own.toml`` are there when they are tried."""
    lines = (
        "iops --plan sim:hdd --set rounds.maximum=7 --class client --pts 1.1",
        "iops --plan drive.img --size 1G --assume 500 --json --seed 4711 --operator J.",
        "latency --plan sim:optane --point-seconds 1 --max-rounds 5 --queue-depth 1 --thread-count 1",
        "wsat --plan drive.img --size 64M --stimulus oltp --purge none --engine libaio --overwrite",
        "hir --plan sim:client-qlc --set wait_states.cycles=3 --set wait_states.idle_seconds=[1,2] --json",
        "xsr --plan sim:enterprise-sas --run-dir x --progress none",
        "dirth --plan sim:enterprise-sata --set demand.order=qd-major --refill-buffers",
        "throughput --plan sim:./drive.toml --spec own.toml --serial S1",
        "all --plan sim:enterprise-nvme --advanced --set hir.wait_states.cycles=1 --set composite.demand.maximum=6 "
        "--set wsat.saturation.seconds=600 --set dirth.demand.maximum=6",
        "assess run",
        "assess run --json",
        "assess suite",
        "--help",
        "--version",
        "report",
        "report nowhere",
    )
    return tuple(b"\0".join(line.encode().split()) for line in lines)


def texts() -> tuple[bytes, ...]:
    """What a device, a host and an operator say."""
    return (
        b"SAMSUNG MZQL2960HCJR-00A07",
        b"S64HNE0R500001",
        "J. Doe, Prüfstand 7".encode(),
        b"/dev/disk/by-id/ata-X_Y",
        b'5 * 3 = 15 | a_b <c> & "d" `e`_ 1. f: -g :h: \\i $j$ {k} %l',
        b".. raw:: html\n\n   <b>x</b>\n",
    )
