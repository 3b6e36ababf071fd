# SPDX-License-Identifier: Apache-2.0
# A cluster on this machine runs until it is ended; here that is when it has said that all is up.
leat() {
  if [[ "$1 $2" != "cluster dev" ]]; then
    command leat "$@"
    return
  fi
  command leat "$@" >/run/dev.out &
  local dev=$!
  until grep -qs 'In another shell' /run/dev.out; do
    kill -0 "$dev" || return 1
    sleep 0.05
  done
  kill "$dev"
  wait "$dev"
}

# A worker of a cluster of one in place of the daemon that has the folder.
leat umount /mnt/train
mkdir -p /etc/leat /mnt/cluster
leat cluster secret /etc/leat/cluster.secret
while leat status >/dev/null 2>&1; do sleep 0.05; done
setsid leat worker --registry file:///etc/leat/registry.json >/dev/null 2>&1 </dev/null &
await 'active' leat cluster
