"""Pages and parts of pages that several tests share."""
