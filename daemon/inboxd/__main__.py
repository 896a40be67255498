"""`python -m inboxd` is `inboxd`."""

import sys

from inboxd.cli import main

if __name__ == "__main__":
    sys.exit(main())
