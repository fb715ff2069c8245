"""The sections of the report, one file each; :mod:`specbench.report` says what a file holds."""
