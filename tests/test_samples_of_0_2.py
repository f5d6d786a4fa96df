"""The files that version 0.2.0 writes or accepts, besides run folders and stores, stay readable with their values.

``tests/samples_of_0_2`` has one of each, which stay as they are: a lab's request as its database returns it
(``request.json``); the state of a run that was killed, resumed and begun again on its host (``state``); a batch of two
simulated drives; ``suite.json`` of ``all``; and the TOML files, with all their keys.  A later version that writes other
files adds samples of its own.
"""

from __future__ import annotations

import argparse
import shutil
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from snia_pts.analysis.side_by_side import SideBySide
from snia_pts.arrays.file import read_layout
from snia_pts.batch.folder import BatchFolder
from snia_pts.cli.notifications.config import MailConfig, load_mail_config
from snia_pts.fleet.campaign import plan_campaign
from snia_pts.fleet.configuration import read_configuration
from snia_pts.fleet.request import parse_request
from snia_pts.fleet.run_options import run_options
from snia_pts.fleet.run_state import Ended, HostRuns
from snia_pts.fleet.state_folder import RunState
from snia_pts.fleet.unit import Units
from snia_pts.model.annotations import read_annotations
from snia_pts.model.array import MemberRates
from snia_pts.profiles.reader import read_profile
from snia_pts.profiles.spec import ProfileSpec
from snia_pts.record.suite import SuiteFolder
from snia_pts.spec.limits import Limit, read_limits
from tests.fleet.test_campaign import drive

_HERE = Path(__file__).parent / "samples_of_0_2"
_SERIAL = "S64HNE0R500001"
_IOPS_AT = "RND 4 KiB 0/100"
_BASIC = ("iops", "throughput", "latency", "wsat")


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A copy of the samples, which only its owner can change."""
    copy = tmp_path / "samples"
    shutil.copytree(_HERE, copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


def test_a_request_of_a_lab_is_read(samples: Path) -> None:
    """Every option is the one that was requested, and the host makes a run of each test."""
    request = parse_request((samples / "request.json").read_bytes())
    options = request.options

    assert request.run_id == UUID("6a1e2a3c-1111-4222-8333-444455556666")
    assert (request.serial, request.model, request.test) == (_SERIAL, "EXAMPLE 960", "all")
    assert (request.on_lost, request.labels) == ("from-purge", {"lot": "7", "project": "alpha"})
    assert (options.test_class, options.pts, options.overrides) == ("client", "1.1", ("iops.rounds.maximum=7",))
    assert (options.purge, options.engine, options.stall_seconds, options.seed) == (
        "nvme-format",
        "io_uring",
        90.5,
        4711,
    )
    assert options.allow_unpurged
    assert options.keep_write_cache
    assert options.refill_buffers
    (limit,) = options.limits
    assert (limit.name, limit.unit) == (f"iops at {_IOPS_AT}", "IOPS")
    assert (limit.minimum, limit.maximum, limit.tolerance_percent) == (10_000, 20_000.5, 2.5)
    assert (options.about.operator, options.about.capacity) == ("A. Tester, Example Lab", "960 GB")
    assert [(feature.name, feature.value) for feature in options.about.features] == [("power loss protection", "yes")]
    assert options.about.image().size == (2, 1)
    assert options.formats == ("pdf", "xlsx")
    configured = read_configuration(samples / "agent.toml").drive(request)
    tests = run_options(request, configured, samples / "run")
    assert [(test.test, test.pts, test.overrides) for test in tests] == [
        (name, "1.1", ("rounds.maximum=7",) if name == "iops" else ()) for name in _BASIC
    ]


def test_a_campaign_becomes_requests(samples: Path) -> None:
    """Each of three drives has a health check and three tests, with the options of the file."""
    drives = [drive(_SERIAL), *(drive(f"E{number}", model="EXAMPLE 960") for number in range(3))]

    plan = plan_campaign(samples / "campaign.toml", drives, {})

    assert (plan.campaign.name, plan.campaign.priority) == ("firmware 7.2", 5)
    assert [cost.drive.serial for cost in plan.drives] == [_SERIAL, "E0", "E1"]
    check, iops, again, basic = plan.runs[:4]
    assert [run.request.test for run in plan.runs] == ["wsat", "iops", "iops", "all"] * 3
    assert [run.is_health_check for run in plan.runs] == [True, False, False, False] * 3
    assert check.request.on_lost == "hold"
    assert check.request.options.overrides == ("saturation.seconds=600",)
    assert iops.request.options == again.request.options
    assert (iops.request.on_lost, iops.request.labels) == ("resume", {"lot": "7", "project": "beta"})
    own = iops.request.options
    assert (own.test_class, own.pts, own.overrides) == ("enterprise", "2.0.2", ("rounds.maximum=7",))
    assert own.limits == (Limit(test="iops", metric="iops", at=_IOPS_AT, unit="IOPS", minimum=50_000),)
    assert (basic.request.on_lost, basic.request.labels) == ("from-purge", {"lot": "7", "project": "alpha"})
    common = basic.request.options
    assert (common.test_class, common.pts, common.purge, common.engine) == ("client", "1.1", "nvme-format", "libaio")
    assert (common.stall_seconds, common.seed, common.formats) == (90.5, 4711, ("pdf", "xlsx"))
    assert (common.allow_unpurged, common.keep_write_cache, common.refill_buffers) == (True, True, True)
    assert (common.about.operator, common.about.notes) == ("A. Tester", ("Engineering sample.",))


def test_the_configuration_of_a_host_is_read(samples: Path) -> None:
    """Its drives may be destroyed in the ways that it lists, and no others."""
    host = read_configuration(samples / "agent.toml")

    assert (host.host, host.side_by_side, host.units, host.purges) == (
        "rack1-host3",
        4,
        "systemd",
        ("auto", "nvme-format"),
    )
    assert host.database == "postgresql://agent_rack1-host3@lab.example.org/lab?sslmode=verify-full"
    assert (host.state_folder, host.run_folder) == (
        Path("/var/lib/snia-pts/agent"),
        Path("/var/lib/snia-pts/runs"),
    )
    assert [
        (its.serial, its.target, its.size_bytes, its.overwrite, its.discard_data, its.purge_command)
        for its in host.drives.values()
    ] == [
        (_SERIAL, None, None, False, False, None),
        (
            "S64HNE0R500002",
            "/dev/disk/by-path/pci-0000:3b:00.0-nvme-1",
            None,
            False,
            True,
            "vendor-tool --erase {device}",
        ),
        ("FILE-1", "/srv/trial", 1 << 30, True, False, None),
        ("SIM-0", "sim:enterprise-nvme", None, False, False, None),
    ]


def test_the_state_of_a_run_on_its_host_is_read(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host knows the request, each permission and each start, and does not start the finished run again."""
    started: list[RunState] = []
    monkeypatch.setattr(Units, "start", lambda self, run, *locks: started.append(run))
    text = (samples / "agent.toml").read_text().replace("/var/lib/snia-pts", str(samples)).replace("systemd", "process")
    (samples / "agent.toml").write_text(text)
    run_id = UUID("0b6f0e0a-2222-4333-8444-555566667777")
    state = RunState.of(samples / "agent", run_id)
    state.path.parent.mkdir(parents=True)
    (samples / "state").rename(state.path)

    runs, request = HostRuns(read_configuration(samples / "agent.toml")), state.request()
    end = Ended(exit_code=0, message="STEADY STATE", folder=samples / "runs" / str(run_id))
    assert runs.state(run_id) == runs.ensure(request) == end
    assert started == []
    assert (request.run_id, request.serial, request.test, request.on_lost) == (run_id, "SIM-0", "hir", "hold")
    assert (request.options.seed, request.options.formats, request.labels) == (4711, (), {"lot": "7"})
    assert [state.claimed_kind(number) for number in range(state.claims)] == ["fresh", "resume", "from-purge"]
    assert [(start.claim, start.kind, start.began, start.pid) for start in state.starts()] == [
        (0, "fresh", False, 15657),
        (0, "fresh", True, 15657),
        (1, "resume", False, 15699),
        (2, "from-purge", False, 15721),
    ]
    assert state.starts()[0].at == datetime(2026, 11, 28, 6, 23, 35, 648307, UTC)
    assert state.submitted == datetime(2026, 11, 28, 6, 0, tzinfo=UTC)
    assert state.pid == 15721


def test_a_batch_is_read(samples: Path) -> None:
    """Its drives have their options, and their processes are known."""
    batch = BatchFolder.existing(samples / "batch")
    assert batch is not None

    assert batch.side_by_side == SideBySide(2)
    assert [(its.name, its.target, its.model, its.suite) for its in batch.drives] == [
        ("01-sim-enterprise-nvme", "sim:enterprise-nvme", "Simulated enterprise NVMe SSD, 1 DWPD", False),
        ("02-sim-enterprise-sata", "sim:enterprise-sata", "Simulated enterprise SATA SSD", False),
    ]
    for its in batch.drives:
        (options,) = its.options
        assert (options.test, options.pts, options.seed) == ("iops", "2.0.2", 4711)
        assert (options.overrides, options.formats) == (("rounds.maximum=7",), ())
        assert options.limits == read_limits(samples / "limits.toml")
        assert options.about == read_annotations(samples / "about.toml")
    assert [process and process.pid for process in map(batch.process, batch.drives)] == [16213, 16215]


def test_a_suite_folder_is_read(samples: Path) -> None:
    """It has its tests in their order, each with its options."""
    suite = SuiteFolder.existing(samples / "suite")
    assert suite is not None

    assert suite.tests == tuple(options.test for options in suite.options) == _BASIC
    assert {(options.target, options.pts, options.test_class) for options in suite.options} == {
        ("sim:enterprise-nvme", "2.0.2", "enterprise")
    }
    assert [options.overrides for options in suite.options] == [("rounds.maximum=7",), (), (), ()]
    assert suite.options[0].seed == 2949786426614528574


def test_array_files_are_read(samples: Path) -> None:
    """One for mdadm, one for a hardware controller."""
    software = read_layout(samples / "array.toml")
    hardware = read_layout(samples / "controller-array.toml")

    assert (software.controller, software.level, software.chunk_bytes) == ("mdadm", 5, 65536)
    assert software.members == tuple(f"/dev/disk/by-id/nvme-EXAMPLE_{number}" for number in (1, 2, 3))
    assert (software.device, software.sync, software.bitmap) == ("/dev/md/example", "skip", "internal")
    assert software.measured == MemberRates(disk_iops=168, disk_mb_per_second=130.5)
    assert (hardware.controller, hardware.level, hardware.chunk_bytes) == ("storcli", 10, 262144)
    assert hardware.members == ("252:0", "252:1", "252:2", "252:3")
    assert (hardware.device, hardware.sync, hardware.index) == (
        "/dev/disk/by-id/wwn-0x600605b000000001",
        "wait",
        1,
    )
    policies = (hardware.write_policy, hardware.read_policy, hardware.io_policy)
    assert policies == ("always write back", "no read ahead", "direct")


def test_limits_are_read(samples: Path) -> None:
    """Both bounds, with their tolerance."""
    iops, latency = read_limits(samples / "limits.toml")

    assert (iops.test, iops.name, iops.unit) == ("iops", f"iops at {_IOPS_AT}", "IOPS")
    assert (iops.lower_bound, iops.maximum) == (47_500, 900_000.5)
    assert (latency.test, latency.name) == ("latency", "response_99.999_percent_ms at histogram")
    assert (latency.unit, latency.minimum, latency.upper_bound) == ("ms", None, 20)


def test_annotations_are_read(samples: Path) -> None:
    """Every key has its value, and the logo is complete."""
    about = read_annotations(samples / "about.toml")

    assert (about.operator, about.vendor, about.nand_type, about.hba) == (
        "A. Tester, Example Lab",
        "Example Storage",
        "3D TLC",
        "on board",
    )
    assert about.notes == ("Engineering sample.", "Airflow 300 LFM, ambient 24 °C.")
    assert (about.model, about.serial, about.firmware, about.capacity) == ("Example X1", "0123", "7.1", "960 GB")
    assert {feature.name: feature.value for feature in about.features} == {
        "power loss protection": "yes",
        "endurance": "1 DWPD over 5 years",
    }
    assert about.sign_off is not None
    assert (about.sign_off.approved_by, about.sign_off.auditor) == ("B. Lead, Example Lab", "C. Auditor")
    assert about.image().size == (2, 1)


def _mail(path: Path) -> MailConfig:
    mail = load_mail_config(argparse.Namespace(mail=path, mail_server=None, mail_to=None))
    assert mail is not None
    return mail


def test_mail_settings_are_read(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Server, certificates, user, password and recipients are those of the file."""
    password = samples / "mail.password"
    password.write_text("of the sample\n")
    password.chmod(0o600)
    monkeypatch.setenv("MAIL_PASSWORD", "of the variable")

    mail, other = _mail(samples / "mail.toml"), _mail(samples / "mail-of-variable.toml")

    assert (mail.server, mail.port, mail.tls, mail.user) == ("mail.example.org", 2525, "implicit", "lab")
    assert mail.password == "of the sample"  # noqa: S105  # not one of a server
    assert mail.authorities is not None
    (authority,) = mail.authorities.get_ca_certs()
    assert authority["subject"] == ((("commonName", "Example authority"),),)
    assert (mail.sender, mail.recipients) == ("lab@example.org", ("a@example.org", "b@example.org"))
    assert (other.port, other.tls, other.password) == (587, "starttls", "of the variable")


def test_a_profile_is_read(samples: Path) -> None:
    """Every key of workloads, axes and limits has its value."""
    specification = read_profile(str(samples / "profile.toml"))
    profile = specification.spec

    assert isinstance(profile, ProfileSpec)
    assert specification.deviations == ()
    assert (profile.name, profile.title, profile.source) == ("example-profile", "Example", "an operator")
    assert (profile.repeats, profile.minimum_seconds, profile.write_cache) == (3, 0.5, "disabled")
    assert (profile.purge, profile.fill) == (True, True)
    random, mix, stride = profile.workload
    assert (random.access, random.read_percent, random.block_size_bytes) == ("RND", 70, 4096)
    assert (random.thread_count, random.queue_depth, random.range_bytes, random.zones) == (2, 16, 1 << 30, 4)
    assert (random.seconds, random.ramp_seconds, random.cold) == (30, 2.5, True)
    assert random.fio == {"ioengine": "libaio", "refill_buffers": 1}
    assert [(share.size_bytes, share.percent) for share in mix.block_shares] == [(4096, 60), (65536, 40)]
    assert (mix.seconds, mix.sample_seconds, mix.range_bytes) == (60, 1.5, None)
    assert (stride.access, stride.block_size_bytes, stride.order) == ("SEQ", 131072, "stride")
    assert (stride.stride_blocks, stride.fresh, stride.seconds) == (33, True, None)
    assert [(axis.key, axis.values, axis.workloads) for axis in profile.axis] == [
        ("host.scheduler", ("none", "mq-deadline"), ()),
        ("read_percent", (100, 50, 0), ("random",)),
        ("fio.iodepth_batch", (1, 8), ("random",)),
    ]
    assert profile.limit == (Limit(test="profile", metric="iops", at="mix", unit="IOPS", minimum=1000),)
