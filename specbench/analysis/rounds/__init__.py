"""What rounds cost and give: sums, costs in units of T1, the extended model, the gap to it."""
