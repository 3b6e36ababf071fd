# SPDX-License-Identifier: Apache-2.0
leat load /mnt/train >/dev/null
