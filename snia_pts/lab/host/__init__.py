"""The host: its facts, its capabilities, and its settings for a run."""
