"""A simulated SSD behind the laboratory's seam: tests of full length in virtual time."""
