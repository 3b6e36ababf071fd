# SPDX-License-Identifier: Apache-2.0
"""A machine to install packages on: this one's files with what is changed kept apart (overlayfs in
memory), in namespaces of its own. Processes and mounts end with it, and nothing of this machine changes."""

import subprocess
from pathlib import Path

from rig.process import wait_until

# As the first process it takes in what nobody else waits for.
INSIDE = """
set -e
cd {own}
mount -t tmpfs -o mode=755 leat-test {own}
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
mount --rbind /dev root/dev
mount -t proc proc root/proc
mount -t sysfs sysfs root/sys
mount -t tmpfs -o mode=755 tmpfs root/run
# As udev has it: everybody's.
mknod -m 666 root/run/fuse c 10 229
mount --bind root/run/fuse root/dev/fuse
mount --bind {shared} root{shared}
exec chroot root bash -c 'touch /run/up; sleep infinity & while :; do wait; done'
"""


class Machine:
    """`folder` is there under its own path; what is in it lies on a disk."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.shared = self.folder / "shared"
        own = self.folder / "machine"
        self.shared.mkdir()
        own.mkdir()
        self.folder.chmod(0o755)  # for its other users; before its files are those of the machine
        script = INSIDE.format(own=own, shared=self.shared)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child",
             "--propagation", "private", "bash", "-c", script], stdin=subprocess.DEVNULL)
        self.pid = 0
        try:
            wait_until(self._is_up, "the machine to be up")
        except BaseException:
            self.close()
            raise

    def _is_up(self):
        assert self.holder.poll() is None, "the machine did not come up"
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text()
        self.pid = int(children.split()[0]) if children else 0
        return self.pid and self.path("run/up").exists()

    def words(self, *command):
        return ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--ipc", "--root",
                "--wd=/", "--", *map(str, command)]

    @staticmethod
    def environment(**more):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                # Any port: that of the configuration may be another daemon's.
                "LEAT_TELEMETRY_LISTEN": "127.0.0.1:0", **more}

    def run(self, *command, check=True, timeout_s=120, **environment):
        done = subprocess.run(self.words(*command), capture_output=True, text=True, check=False,
                              env=self.environment(**environment), stdin=subprocess.DEVNULL,
                              timeout=timeout_s)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}: "
                                 f"{done.stderr}{done.stdout}")
        return done

    def start(self, *command, **environment):
        return subprocess.Popen(self.words(*command), env=self.environment(**environment),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def path(self, inside):
        """The file `inside`, seen from outside."""
        return Path(f"/proc/{self.pid}/root") / str(inside).lstrip("/")

    def write(self, inside, text, mode=0o644):
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def mounts(self, kind="fuse.leat"):
        """Mount points of this kind, innermost last."""
        lines = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        return [line.split()[4] for line in lines if f" - {kind} " in line]

    def programs(self):
        """Names of the processes, without the first one's."""
        return sorted(self.run("ps", "-e", "-o", "comm=").stdout.split())

    def close(self):
        # The kernel kills what is in the namespace with its first process.
        self.holder.kill()
        self.holder.wait()
