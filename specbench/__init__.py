"""Measure speculative decoding, explain it with theory, and say which draft length to use."""
