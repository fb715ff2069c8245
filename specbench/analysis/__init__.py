"""From the records of a run to answers, without torch.

pooling        which cells belong together, their raw tables joined
fit, fitted    what a run says about each drafter, with intervals; what that is called
checking       what a run says against itself
acceptance     whether one alpha describes a drafter; traces of a text
rounds         what rounds cost and give; the extended model; the gap to the closed form
prediction     each gamma from the others
machine        bandwidth, memory, waits, and how far from the limits
recommending   what to use, and when not to speculate
comparing      two runs side by side
claims         what the literature says, held against a run
others         others' conventions, result files and published tables
shown          fits as people, scripts and figures read them
"""
