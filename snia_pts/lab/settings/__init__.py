"""What is changed outside the suite for a run, and put back after it."""
