"""Plot the IOPS of runs over the block size: ``python plot_three_runs.py RUN RUN RUN FIGURE.svg``."""

import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import snia_pts as pts

*folders, file = sys.argv[1:]
figure, axes = pyplot.subplots()
for folder in folders:
    run = pts.load(folder)
    matrix = run.window_matrix("iops")
    kib = [size / 1024 for size in matrix.axes["block_size_bytes"]]
    axes.loglog(kib, matrix.at(read_percent=0), marker="o", label=f"{run.device.model}, {run.verdict}")
axes.set_xlabel("block size, KiB")
axes.set_ylabel("random write IOPS")
axes.legend()
figure.savefig(file)
