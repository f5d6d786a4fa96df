"""The mail and the webhook's message about a run."""
