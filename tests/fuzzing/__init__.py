"""Hostile input: every parser of the suite, and inputs that are nearly valid, or not at all."""
