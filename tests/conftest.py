"""Settings shared by every test."""

import os

from hypothesis import settings

# A slow machine is no failure. Everybody's run looks at new examples, except the one that a change must pass.
settings.register_profile("exploring", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "exploring")
