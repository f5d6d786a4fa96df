"""Speaks to people: arguments, prompts, progress, exit codes."""
