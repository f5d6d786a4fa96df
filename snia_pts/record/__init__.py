"""The run folder: writes and reads the files of a run (docs/formats.rst)."""
