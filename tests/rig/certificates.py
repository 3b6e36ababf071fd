# SPDX-License-Identifier: Apache-2.0
"""Certificates, and who signed them, by openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY_KIND = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]


@dataclass
class Signer:
    """Signs certificates."""

    folder: Path

    def __post_init__(self):
        self.folder.mkdir(parents=True)
        openssl("req", "-x509", *KEY_KIND, "-keyout", self.folder / "ca.key", "-out", self.ca,
                "-subj", "/CN=test CA", "-addext", "basicConstraints=critical,CA:TRUE")

    @property
    def ca(self):
        return self.folder / "ca.pem"

    def certificate(self, name, address="127.0.0.1", days=2, subject=None):
        """(certificate, key) for both ends of a connection; of the common name `name`, or `subject`."""
        made, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        kind = [*KEY_KIND[:-1], str(days)]
        openssl("req", "-x509", *kind, "-CA", self.ca, "-CAkey", self.folder / "ca.key",
                "-keyout", key, "-out", made, "-subj", subject or f"/CN={name}",
                "-addext", f"subjectAltName=IP:{address}",
                "-addext", "basicConstraints=critical,CA:FALSE",
                "-addext", "extendedKeyUsage=serverAuth,clientAuth")
        key.chmod(0o600)
        return made, key


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
