# SPDX-License-Identifier: Apache-2.0
# versitygw, the S3 server of the tests, the demo and the benchmarks: real signatures, conditional
# and ranged reads, over a folder. Result: $deps/bin/versitygw

versitygw_version=v1.8.0

need_store_server() {
  local stamp=$deps/bin/.versitygw-$versitygw_version
  [[ -x $deps/bin/versitygw && -f $stamp ]] && return 0
  need_go
  say "building the S3 server versitygw $versitygw_version (two to three minutes the first time)"
  quietly "building versitygw" env GOBIN="$deps/bin" GOTOOLCHAIN="${GOTOOLCHAIN:-auto}" CGO_ENABLED=0 \
    go install "github.com/versity/versitygw/cmd/versitygw@$versitygw_version"
  rm -f "$deps"/bin/.versitygw-*
  touch "$stamp"
}
