"""The decoding loop: autoregressive baseline and speculative rounds over one cache."""
