"""A folder of models served over the Open Inference Protocol, by REST and gRPC; started by ``clgraph serve``."""
