"""Tile functions: implementations for CPU devices."""
