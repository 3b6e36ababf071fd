# SPDX-License-Identifier: Apache-2.0
mkdir -p /mnt/val /opt/leat-next/bin
leat mount s3://my-bucket/train/labels /mnt/val
ln -s /usr/local/bin/leat /opt/leat-next/bin/leat
