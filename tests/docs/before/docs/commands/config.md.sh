# SPDX-License-Identifier: Apache-2.0
leat umount /mnt/train
mkdir -p /etc/leat
printf '[cache]\nsize = "20GiB"\n\n[log]\nlevel = "debug"\n' >/etc/leat/leat.toml
leat mount s3://my-bucket/train /mnt/train
