# SPDX-License-Identifier: Apache-2.0
cat /mnt/train/0001.png >/dev/null
leat cat --size 4KiB /mnt/train/data.bin >/dev/null
# Small objects are listed when they have a segment.
await 0001.png leat cache ls
if [[ $1 == examples ]]; then
  cp -a "$STORE_DATA/my-bucket/train" "$STORE_DATA/my-bucket/old"
  mkdir -p /mnt/old /mnt/nvme
  leat mount s3://my-bucket/old /mnt/old
  leat load /mnt/old
  leat cache format /mnt/hdd/leat
fi
