"""`python -m lt2theory` is the console script `lt2`."""

import sys

from lt2theory.cli import main

if __name__ == "__main__":
    sys.exit(main())
