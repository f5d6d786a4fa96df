"""The verb ``raid-estimate`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb
from ..model.raid import DISKS, LINKS


def add_raid_estimate(add: AddVerb) -> None:
    """Add the parser of ``raid-estimate``."""
    parser = add("raid-estimate", help="estimate the load on the disks of an array, and its limits")
    parser.description = (
        "Estimates the load on the disks of an array for required IOPS, the IOPS that the array can carry, and the "
        "throughput of fabric and disks. Touches no device."
    )
    parser.set_defaults(verb=LazyVerb("snia_pts.arrays.commands:raid_estimate"))
    parser.add_argument("--level", metavar="N", type=int, required=True, help="0, 1, 5, 6 or 10")
    parser.add_argument("--disks", metavar="N", type=int, required=True, help="number of disks")
    parser.add_argument("--iops", metavar="N", type=float, help="required IOPS of the array")
    parser.add_argument("--read-percent", metavar="P", type=float, help="percentage of reads in these IOPS")
    parser.add_argument(
        "--cache-hit-percent", metavar="P", type=float, default=0.0, help="percentage of reads that hit the cache (0)"
    )
    parser.add_argument(
        "--disk",
        metavar="KIND",
        choices=DISKS,
        help=f"kind of disk, whose IOPS and throughput are used unless given: {', '.join(DISKS)}",
    )
    parser.add_argument("--disk-iops", metavar="N", type=float, help="IOPS of one disk")
    parser.add_argument("--disk-mb-per-second", metavar="N", type=float, help="throughput of one disk")
    parser.add_argument("--links", metavar="N", type=int, help="number of links, or lanes, to the array (1)")
    link = parser.add_mutually_exclusive_group()
    link.add_argument("--link-gbit", metavar="N", type=float, help="speed of a link in Gb/s, 8 bits per byte")
    link.add_argument("--link", metavar="KIND", choices=LINKS, help=f"kind of link: {', '.join(LINKS)}")
    parser.add_argument("--json", action="store_true", help="as JSON")
