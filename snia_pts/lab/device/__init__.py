"""The target: identify it, find out who uses it, and claim it for a test or refuse it."""
