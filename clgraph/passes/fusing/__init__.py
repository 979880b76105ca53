"""Rewrites that leave fewer nodes, or cheaper ones."""
