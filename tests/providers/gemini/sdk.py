"""Google's own SDK, imported without the warnings of its own source."""

import warnings

with warnings.catch_warnings():
    # Python warns about an escape in it when it compiles it for the first time.
    warnings.simplefilter("ignore")
    from google import genai
    from google.genai import errors, types

__all__ = ["errors", "genai", "types"]
