# SPDX-License-Identifier: Apache-2.0
# fake-gcs-server, the Google Cloud Storage server of the tests. Result: $deps/bin/fake-gcs-server

fake_gcs_version=v1.56.1

need_fake_gcs() {
  local stamp=$deps/bin/.fake-gcs-server-$fake_gcs_version
  [[ -x $deps/bin/fake-gcs-server && -f $stamp ]] && return 0
  need_go
  say "building the GCS server fake-gcs-server $fake_gcs_version (two to three minutes the first time)"
  quietly "building fake-gcs-server" env GOBIN="$deps/bin" GOTOOLCHAIN="${GOTOOLCHAIN:-auto}" \
    CGO_ENABLED=0 go install "github.com/fsouza/fake-gcs-server@$fake_gcs_version"
  rm -f "$deps"/bin/.fake-gcs-server-*
  touch "$stamp"
}
