"""Judge anybody's numbers by the rule of the standard: ``python steady_state_of_csv.py FILE.csv COLUMN``.

The file has a header and a line for each round.
"""

import csv
import sys
from pathlib import Path

import snia_pts as pts

with Path(sys.argv[1]).open(newline="") as file:
    values = [float(row[sys.argv[2]]) for row in csv.DictReader(file)]
try:
    state = pts.steady_state(values)
except pts.errors.UsageError as error:
    sys.exit(f"{error} {error.hint}")
print(f"rounds {state.rounds[0]} to {state.rounds[-1]}: {'steady' if state.steady else 'not steady'}")
print(f"average {state.average:.6g}, range {state.data_excursion:.4g}, slope {state.slope:.4g} per round")
