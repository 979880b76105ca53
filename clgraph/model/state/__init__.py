"""State: what a run leaves for the next one, found in a topology and kept in memory."""
