"""The report of a workload profile: ``pages`` decides what there is, the others draw and tabulate it."""
