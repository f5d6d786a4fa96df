"""snia-pts: runs the SNIA Solid State Storage Performance Test Specification on a drive."""

__version__ = "0.1.0"
