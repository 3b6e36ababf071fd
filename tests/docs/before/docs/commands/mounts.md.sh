# SPDX-License-Identifier: Apache-2.0
mkdir -p /mnt/val /mnt/data
if [[ $1 == page ]]; then
  leat mount s3://my-bucket/train/labels /mnt/val
else
  cp -a "$STORE_DATA/my-bucket/train" "$STORE_DATA/my-bucket/val"
fi
