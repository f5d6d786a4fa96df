"""What came of a test: the result, its builder, key figures, limits, comparison."""
