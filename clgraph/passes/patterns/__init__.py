"""Rewrites of what a model spells into what clgraph has."""
