# SPDX-License-Identifier: Apache-2.0
leat load /mnt/train
mkdir -p /mnt/val
leat mount s3://my-bucket/train/labels /mnt/val
