"""Which tests fit into a night: ``python plan_night.py TARGET HOURS``; touches nothing."""

import sys

import snia_pts as pts

left = float(sys.argv[2]) * 3600
for test in ("iops", "latency", "throughput", "wsat", "hir", "xsr"):
    try:
        estimate = pts.plan(pts.RunOptions(test=test, target=sys.argv[1])).plan.longest
    except pts.errors.SniaPtsError as refused:
        print(f"{test}: {refused} {refused.full_hint}")
        continue
    fits = estimate.seconds <= left
    left -= estimate.seconds if fits else 0
    written = estimate.written_bytes / 1e12
    print(f"{test}: {estimate.seconds / 3600:.1f} h, {written:.1f} TB written{'' if fits else ', does not fit'}")
