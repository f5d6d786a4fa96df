"""Simulate an SSD with the laboratory's interface, to run tests of full length in virtual time."""
