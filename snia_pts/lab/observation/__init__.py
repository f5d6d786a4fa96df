"""Read what the kernel reports about drive and host during a run."""
