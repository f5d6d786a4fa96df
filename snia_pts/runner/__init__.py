"""Runs tests: sets up the target, asks for confirmation, performs and records.  No argparse, print or prompt."""
