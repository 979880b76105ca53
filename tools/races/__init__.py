"""What ``tools/check_races`` does: kernels for GPUs, on small problems, in a simulator that checks memory and races."""
