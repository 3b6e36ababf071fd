# SPDX-License-Identifier: Apache-2.0
# A folder as the pages of single commands have it, with nothing cached.
mkdir -p /mnt/train
leat mount s3://my-bucket/train /mnt/train --cache-size 8GiB --freshness immutable

# await TEXT COMMAND…: until the command prints it
await() {
  local text=$1 tries=200
  shift
  until "$@" 2>&1 | grep -q -- "$text"; do
    ((tries--)) || return 1
    sleep 0.05
  done
}
