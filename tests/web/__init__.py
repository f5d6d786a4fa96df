"""Tests of the pages and the API of ``snia-pts serve``."""
