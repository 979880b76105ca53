"""What ``clgraph demo`` shows: reading text from pictures, as a Python API of its own."""
