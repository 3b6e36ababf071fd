# SPDX-License-Identifier: Apache-2.0
if [[ $1 == page ]]; then
  (cd / && exec sleep 1000) </mnt/train/data.bin &
  await data.bin ls -l /proc/$!/fd
  await sleep cat /proc/$!/comm
fi
