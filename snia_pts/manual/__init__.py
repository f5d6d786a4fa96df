"""The manual: the pages of the documentation, and the lists in them that are made from the code."""
