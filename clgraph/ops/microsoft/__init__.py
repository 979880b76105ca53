"""Operators of the domain com.microsoft, which ONNX Runtime's optimiser, quantiser and exporters write.

Nearly all are compositions of ONNX's: they leave no node of their own. What they mean is what ONNX Runtime computes.
"""
