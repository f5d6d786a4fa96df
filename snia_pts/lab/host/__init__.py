"""The host: what it is, what it can do, and what is set on it for a run."""
