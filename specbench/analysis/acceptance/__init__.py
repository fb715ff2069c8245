"""What a drafter's acceptance is like: the verdict on one alpha, and traces of a text."""
