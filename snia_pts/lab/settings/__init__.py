"""Settings of the host and of drives that a run changes and restores."""
