# SPDX-License-Identifier: Apache-2.0
"""A mount of a server that has nothing but a listing, for the layers `names` and `fuse`."""

import contextlib
import subprocess
import sys
from pathlib import Path

from rig.leat import Leat

SERVER = Path(__file__).resolve().parent / "list_server.py"


@contextlib.contextmanager
def mounted_listing(folder, names, *layout, source="s3://bucket/", farther=contextlib.nullcontext):
    """A daemon with a mount of list_server.py: (leat, mount). `farther`: from the server's port to a
    context of another, from which the server is far away."""
    server = subprocess.Popen([sys.executable, SERVER, str(names), *layout],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    leat, mount = Leat(folder), folder / "mnt"
    mount.mkdir(exist_ok=True)
    credentials = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    far = contextlib.ExitStack()
    try:
        port = server.stdout.readline().strip()
        port = far.enter_context(farther(port))
        leat.run("mount", source, mount, "--option", f"endpoint=http://127.0.0.1:{port}",
                 "--option", "region=us-east-1", "--cache-dir", leat.cache_dir,
                 "--cache-size", "1GiB", "--freshness", "max-age=1h", "--no-probe",
                 credentials=credentials)
        yield leat, mount
    finally:
        leat.close()
        far.close()
        server.stdin.close()
        server.wait()
