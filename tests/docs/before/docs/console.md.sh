# SPDX-License-Identifier: Apache-2.0
mkdir -p /mnt/train
leat mount s3://my-bucket/train /mnt/train
