"""What users add: operators by a decorator."""
