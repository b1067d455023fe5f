"""`python -m reprise`: the same as `reprise`."""

import sys

from reprise.cli import main

if __name__ == "__main__":
    sys.exit(main())
