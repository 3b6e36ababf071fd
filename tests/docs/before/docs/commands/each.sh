# SPDX-License-Identifier: Apache-2.0
# A folder as the pages of single commands have it, with nothing cached.
mkdir -p /mnt/train
leat mount s3://my-bucket/train /mnt/train --cache-size 8GiB --freshness immutable

# Waits for what a command shows: until 'leat jobs' shows done
shows() {
  local tries=200
  until "${@:1:$#-2}" 2>&1 | grep -q -- "${@: -1}"; do
    ((tries--)) || return 1
    sleep 0.05
  done
}
