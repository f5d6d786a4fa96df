"""Run the IOPS test on a simulated drive and show its progress: ``python simulate.py FOLDER``."""

import sys

import snia_pts as pts


def show(event):
    """Print each round with its verdict."""
    if isinstance(event, pts.events.RoundEvaluated):
        window = event.window
        state = "steady" if window and window.steady else "not steady" if window else "too few rounds"
        print(f"round {event.evaluated_round.number}: {state}")


options = pts.RunOptions(test="iops", target="sim:enterprise-nvme", run_folder=sys.argv[1], formats=["html"])
print(f"{pts.plan(options).plan.longest.seconds / 3600:.1f} h at most on a real drive of this speed")
run = pts.run(options, on_event=show)
print(run)
