"""The mail on a run."""
