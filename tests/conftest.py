"""Settings shared by every test."""

from hypothesis import settings

# A slow machine is no failure, and each run looks at new examples.
settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("ci")
