# SPDX-License-Identifier: Apache-2.0
echo data.bin >epoch.txt
