"""Training draft heads and draft models on a target's own output (``specbench train-drafter``)."""
