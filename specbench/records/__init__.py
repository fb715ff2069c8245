"""What a run writes and how it is read back: schema, store and the summary of raw rounds."""
