"""From a model file, a saved model or a topology, with options, to a model that runs."""
