"""The application behind ``clgraph demo``: reading text from pictures, with a Python API of its own."""
