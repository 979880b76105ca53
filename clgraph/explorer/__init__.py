"""The explorer: what the passes made of a model, as one HTML file that a browser shows without a network."""
