# SPDX-License-Identifier: Apache-2.0
# The data as it was on Tuesday; on Monday it was as it is now.
cp -a "$STORE_DATA/my-bucket/train" /fast/monday
echo 'a picture' >"$STORE_DATA/my-bucket/train/0003.png"
echo '1 1' >"$STORE_DATA/my-bucket/train/labels/train.txt"
leat snapshot build /mnt/train --name tuesday
rm -r "$STORE_DATA/my-bucket/train"
cp -a /fast/monday "$STORE_DATA/my-bucket/train"
leat refresh /mnt/train
if [[ $1 == examples ]]; then
  leat snapshot build /mnt/train --name monday
fi
