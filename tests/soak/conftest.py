# SPDX-License-Identifier: Apache-2.0
"""The fixtures of tests/e2e."""

from e2e.conftest import bucket, leat, s3, scale, seed, store  # noqa: F401
