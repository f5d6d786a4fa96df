"""Workload profiles: measurements outside the standard, each as workloads x axes x repeats (docs/profiles.rst)."""
