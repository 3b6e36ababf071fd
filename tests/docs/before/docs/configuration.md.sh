# SPDX-License-Identifier: Apache-2.0
printf '[cache]\nsize = "2GiB"\n' >leat.toml
