# SPDX-License-Identifier: Apache-2.0
cat /mnt/train/0001.png >/dev/null
leat cat --size 4KiB /mnt/train/data.bin >/dev/null
