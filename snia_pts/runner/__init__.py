"""Runs tests: sets up the target, asks for confirmation, performs and records.  No argparse, no print, no prompt."""
