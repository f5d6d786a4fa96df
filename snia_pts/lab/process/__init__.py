"""Start programs; no other package does."""
