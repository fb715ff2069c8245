"""Small networks that draft from the target's own states, and how they lie in files."""
