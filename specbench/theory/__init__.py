"""The mathematics of speculative decoding: closed forms, estimators, intervals. Never torch."""
