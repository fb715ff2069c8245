"""One file per figure: data frames of what was measured in, a matplotlib ``Figure`` out.

A figure module has ``draw(points: pandas.DataFrame) -> matplotlib.figure.Figure``; the frame is the
one that :func:`specbench.analysis.shown.frame.points_frame` builds and documents. The parameter's
name says which frame it wants: ``points``, or ``positions`` or ``forwards`` of
:mod:`specbench.analysis.shown.more_frames`. What can't be drawn from a run is one SpecbenchError,
never an empty picture. The first line of the module's docstring is what ``specbench plot --list``
shows. No figure touches ``pyplot``, so drawing has no global state and needs no display.
"""
