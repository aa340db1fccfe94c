"""Failed assertions of the shared suite are explained like those of any test."""

import pytest

pytest.register_assert_rewrite("tests.store.conformance")
