"""From the records of a run to answers, without torch.

``fit`` turns a run's rounds into alpha, c, v and the overhead of every group, with intervals and
the predictions beside the measurement; ``model`` is the extended model of one group;
``recommending`` turns groups into recommendations; ``frame`` gives figures their data frame,
``documents`` gives scripts their JSON and CSV.
"""
