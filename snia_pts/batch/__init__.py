"""Tests of several drives of one host, side by side, each as a process of its own."""
