"""Analysis of measurements: steady state, operating points, recovery, host limits, disturbances."""
