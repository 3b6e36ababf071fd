# SPDX-License-Identifier: Apache-2.0
mkdir -p ~/.config/fish/completions
