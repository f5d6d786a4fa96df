"""The page of running and stored tests: ``snia-pts serve``."""
