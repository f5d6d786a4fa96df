"""Run a test in a process of its own, follow it, and stop it after some rounds: ``python follow_job.py FOLDER ROUNDS``.

The process goes on if this one ends; ``snia_pts.follow(FOLDER)`` follows it from anywhere.
"""

import sys

import snia_pts as pts

folder, rounds = sys.argv[1], int(sys.argv[2])
job = pts.start(pts.RunOptions(test="iops", target="sim:enterprise-nvme", run_folder=folder, formats=[]))
print(f"process {job.pid} runs in {job.path}")
for event in job.events():
    if isinstance(event, pts.events.RoundEvaluated):
        print(f"round {event.evaluated_round.number}")
        if event.evaluated_round.number >= rounds:
            job.stop(at_once=True)
try:
    print(job.wait())
except pts.errors.Interrupted as stopped:
    print(f"{stopped}\n{stopped.full_hint}")
