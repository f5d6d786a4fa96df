"""Make the fio results of this folder with the fio of this host: ``python -m tests.fio_files.make [NAME...]``.

Each is a small job on a file in a temporary folder.  ``<name>.gz`` has what fio wrote.
"""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_GLOBAL = "[global]\nfilename=test.dat\nsize=8M\n"
_SHORT = "runtime=300ms\ntime_based\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job file, or the options of a command line; the options of fio's output; whether fio must succeed."""

    job: str = ""
    options: tuple[str, ...] = ()
    output: str = "json+"
    extra: tuple[str, ...] = ()
    succeeds: bool = True
    client: bool = False


def _job(*sections: str, common: str = "") -> str:
    return (
        _GLOBAL
        + common
        + "".join(f"[{section.partition(':')[0]}]\n{section.partition(':')[2]}" for section in sections)
    )


CASES: dict[str, Case] = {
    "randread-libaio": Case(job=_job("j:rw=randread\nbs=4k\nioengine=libaio\niodepth=16\ndirect=1\n", common=_SHORT)),
    "randwrite-io_uring": Case(job=_job("j:rw=randwrite\nbs=8k\nioengine=io_uring\niodepth=8\n", common=_SHORT)),
    "lat-percentiles": Case(job=_job("j:rw=randread\nbs=4k\nlat_percentiles=1\n", common=_SHORT)),
    "plain-json": Case(job=_job("j:rw=randread\nbs=4k\n", common=_SHORT), output="json"),
    "plain-json-lat": Case(job=_job("j:rw=randwrite\nbs=4k\nlat_percentiles=1\n", common=_SHORT), output="json"),
    "mix-70": Case(
        job=_job("j:rw=randrw\nrwmixread=70\nbs=4k\nioengine=libaio\niodepth=4\nlat_percentiles=1\n", common=_SHORT)
    ),
    "mix-write": Case(job=_job("j:rw=rw\nrwmixwrite=20\nbs=16k\n", common=_SHORT), output="json"),
    "sequential-pass": Case(job=_job("j:rw=write\nbs=128k\n"), output="json"),
    "sequential-threads": Case(
        job=_job("j:rw=read\nbs=64k\nnumjobs=3\nthread\noffset_increment=2M\nsize=2M\n", common=_SHORT)
    ),
    "group-reporting": Case(
        job=_job("j:rw=randread\nbs=4k\nnumjobs=4\ngroup_reporting\nlat_percentiles=1\n", common=_SHORT)
    ),
    "group-reporting-json": Case(
        job=_job("j:rw=randread\nbs=4k\nnumjobs=2\ngroup_reporting\n", common=_SHORT), output="json"
    ),
    "threads-json": Case(job=_job("j:rw=randread\nbs=4k\nnumjobs=2\nthread\n", common=_SHORT), output="json"),
    "bssplit": Case(job=_job("j:rw=randread\nbssplit=4k/60:16k/30:64k/10\n", common=_SHORT)),
    "bssplit-sides": Case(job=_job("j:rw=randrw\nbssplit=4k/50:8k/50,64k/100\n", common=_SHORT)),
    "bsrange": Case(job=_job("j:rw=randwrite\nbsrange=4k-64k\n", common=_SHORT), output="json"),
    "bs-sides": Case(job=_job("j:rw=randrw\nbs=4k,64k\n", common=_SHORT)),
    "rate-iops": Case(job=_job("j:rw=randread\nbs=4k\nrate_iops=500\n", common=_SHORT)),
    "latency-target": Case(
        job=_job(
            "j:rw=randread\nbs=4k\nioengine=libaio\niodepth=32\nlatency_target=10ms\nlatency_window=100ms\n"
            "latency_percentile=99\n",
            common="runtime=1\ntime_based\n",
        ),
    ),
    "ramp": Case(
        job=_job("j:rw=randread\nbs=4k\nioengine=libaio\niodepth=8\nramp_time=1\nlat_percentiles=1\n", common=_SHORT)
    ),
    "steadystate": Case(
        job=_job(
            "j:rw=randread\nbs=4k\nsteadystate=iops:0.01%\nsteadystate_duration=1\n", common="runtime=3\ntime_based\n"
        ),
        output="json",
    ),
    "status-interval": Case(
        job=_job("j:rw=randread\nbs=4k\n", common="runtime=2200ms\ntime_based\n"), extra=("--status-interval=1",)
    ),
    "text-before": Case(job=_job("j:rw=randread\nbs=4k\niodepth=8\n", common=_SHORT), output="normal,json"),
    "stonewalls": Case(
        job=_job(
            "fill:rw=write\nbs=1m\n",
            "read:stonewall\nrw=randread\nbs=4k\nruntime=300ms\ntime_based\n",
            "mixed:stonewall\nrw=randrw\nrwmixread=65\nbs=64k\nruntime=300ms\ntime_based\n",
        )
    ),
    "concurrent": Case(
        job=_job("reader:rw=randread\nbs=4k\n", "writer:rw=randwrite\nbs=64k\n", common=_SHORT), output="json"
    ),
    "concurrent-alike": Case(job=_job("a:rw=randread\nbs=4k\n", "b:rw=randread\nbs=4k\n", common=_SHORT)),
    "fsync": Case(job=_job("j:rw=randwrite\nbs=4k\nfsync=8\nlat_percentiles=1\n", common=_SHORT)),
    "gtod-reduce": Case(job=_job("j:rw=randread\nbs=4k\ngtod_reduce=1\n", common=_SHORT), output="json"),
    "no-total-latency": Case(job=_job("j:rw=randread\nbs=4k\ndisable_lat=1\n", common=_SHORT)),
    "unified": Case(job=_job("j:rw=randrw\nbs=4k\nunified_rw_reporting=1\n", common=_SHORT), output="json"),
    "unified-reads": Case(job=_job("j:rw=randread\nbs=4k\nunified_rw_reporting=1\n", common=_SHORT)),
    "verify": Case(job=_job("j:rw=randwrite\nbs=4k\nverify=crc32c\n"), output="json"),
    "null-engine": Case(
        options=(
            "--name=j",
            "--ioengine=null",
            "--size=1G",
            "--rw=randread",
            "--bs=4k",
            "--runtime=300ms",
            "--time_based",
        )
    ),
    "command-line": Case(
        options=("--name=j", "--filename=test.dat", "--size=8M", "--rw=randread", "--bs=4k", "--runtime=300ms"),
        output="json",
    ),
    "mmap": Case(job=_job("j:rw=randread\nbs=4k\nioengine=mmap\niodepth=4\n", common=_SHORT)),
    "thinktime": Case(job=_job("j:rw=read\nbs=128k\nthinktime=1000\n", common=_SHORT), output="json"),
    "zipf": Case(job=_job("j:rw=randread\nbs=4k\nrandom_distribution=zipf:1.2\nnorandommap\n", common=_SHORT)),
    "rounds": Case(
        job=_job(
            *(f"round{number}:stonewall\nrw=randread\nbs=4k\nruntime=200ms\ntime_based\n" for number in range(1, 7)),
            common="lat_percentiles=1\nioengine=null\n",
        ),
        output="json+",
    ),
    "client": Case(job=_job("j:rw=randread\nbs=4k\n", common=_SHORT), output="json", client=True),
    "normal": Case(
        job=_job(
            "j:rw=randrw\nrwmixread=70\nbs=4k\nioengine=libaio\niodepth=8\nnumjobs=2\ngroup_reporting\n", common=_SHORT
        ),
        output="normal",
    ),
    "normal-several": Case(
        job=_job("w:rw=write\nbs=128k\n", "r:stonewall\nrw=randread\nbs=4k\nnumjobs=2\nruntime=300ms\ntime_based\n"),
        output="normal",
    ),
    # refused
    "group-reporting-sum": Case(
        job=_job("reader:rw=randread\nbs=4k\n", "writer:rw=randwrite\nbs=64k\n", common=_SHORT + "group_reporting\n")
    ),
    "normal-sum": Case(
        job=_job("reader:rw=randread\nbs=4k\n", "writer:rw=randwrite\nbs=64k\n", common=_SHORT + "group_reporting\n"),
        output="normal",
    ),
    "error": Case(job=_job("j:rw=read\nbs=4k\nverify=pattern\nverify_pattern=0x5a\n"), output="json", succeeds=False),
    "two-files": Case(
        job="[global]\nsize=4M\nrw=randread\nruntime=300ms\ntime_based\n[a]\nfilename=x/one.dat\n[b]\nstonewall\n"
        "filename=y/two.dat\n",
        output="json",
    ),
}


def make(name: str, case: Case) -> None:
    """Run a case and keep its output."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for part in ("x", "y"):
            (folder / part).mkdir()
        (folder / "test.dat").write_bytes(bytes(8 << 20))
        (folder / "job.fio").write_text(case.job, "utf-8")
        command = ["fio", f"--output-format={case.output}", "--output=out", *case.extra]
        command += [*case.options] if case.options else ["job.fio"]
        if case.client:
            _run_client(folder, command)
        else:
            done = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=60)
            if (done.returncode == 0) != case.succeeds:
                raise RuntimeError(f"{name}: fio ended with {done.returncode}: {done.stderr.decode()}")
        content = (folder / "out").read_bytes()
    (HERE / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def _run_client(folder: Path, command: list[str]) -> None:
    """Run a job on a server that listens on the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(["fio", f"--server=ip:127.0.0.1,{port}"], cwd=folder, stdout=subprocess.DEVNULL) as server:
        try:
            time.sleep(1)
            client = f"--client=ip:127.0.0.1,{port}"
            subprocess.run([*command[:-1], client, command[-1]], cwd=folder, check=True, timeout=60)
        finally:
            server.terminate()


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        make(chosen, CASES[chosen])
