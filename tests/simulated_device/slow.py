"""A drive so slow and small that two busy cores can play it: 2000 writes a second FOB, some 900 in steady state."""

from __future__ import annotations

from snia_pts.lab.simulated.preset import Controller, Media

CAPACITY_BYTES = 16 << 20
MEDIA = Media(
    units=4,
    over_provisioning_percent=28.0,
    page_kib=4.0,
    mapping_kib=4.0,
    program_kib=4.0,
    read_us=800.0,
    program_us=2000.0,
)
CONTROLLER = Controller(
    link="sas-3",
    lanes=1,
    read_mb_per_second=200.0,
    write_mb_per_second=100.0,
    read_iops=4500.0,
    write_iops=2500.0,
    read_us=20.0,
    write_us=10.0,
    protected=True,
)
