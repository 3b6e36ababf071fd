# SPDX-License-Identifier: Apache-2.0
leat load /mnt/train
leat load /mnt/train
leat free /mnt/train
# One that runs for as long as the page is read: the store says nothing any more.
kill -STOP "$STORE_PID"
leat load --background /mnt/train
await '4  load  running  0/4' leat jobs
