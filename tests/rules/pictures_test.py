# SPDX-License-Identifier: Apache-2.0
"""Pictures that tools draw from pages are those of the pages as they are."""

import subprocess

from rules.rules_test import ROOT


def test_demo_picture_is_of_its_page(tmp_path):
    subprocess.run([ROOT / "tools" / "demo_picture", tmp_path / "demo.svg"], check=True)
    drawn = (tmp_path / "demo.svg").read_text()
    assert drawn == (ROOT / "docs" / "pictures" / "demo.svg").read_text(), "run tools/demo_picture"
