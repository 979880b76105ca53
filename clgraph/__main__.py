"""``python -m clgraph`` and the script ``clgraph``: the command line."""

import sys

INTERRUPTED = 130
"""The status that shells give what Ctrl-C ends."""


def main() -> None:
    """Run the command line as :func:`clgraph.cli.main`; Ctrl-C while it is imported is told as later."""
    try:
        from clgraph.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
