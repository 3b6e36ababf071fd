# SPDX-License-Identifier: Apache-2.0
# What runs in the foreground goes on beside the rest of the page, once it says that it is there; so do
# the machines 10.0.0.8 and 10.0.0.9, which start with the first one.
mkdir -p /mnt/cluster /mnt/data

# until_says TEXT FILE
until_says() {
  local tries=600
  until grep -q -- "$1" "$2"; do
    ((tries--)) || return 1
    sleep 0.05
  done
}

of_several() { LEAT_TELEMETRY_LISTEN=127.0.0.1:0 LEAT_FETCH_MEMORY_SIZE=256MiB command leat "$@"; }

worker_beside() {
  LEAT_RUNTIME_DIR=/run/worker$1 of_several worker --registry http://etcd1:2379 \
    --listen "10.0.0.$1:7480" --cache-dir "/fast/worker$1" --cache-size 1GiB \
    >"/run/worker$1.out" 2>&1 </dev/null &
  until_says 'Ctrl-C ends it' "/run/worker$1.out"
}

leat() {
  case "$1 $2" in
  "cluster dev")
    of_several "$@" >/run/dev.out 2>&1 </dev/null &
    until_says 'In another shell' /run/dev.out
    cat /run/dev.out
    ;;
  "worker "*)
    of_several "$@" >/run/worker.out 2>&1 </dev/null &
    until_says 'Ctrl-C ends it' /run/worker.out
    cat /run/worker.out
    worker_beside 8
    worker_beside 9
    until [[ $(command leat cluster --json | grep -c '"share": 0.[1-9]') == 3 ]]; do sleep 0.1; done
    ;;
  *) command leat "$@" ;;
  esac
}
