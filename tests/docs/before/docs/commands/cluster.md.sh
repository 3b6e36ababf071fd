# SPDX-License-Identifier: Apache-2.0
# A worker of a cluster of one in place of the daemon that has the folder.
leat umount /mnt/train
mkdir -p /etc/leat
leat cluster secret /etc/leat/cluster.secret
while leat status >/dev/null 2>&1; do sleep 0.05; done
setsid leat worker --registry file:///etc/leat/registry.json >/dev/null 2>&1 </dev/null &
await 'active' leat cluster
