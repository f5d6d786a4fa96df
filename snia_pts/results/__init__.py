"""The result of a test: its builder, warnings, key figures, limits and comparison."""
