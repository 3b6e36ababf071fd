# SPDX-License-Identifier: Apache-2.0
mkdir -p /mnt/train
leat mount s3://my-bucket/train /mnt/train --freshness immutable --option io_timeout=1s
leat load /mnt/train
leat free /mnt/train/labels
kill -KILL "$STORE_PID"
! cat /mnt/train/labels/train.txt
