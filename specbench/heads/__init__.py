"""Small networks that draft from the target's own states (Medusa, EAGLE, EAGLE-3), and their files."""
