"""Fits as people, scripts and figures read them: names, formats, documents, frames."""
