"""``python -m clgraph``: the command line."""

from clgraph.cli import main

if __name__ == "__main__":
    main()
