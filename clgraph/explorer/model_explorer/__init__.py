"""Google's Model Explorer: ``model-explorer model.onnx --extensions=clgraph.explorer.model_explorer``."""
