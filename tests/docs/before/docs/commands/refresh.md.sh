# SPDX-License-Identifier: Apache-2.0
ls -lR /mnt/train >/dev/null
echo 'a picture' >"$STORE_DATA/my-bucket/train/0004.png"
echo '1 1' >"$STORE_DATA/my-bucket/train/labels/train.txt"
