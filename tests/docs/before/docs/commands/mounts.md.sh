# SPDX-License-Identifier: Apache-2.0
mkdir -p /mnt/val /mnt/data
leat mount s3://my-bucket/train/labels /mnt/val
