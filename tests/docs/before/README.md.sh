# SPDX-License-Identifier: Apache-2.0
# The script that a reader has, and the folders of the page.
mkdir -p /mnt/images /mnt/data /fast/disk
cp -a "$STORE_DATA/my-bucket/train/images" "$STORE_DATA/my-bucket/images"
cat >train.py <<'END'
import pathlib, sys
print(sum(len(one.read_bytes()) for one in pathlib.Path(sys.argv[1]).rglob("*.png")), "bytes")
END
