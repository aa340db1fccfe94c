"""`python -m antiphon` is the `antiphon` command."""

import sys

from antiphon.cli import main

sys.exit(main())
