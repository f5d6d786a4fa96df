"""Fail if a firmware made a drive slower: ``python firmware_check.py OLD_RUN NEW_RUN [PERCENT]``.

Exit code 1 if a figure of the measurement window is significantly worse, by more than 5 % or PERCENT.
"""

import sys

import snia_pts as pts

old, new = map(pts.load, sys.argv[1:3])
tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 5.0
worse = []
for figure in old.figures:
    if not (figure.better and len(figure.rounds) > 1):
        continue
    change = pts.difference(figure.rounds, new.figure(figure.metric, figure.at).rounds)
    loss = 0.0 if change is None else -change.percent if figure.better == "more" else change.percent
    if change and change.significant and loss > tolerance:
        worse.append(f"{figure.name}: {loss:.1f} % worse ({change.low:+.1f} to {change.high:+.1f} %)")
print("\n".join(worse) or f"no figure is more than {tolerance:g} % worse")
sys.exit(1 if worse else 0)
