# SPDX-License-Identifier: Apache-2.0
"""Every command of the documentation is run."""
