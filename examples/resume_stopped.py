"""Resume every stopped run in a folder, on simulated drives: ``python resume_stopped.py FOLDER``.

A run on a drive needs its serial number: ``ResumeOptions(serial=...)``.
"""

import sys

import snia_pts as pts

for run in pts.load_many(sys.argv[1]):
    if run.ending == "finished":
        continue
    try:
        print(pts.resume(run.path))
    except pts.errors.NotResumable as refused:
        print(f"{run.path}: {refused.reason}")
