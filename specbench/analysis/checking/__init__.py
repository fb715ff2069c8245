"""What a run says against itself: numbers that cannot be, cells that are missing, what to know."""
