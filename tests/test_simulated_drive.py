"""The simulated drive against theory: closed forms, Little's law, and behaviour that all drives share."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snia_pts.errors import SpecError, UsageError
from snia_pts.lab.simulated import responses
from snia_pts.lab.simulated.drive import SimulatedDrive, SimulatedFault, Slice
from snia_pts.lab.simulated.ftl import Ftl
from snia_pts.lab.simulated.preset import PRESETS, Faults, Preset, preset_names, read_preset
from snia_pts.lab.simulated.responses import Shape, Tally
from snia_pts.model.steps import BlockShare, BlockSize, Stimulus, Zone
from snia_pts.units import KIB, MB, MIB

FLASH = ("client-qlc", "enterprise-nvme", "enterprise-nvme-3dwpd", "enterprise-sas", "enterprise-sata")


def stimulus(preset: Preset, read_percent: int = 0, block: BlockSize = 4 * KIB, **changes: object) -> Stimulus:
    defaults = {
        "access": "RND",
        "thread_count": 4,
        "queue_depth": 32,
        "range_offset_bytes": 0,
        "range_bytes": preset.drive.capacity_bytes,
        "seconds": 60.0,
    }
    return Stimulus(read_percent=read_percent, block_size_bytes=block, **{**defaults, **changes})  # type: ignore[arg-type]


def iops(done: Slice) -> float:
    return (done.read.ios + done.write.ios) / done.seconds


def run(drive: SimulatedDrive, request: Stimulus, seconds: float = 60.0) -> Slice:
    drive.start(request)
    return drive.run(request, seconds)


def preconditioned(name: str, seed: int = 1) -> SimulatedDrive:
    """Return a drive in the steady state of 4 KiB random writes."""
    drive = SimulatedDrive(read_preset(name), seed)
    capacity = drive.preset.drive.capacity_bytes
    fill = stimulus(drive.preset, block=128 * KIB, access="SEQ", thread_count=1, passes=2, seconds=None)
    drive.start(fill)
    drive.run(fill, float("inf"), 2 * capacity)
    drive.run(stimulus(drive.preset), float("inf"), 3 * capacity)
    return drive


@pytest.fixture(scope="module", params=preset_names())
def steady(request: pytest.FixtureRequest) -> SimulatedDrive:
    return preconditioned(request.param)


def closed_form(over_provisioning: float) -> float:
    """Return the write amplification of greedy collection under uniform random writes with large blocks."""
    ratio = 1 + over_provisioning
    valid = 0.5
    for _ in range(10_000):
        valid = math.exp(-ratio * (1 - valid))
    return 1 / (1 - valid)


@pytest.mark.parametrize(
    ("over_provisioning", "expected"), [(0.07, 7.82), (0.15, 4.02), (0.28, 2.48), (0.30, 2.36), (0.50, 1.72)]
)
def test_the_closed_form_gives_the_published_values(over_provisioning: float, expected: float) -> None:
    """The closed form gives the write amplification published for each over-provisioning."""
    assert closed_form(over_provisioning) == pytest.approx(expected, abs=0.006)


@pytest.mark.long
@pytest.mark.parametrize("over_provisioning", [0.1, 0.28, 0.5])
def test_write_amplification_follows_the_closed_form(over_provisioning: float) -> None:
    """With blocks of 1024 pages the steady write amplification agrees with the closed form within 3 %."""
    ftl, random = Ftl(512 * 1024, 1024, over_provisioning), np.random.default_rng(7)
    ftl.write(np.arange(ftl.chunks))
    for _ in range(30):
        ftl.write(random.integers(0, ftl.chunks, ftl.chunks // 10))
    programmed, written = ftl.programmed, ftl.host_written
    for _ in range(20):
        ftl.write(random.integers(0, ftl.chunks, ftl.chunks // 10))
    measured = (ftl.programmed - programmed) / (ftl.host_written - written)
    assert measured == pytest.approx(closed_form(over_provisioning), rel=0.03)


@given(
    batches=st.lists(st.lists(st.integers(0, 199), min_size=1, max_size=60), min_size=1, max_size=12),
    trimmed=st.tuples(st.integers(0, 199), st.integers(0, 199)),
)
def test_the_ftl_maps_exactly_the_written_chunks(batches: list[list[int]], trimmed: tuple[int, int]) -> None:
    """Each chunk that was written and not trimmed has a page of its own; no other page is valid."""
    ftl, written = Ftl(200, 16, 0.3), set()
    for batch in batches:
        ftl.write(np.array(batch))
        written.update(batch)
    first, count = trimmed[0], min(trimmed[1], 200 - trimmed[0])
    ftl.trim(first, count)
    written -= set(range(first, first + count))
    pages = {chunk: int(ftl._page_of_chunk[chunk]) for chunk in range(200) if ftl._page_of_chunk[chunk] >= 0}
    assert set(pages) == written
    assert len(set(pages.values())) == len(pages)
    assert all(ftl._chunk_of_page[page] == chunk for chunk, page in pages.items())
    assert int(ftl._valid.sum()) == len(written)
    assert ftl.mapped_share == len(written) / 200


def test_sequential_writes_are_not_amplified() -> None:
    """Sequential overwrites free whole blocks, so that nothing is copied."""
    ftl = Ftl(64 * 256, 64, 0.1)
    for _ in range(5):
        ftl.write(np.arange(ftl.chunks))
    assert ftl.programmed == ftl.host_written


@given(
    ios=st.integers(1, 10**9),
    mean_ns=st.floats(2_000, 1e9),
    sigma=st.floats(0.02, 0.5),
    late=st.floats(0, 0.01),
    factor=st.floats(2, 12),
    luck=st.floats(0, 0.999),
)
def test_every_io_has_a_response_time(
    ios: int, mean_ns: float, sigma: float, late: float, factor: float, luck: float
) -> None:
    """The bins count every I/O once; the mean lies between the extremes and agrees with that of the bins."""
    tally = Tally()
    tally.add(ios, ios * 4096, mean_ns, Shape(sigma=sigma, late_share=late, late_factor=factor), luck)
    assert sum(tally.bins.values()) == ios
    assert tally.mean_ns == pytest.approx(mean_ns)
    binned = sum(int(middle) * count for middle, count in tally.bins.items()) / ios
    assert binned == pytest.approx(mean_ns, rel=1 / 127)
    assert tally.extremes_ns[0] <= tally.mean_ns <= tally.extremes_ns[1]


@given(
    ios=st.integers(1, 1 << 14),
    mean_ns=st.floats(2_000, 1e9),
    sigma=st.floats(0.05, 0.5),
    late=st.floats(0.0002, 0.01),
    factor=st.floats(2, 12),
    luck=st.floats(0, 0.999),
)
@example(ios=11902, mean_ns=853_590_139.0, sigma=0.25, late=0.0078125, factor=12.0, luck=0.875)  # beyond the last bin
def test_response_times_of_few_ios_equal_single_draws(
    ios: int, mean_ns: float, sigma: float, late: float, factor: float, luck: float
) -> None:
    """The counts equal those of times drawn one by one and scaled to the mean; the last bin has all longer ones."""
    shape = Shape(sigma=sigma, late_share=late, late_factor=factor)
    tally = Tally()
    tally.add(ios, 0, mean_ns, shape, luck)

    first, below = responses._shares_below(mean_ns, shape)
    edges = responses._UPPER[first : first + len(below)]
    times = np.interp((np.arange(ios) + luck) / ios, below, edges)
    indices = np.searchsorted(responses._UPPER, times * (mean_ns / times.mean()), side="right")
    drawn = np.bincount(np.minimum(indices, len(tally.counts) - 1), minlength=len(tally.counts))
    assert np.abs(np.cumsum(tally.counts - drawn)).max() <= 1, "a time at the edge of a bin may be rounded"


def test_no_response_time_falls_into_the_last_bin() -> None:
    """fio's last bin has all longer times: a maximum in it would be cut off.  The slowest drive does not reach it."""
    drive = SimulatedDrive(read_preset("client-qlc"), 1)
    run(drive, stimulus(drive.preset, 0, 8 * KIB, thread_count=8, queue_depth=32), 24 * 3600)
    done = run(drive, stimulus(drive.preset, 5, MIB, thread_count=1, queue_depth=32), 3600)

    assert done.write.sum_ns / done.write.ios > 0.5e9, "it is slow"
    assert 2e9 < done.write.extremes_ns[1] < 0.9 * responses._MIDPOINTS[-1]


def demands() -> Iterator[tuple[int, int]]:
    return itertools.product((1, 4, 32), (1, 2, 8, 32))


@pytest.mark.long
def test_littles_law_holds_at_every_point(steady: SimulatedDrive) -> None:
    """At every demand, mix and block size the sum of the response times is the duration times the outstanding I/Os."""
    for (threads, depth), reads, block in itertools.product(demands(), (100, 65, 0), (512, 4 * KIB, MIB)):
        request = stimulus(steady.preset, reads, block, thread_count=threads, queue_depth=depth)
        done = run(steady, request, 20)
        waited_seconds = (done.read.sum_ns + done.write.sum_ns) / 1e9
        assert waited_seconds == pytest.approx(done.seconds * request.total_oio, rel=1e-6)


def test_iops_grow_with_the_queue_depth(steady: SimulatedDrive) -> None:
    """IOPS do not decrease with the queue depth, within the noise and the variation of write amplification."""
    noise = 0.97 - 4 * steady.preset.noise_percent / 100
    for reads in (100, 65, 0):
        rates = [
            iops(run(steady, stimulus(steady.preset, reads, 8 * KIB, thread_count=1, queue_depth=depth), 30))
            for depth in (1, 2, 4, 8, 16, 32, 64)
        ]
        assert all(more > noise * less for less, more in itertools.pairwise(rates)), rates


@pytest.mark.parametrize("name", preset_names())
def test_no_drive_exceeds_its_link(name: str) -> None:
    """From FOB on, no direction exceeds the link in any mix and size; on a half-duplex link the sum does not."""
    drive = SimulatedDrive(read_preset(name), 1)
    link_mb_per_second = drive.preset.controller.link_mb_per_second
    for access, reads, block in itertools.product(("RND", "SEQ"), (100, 95, 65, 50, 35, 5, 0), (4 * KIB, MIB)):
        request = stimulus(drive.preset, reads, block, access=access, thread_count=4, queue_depth=32)
        done = run(drive, request, 5)
        moved = [part.transferred_bytes / done.seconds / MB for part in (done.read, done.write)]
        transferred = sum(moved) if drive.preset.controller.half_duplex else max(moved)
        assert transferred <= link_mb_per_second * 1.001


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", FLASH)
def test_a_purge_restores_the_fob_speed(name: str) -> None:
    """A fresh drive writes more than 1.4 times as fast as a steady one; a purged drive is as fast as a fresh one."""
    fresh = SimulatedDrive(read_preset(name), 1)
    fob = iops(run(fresh, stimulus(fresh.preset), 10))
    worn = preconditioned(name)
    steady = iops(run(worn, stimulus(worn.preset), 10))
    assert worn.purge()
    purged = iops(run(worn, stimulus(worn.preset), 10))
    assert fob > 1.4 * steady
    assert purged == pytest.approx(fob, rel=0.05)


@pytest.mark.long
def test_reads_of_an_unwritten_drive_are_too_fast() -> None:
    """Reads of unwritten data do not reach the medium: without preconditioning they are more than twice as fast."""
    fresh, worn = SimulatedDrive(read_preset("enterprise-nvme"), 1), preconditioned("enterprise-nvme")
    request = stimulus(fresh.preset, 100, thread_count=1, queue_depth=1)
    assert iops(run(fresh, request)) > 2 * iops(run(worn, request))


@pytest.mark.long
def test_idle_time_lets_writes_recover() -> None:
    """After idle time a steady drive writes faster, until the space that it freed is used up."""
    drive = preconditioned("enterprise-nvme")
    before = iops(run(drive, stimulus(drive.preset), 5))
    drive.idle(30)
    rested = iops(run(drive, stimulus(drive.preset), 5))
    later = iops(run(drive, stimulus(drive.preset), 600))
    after = iops(run(drive, stimulus(drive.preset), 60))
    assert rested > 1.5 * before
    assert later < rested
    assert after == pytest.approx(before, rel=0.05)


def test_the_temperature_follows_the_load() -> None:
    """It stays between idle and busy; an idle drive cools exponentially, one without sensors has no temperature."""
    drive = SimulatedDrive(read_preset("enterprise-nvme-sensors"), 1)
    sensors = drive.preset.sensors
    assert sensors is not None
    assert drive.celsius == sensors.idle_celsius
    drive.run(stimulus(drive.preset), 5 * sensors.settling_seconds)
    hot = drive.celsius
    assert 0.95 * sensors.busy_celsius < hot <= sensors.busy_celsius
    drive.idle(2 * sensors.settling_seconds)
    assert drive.celsius == pytest.approx(sensors.idle_celsius + (hot - sensors.idle_celsius) * math.exp(-2))
    assert math.isnan(SimulatedDrive(read_preset("enterprise-nvme"), 1).celsius)


@pytest.mark.long
def test_the_drive_counts_what_it_writes_on_its_media() -> None:
    """In steady state it counts as many bytes per byte of the host as its write amplification, which the FTL counts."""
    drive = preconditioned("enterprise-nvme-sensors")
    run(drive, stimulus(drive.preset), 600.0)
    flash = drive._ftl  # the pages that it programmed are another count of the same bytes
    written, programmed, pages = drive.written_bytes, drive.programmed_bytes, (flash.host_written, flash.programmed)
    run(drive, stimulus(drive.preset), 600.0)
    counted = (drive.programmed_bytes - programmed) / (drive.written_bytes - written)
    assert counted == pytest.approx((flash.programmed - pages[1]) / (flash.host_written - pages[0]), rel=0.02)
    assert counted > 2


def test_sensors_change_no_other_number() -> None:
    """A drive with sensors is as fast as the same drive without."""
    plain, sensing = (SimulatedDrive(read_preset(name), 1) for name in ("enterprise-nvme", "enterprise-nvme-sensors"))
    assert iops(run(plain, stimulus(plain.preset))) == iops(run(sensing, stimulus(sensing.preset)))


def test_the_pseudo_slc_has_a_cliff() -> None:
    """When its pseudo-SLC is full, a client drive falls to less than a fifth of its write speed."""
    drive = SimulatedDrive(read_preset("client-qlc"), 1)
    request = stimulus(drive.preset, block=128 * KIB, access="SEQ", thread_count=1)
    speeds = [run_on(drive, request, 10) for _ in range(60)]
    full = next(index for index, speed in enumerate(speeds) if speed < speeds[0] / 5)
    written = sum(speeds[:full]) * 10
    assert written == pytest.approx(0.25 * drive.preset.drive.capacity_bytes, rel=0.1)


def run_on(drive: SimulatedDrive, request: Stimulus, seconds: float) -> float:
    """Continue a stimulus and return its bytes per second."""
    done = drive.run(request, seconds)
    return (done.read.transferred_bytes + done.write.transferred_bytes) / done.seconds


@pytest.mark.long
def test_writes_below_the_mapping_unit_are_slower() -> None:
    """A write below the mapping unit is a read-modify-write: 512 bytes have less than half the IOPS of 4 KiB."""
    drive = preconditioned("enterprise-nvme")
    demand = {"thread_count": 1, "queue_depth": 1}
    small, whole = (iops(run(drive, stimulus(drive.preset, 0, size, **demand))) for size in (512, 4096))
    assert small < 0.5 * whole


def test_a_disabled_volatile_cache_slows_writes() -> None:
    """With the write cache disabled and no protected buffer, IOPS of writes fall below a tenth."""
    preset = read_preset("client-qlc")
    without = dataclasses.replace(preset, drive=dataclasses.replace(preset.drive, write_cache="disabled"))
    request = stimulus(preset, thread_count=1, queue_depth=1)
    cached, direct = (iops(run(SimulatedDrive(variant, 1), request)) for variant in (preset, without))
    assert direct < cached / 10


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(preset_names()), reads=st.sampled_from([0, 40, 100]))
def test_the_same_seed_gives_the_same_counts(seed: int, name: str, reads: int) -> None:
    """Two drives of the same preset and seed agree in every count and bin."""
    first, second = (SimulatedDrive(read_preset(name), seed) for _ in range(2))
    mixed = stimulus(
        first.preset,
        reads,
        block=(BlockShare(size_bytes=512, percent=30), BlockShare(size_bytes=8192, percent=70)),
        skew=(Zone(access_percent=80, range_percent=20), Zone(access_percent=20, range_percent=80)),
    )
    one, other = (run(drive, mixed, 30) for drive in (first, second))
    assert (one.read.bins, one.write.bins, one.seconds) == (other.read.bins, other.write.bins, other.seconds)


def test_faults_occur_after_their_number_of_bytes() -> None:
    """Errors, hangs and throttling occur after the number of bytes in their setting, not before."""
    preset = read_preset("enterprise-nvme")
    for hangs, faults in ((False, Faults(error_after_bytes=1e12)), (True, Faults(hang_after_bytes=1e12))):
        drive = SimulatedDrive(dataclasses.replace(preset, faults=faults), 1)
        run(drive, stimulus(preset), 60)
        with pytest.raises(SimulatedFault) as caught:
            drive.run(stimulus(preset), 1e6)
        assert caught.value.hangs is hangs
    throttled = SimulatedDrive(
        dataclasses.replace(preset, faults=Faults(throttle_percent=60, throttle_after_bytes=5e11)), 1
    )
    before, after = (iops(run(throttled, stimulus(preset, 65, 128 * KIB), 200)) for _ in range(2))
    assert after < 0.6 * before


def test_an_invalid_preset_is_refused(tmp_path: Path) -> None:
    """An unknown preset, a missing file, an invalid value and an unknown key are refused; the message names them."""
    with pytest.raises(UsageError, match="no-such-drive"):
        read_preset("no-such-drive")
    with pytest.raises(SpecError, match="no such file"):
        read_preset("./no/such/file.toml")
    path = tmp_path / "mine.toml"
    text = (
        (PRESETS / "enterprise-nvme.toml")
        .read_text(encoding="utf-8")
        .replace("units = 64", "units = 0")
        .replace("noise_percent", "noisy")
    )
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_preset(str(path))
    assert "media.units" in str(caught.value)
    assert "noisy" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "replacement", "key"),
    [
        ("write_iops = 97_000.0", "write_iops = 1e-300", "controller.write_iops"),
        ("program_us = 1350.0", "program_us = 1e18", "media.program_us"),
        ("capacity_bytes = 960_197_124_096", "capacity_bytes = 102_400_000", "drive.capacity_bytes"),
        ("protected = true", "protected = 1", "controller.protected"),
        ("read_mb_per_second = 560.0", "read_mb_per_second = 601.0", "controller"),
        ("[media]", "[medium]", "medium"),
    ],
)
def test_implausible_preset_values_are_refused(line: str, replacement: str, key: str, tmp_path: Path) -> None:
    """An invalid value or unknown table is refused, and the message has its key."""
    text = (PRESETS / "enterprise-sata.toml").read_text(encoding="utf-8")
    assert line in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(line, replacement), encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_preset(str(path))
    assert key in str(caught.value)


def test_every_io_at_the_highest_demand_has_a_response_time() -> None:
    """The bins of a hard disk with 1024 threads at queue depth 1024 count all of its I/Os."""
    drive = SimulatedDrive(read_preset("hdd"), 1)
    done = run(drive, stimulus(drive.preset, 50, MIB, thread_count=1024, queue_depth=1024), 60)
    assert sum(done.read.bins.values()) == done.read.ios
    assert sum(done.write.bins.values()) == done.write.ios


@pytest.mark.parametrize("name", preset_names())
def test_presets_cite_their_sources(name: str) -> None:
    """Every preset lists the sources of its figures."""
    assert all(source.strip() for source in read_preset(name).sources)
    assert read_preset(name).sources


def test_the_power_of_a_preset_is_its_idle_power_and_the_energy_of_its_io() -> None:
    """Computed by hand for two seconds; a preset without power has none, and an idle time has the idle power."""
    power = read_preset("enterprise-nvme-sensors").power
    assert power is not None
    changed = dataclasses.replace(
        power, idle_watts=5.0, microjoules_per_io=3.0, joules_per_read_gb=2.0, joules_per_written_gb=4.0
    )

    assert changed.watts(2.0, 1_000_000, 10e9, 5e9) == pytest.approx(5.0 + (3.0 + 20.0 + 20.0) / 2)
    assert changed.watts(2.0, 0, 0.0, 0.0) == changed.watts(0.0, 0, 0.0, 0.0) == 5.0
    assert read_preset("enterprise-nvme").power is None
