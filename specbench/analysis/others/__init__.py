"""Others' numbers: their conventions, their result files, the published tables."""
