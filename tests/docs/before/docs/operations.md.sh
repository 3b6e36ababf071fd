# SPDX-License-Identifier: Apache-2.0
# A host as the page says it is, with something cached.
mkdir -p /etc/leat /mnt/train
cat >/etc/leat/leat.toml <<'END'
[cache]
directory = "/fast/one"
size = "2GiB"

[fetch]
requests_per_store_max = 32

[log]
level = "info"
END
leat mount s3://my-bucket/train /mnt/train --freshness immutable
leat load /mnt/train
