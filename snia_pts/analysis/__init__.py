"""Arithmetic on what was measured: steady state, operating points, recovery, what the host limits."""
