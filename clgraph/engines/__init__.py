"""From options to the devices that run a model, and what options do nothing there."""
