"""How tokens are chosen: warping logits, the accept/reject rule, and keyed randomness."""
