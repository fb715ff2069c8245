"""A run as one HTML file that needs nothing else: the answer first, then what it rests on.

One file per section, in ``sections/``, found by name as figures are. A section module has

- a docstring whose first line says what it shows;
- ``TITLE``, its heading, and ``ORDER``, its place: below ``document.OPENING`` it comes before the
  list of contents;
- ``FIGURES``, the figures that belong into it, by name; those that no section claims are shown
  together in a section of their own;
- ``section(material) -> Sequence[Part]``: from the run to paragraphs, tables and pictures of
  :mod:`specbench.report.parts`. Without any the section is left out.

Sections give plain text and numbers; only ``templates/`` knows HTML, and escapes all of it.
"""
