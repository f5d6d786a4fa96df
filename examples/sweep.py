"""Sweep a parameter: random write IOPS and response time over the queue depth, as CSV: ``python sweep.py FOLDER``."""

import sys
from pathlib import Path

import snia_pts as pts

OVERRIDES = ["rounds.block_sizes_kib=[4]", "rounds.read_percents=[0]", "rounds.point_seconds=5"]
TRACKED = 'steady_state.tracked=[{metric="iops", block_size_kib=4, read_percent=0}]'

print("queue_depth,iops,average_response_ms,steady")
for depth in (1, 4, 16, 64):
    run = pts.run(
        pts.RunOptions(
            test="iops",
            target="sim:enterprise-nvme",
            overrides=[*OVERRIDES, TRACKED, f"setup.queue_depth={depth}"],
            run_folder=Path(sys.argv[1], f"depth-{depth}"),
            formats=[],
        )
    )
    at = "RND 4 KiB 0/100"
    iops, response = (run.figure(metric, at).value for metric in ("iops", "average_response_ms"))
    print(f"{depth},{iops:.0f},{response:.4f},{run.steady}")
