# SPDX-License-Identifier: Apache-2.0
# What the reader comes from.
(umask 077 && echo "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" >~/.passwd-s3fs)
mkdir -p /mnt/s3fs
s3fs my-bucket:/train /mnt/s3fs -o "url=$AWS_ENDPOINT_URL" -o use_path_request_style
