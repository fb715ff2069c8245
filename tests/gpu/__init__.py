"""Checks that need a CUDA device; each is a script that prints what it found and exits 0 or 1."""
