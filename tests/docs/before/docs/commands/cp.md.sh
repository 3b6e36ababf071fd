# SPDX-License-Identifier: Apache-2.0
mkdir results
echo '{"accuracy": 0.98}' >results/metrics.json
echo 'unfinished' >results/part.tmp
