"""Passes that a target may bring."""
