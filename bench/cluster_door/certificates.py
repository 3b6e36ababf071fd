# SPDX-License-Identifier: Apache-2.0
"""Certificates for workers and clients of one network, and who signed them, by openssl."""

from dataclasses import dataclass
from pathlib import Path

from folder_door.link import run

KEY_KIND = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]


@dataclass(frozen=True)
class Certificates:
    ca: Path
    certificate: Path
    key: Path

    def settings(self):
        """Of a worker."""
        return {"LEAT_WORKER_CA": str(self.ca), "LEAT_WORKER_CERTIFICATE": str(self.certificate),
                "LEAT_WORKER_KEY": str(self.key)}

    def words(self):
        return [self.ca, self.certificate, self.key]


def make(folder, addresses):
    """One certificate for all of these, for both ends of a connection."""
    folder.mkdir(parents=True)
    made = Certificates(folder / "ca.pem", folder / "host.pem", folder / "host.key")
    names = ",".join(f"IP:{address}" for address in addresses)
    run("openssl", "req", "-x509", *KEY_KIND, "-keyout", folder / "ca.key", "-out", made.ca,
        "-subj", "/CN=bench CA", "-addext", "basicConstraints=critical,CA:TRUE")
    run("openssl", "req", "-x509", *KEY_KIND, "-CA", made.ca, "-CAkey", folder / "ca.key",
        "-keyout", made.key, "-out", made.certificate, "-subj", "/CN=bench",
        "-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE",
        "-addext", "extendedKeyUsage=serverAuth,clientAuth")
    made.key.chmod(0o600)
    return made
