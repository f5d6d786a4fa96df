"""A second implementation of every figure that a report prints, in numpy, from the raw evidence alone."""
