"""What the machine does while models run: clocks, memory, bandwidth, the GPU's own counters.

Seconds, bytes and joules only; what cannot be measured is ``None`` with a reason, never 0.
"""
