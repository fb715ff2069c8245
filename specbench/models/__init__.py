"""Models: finding and loading them, and (with torch) the target, its cache and what they support.

Importing this package loads nothing: ``catalog`` and ``embedded`` work without torch.
"""
