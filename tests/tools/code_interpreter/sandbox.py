"""Whether the sandbox can be tested here."""

import os
import shutil

import pytest

CAN_BE_INSTALLED = os.geteuid() == 0 and shutil.which("apt-get") is not None
needs_sandbox = pytest.mark.skipif(
    shutil.which("bwrap") is None and not CAN_BE_INSTALLED,
    reason="THE SANDBOX IS NOT TESTED: bubblewrap is missing (scripts/packages)",
)
