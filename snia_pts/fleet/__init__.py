"""Tests on many hosts: requests for runs, which each host checks against its own configuration and starts once."""
