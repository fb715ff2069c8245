"""What cells made of the machine: bandwidth, memory, waits, and how far from the limits."""
