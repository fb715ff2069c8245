"""One file per figure: a data frame of measured points in, a matplotlib ``Figure`` out.

A figure module has ``draw(points: pandas.DataFrame) -> matplotlib.figure.Figure``; the frame is the
one that :func:`specbench.analysis.frame.points_frame` builds and documents. The first line of the
module's docstring is what ``specbench plot --help`` and the list of figures show. No figure touches
``pyplot``, so drawing has no global state and needs no display.
"""
