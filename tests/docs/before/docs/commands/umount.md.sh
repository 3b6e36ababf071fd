# SPDX-License-Identifier: Apache-2.0
if [[ $1 == page ]]; then
  (cd / && exec sleep 1000) </mnt/train/data.bin &
  shows ls -l /proc/$!/fd shows data.bin
fi
