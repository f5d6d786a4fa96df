"""The pages of each test."""
