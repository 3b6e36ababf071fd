# SPDX-License-Identifier: Apache-2.0
cat /mnt/train/0001.png >/dev/null
leat cat --size 4KiB /mnt/train/data.bin >/dev/null
# What was read is on the disk a moment later.
await '100%.*0001.png' leat ls -l /mnt/train
await '2%.*data.bin' leat ls -l /mnt/train
