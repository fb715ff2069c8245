"""From a model's name to a loaded torch module: finding, fetching, checking, converting weights.

Importing this package loads nothing: ``catalog`` and ``embedded`` work without torch.
"""
