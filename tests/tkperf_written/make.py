"""Make the files of this folder with TKperf: ``python -m tests.tkperf_written.make CHECKOUT``.

TKperf runs its own rounds, judges steady state and writes the file.  Only fio is replaced: its terse output has random
numbers, around a level for each block size and R/W mix, which rise by a percentage in each call.
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tkperf_files import HDPARM, NVME

HERE = Path(__file__).parent
_HDD = "Model Number:       WDC WD2002FAEX\nSerial Number:      WD-W000\nFirmware Revision:  05.01D05\n"
_RAID = "/dev/md0:\n        Version : 1.2\n     Raid Level : raid5\n   Raid Devices : 4\n"
_SECTORS = "Device Logical Sector Size: {}\nDevice Physical Sector Size: 4096"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The device facts and options that TKperf gets, and how much the numbers scatter and rise, in percent."""

    description: str = HDPARM
    mode: str = "ssd"
    sector: int = 512
    jobs: int = 1
    depth: int = 16
    seconds: int = 60
    options: Sequence[str] | None = None
    features: str | None = None
    scatter: float = 2.0
    rise: float = 0.0


CASES = {
    "plain": Case(),
    "four-jobs": Case(jobs=4, depth=32, options=["refill_buffers"]),
    "sectors-4096": Case(sector=4096),
    "never-steady": Case(scatter=60.0),
    "rising": Case(rise=0.05),
    "nvme": Case(description=NVME, jobs=2, depth=64, seconds=30),
    "features": Case(description=NVME, features='Über-provisioning <7 %> & "PLP"\n\ttab \N{SNOWMAN}', seconds=10),
    "raid": Case(description=_RAID, mode="raid", jobs=8, options=["refill_buffers", "norandommap"]),
    "disk": Case(description=_HDD, mode="hdd", depth=1),
    "disk-deep": Case(description=_HDD, mode="hdd", depth=32, seconds=5, scatter=30.0, options=["refill_buffers"]),
}


def _fio(case: Case, chance: random.Random) -> Any:
    """Return a replacement of TKperf's function that starts fio."""
    calls = 0

    def start(job: Any) -> tuple[bool, str]:
        nonlocal calls
        calls += 1
        options = job.getKVArgs()
        level = random.Random(f"{options.get('bs')} {options.get('rwmixread')}").uniform(100, 90_000)
        fields = ["0"] * 130
        for place in (6, 7, 46, 47, 48):  # MB/s and IOPS of reads, written KiB, MB/s and IOPS of writes
            rate = level * (1 + chance.uniform(-1, 1) * case.scatter / 100) * (1 + case.rise / 100) ** calls
            fields[place] = str(int(rate))
        for place in (37, 78):  # minimum, maximum, mean and standard deviation of response times in us
            least, mean = chance.uniform(5, 50), chance.uniform(60, 900)
            fields[place : place + 4] = [f"{least:.6f}", f"{mean * chance.uniform(2, 40):.6f}", f"{mean:.6f}", "1.0"]
        return True, ";".join(fields)

    return start


def make(name: str, case: Case) -> bytes:
    """Return the file that TKperf writes for a case."""
    from fio.FioJob import FioJob  # type: ignore[import-not-found]
    from perfTest import Devices, PerfTest  # type: ignore[import-not-found]
    from perfTest.Options import Options  # type: ignore[import-not-found]

    FioJob.start = _fio(case, random.Random(name))
    PerfTest.PerfTest.collOSInfos = lambda test: None
    device = (Devices.HDD if case.mode == "hdd" else Devices.SSD)(case.mode, "/dev/sdx", name)
    interface = f"Device Interface: {'nvme' if case.description == NVME else 'sas'}\n"
    device._Device__devinfo = case.description + interface + _SECTORS.format(case.sector)
    device._Device__featureMatrix = case.features
    device._Device__devlogsectorsizeb = case.sector
    device._Device__devsizeb, device._Device__devsizekb = 300_000_000, 300_000
    type(device).secureErase = lambda device: None
    kind = PerfTest.HddPerfTest if case.mode == "hdd" else PerfTest.SsdPerfTest
    test = kind(name, device, Options(case.jobs, case.depth, case.seconds, case.options))
    test.setTestDate("2026-11-27")
    test.setOSInfo("kernel", "6.1.0-41-amd64\n")
    test.setOSInfo("lsb", "Description:\tDebian GNU/Linux 12 (bookworm)\n")
    command = f"tkperf {case.mode} {name} /dev/sdx -nj {case.jobs} -iod {case.depth} -rt {case.seconds}"
    test.readCmdLineArgs(command.split())
    for part in test.getTests().values():
        part.getFioJob().setFioVersion("fio-3.33\n")
        if case.sector == 4096:
            part.prepareBsLabels(None, "512")
        part.runRounds()
    test.toXml()
    return Path(f"{name}.xml").read_bytes()


def main() -> None:
    """Replace the files."""
    sys.path.insert(0, str(Path(sys.argv[1]) / "src"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, case in CASES.items():
            (HERE / f"{name}.xml.gz").write_bytes(gzip.compress(make(name, case), mtime=0))


if __name__ == "__main__":
    main()
