"""Other OpenCL implementations: installing them into a folder, and running clgraph on each."""
