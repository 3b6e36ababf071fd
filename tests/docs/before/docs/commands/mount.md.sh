# SPDX-License-Identifier: Apache-2.0
leat umount /mnt/train
mkdir -p /mnt/x "$STORE_DATA/my-bucket/x"
echo x >"$STORE_DATA/my-bucket/x/file"
