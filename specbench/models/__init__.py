"""A model as the engine sees it: the wrapper, its cache with per-row lengths, what it supports."""
