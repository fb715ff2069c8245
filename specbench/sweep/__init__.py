"""The sweep: which cells there are, in which order they run, what survives a failure."""
