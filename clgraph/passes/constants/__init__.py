"""Values that are known before a run."""
