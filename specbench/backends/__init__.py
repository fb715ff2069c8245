"""What generates: one file per engine, found by name."""
