"""What proposes tokens: one file per kind, found by name."""
