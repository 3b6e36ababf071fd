# SPDX-License-Identifier: Apache-2.0
# pjdfstest and fsx, which try mounts that take writes (tests/e2e/posix_suites_test.py). crates.io has
# them as sources, with the versions of what they depend on.
# Result: $deps/pjdfstest -> pjdfstest-<version>, $deps/fsx -> fsx-<version>, each with bin/

pjdfstest_version=0.2.2
fsx_version=0.3.2

# need_crate NAME VERSION
need_crate() {
  local name=$1 version=$2
  local prefix=$deps/$name-$version
  if [[ ! -f $prefix/.complete ]]; then
    need_rust
    say "building $name $version (about a minute)"
    rm -rf "$prefix"
    quietly "building $name" cargo install --locked --version "$version" --root "$prefix" "$name"
    [[ -x $prefix/bin/$name ]] || fail "the crate $name $version does not hold bin/$name as expected"
    touch "$prefix/.complete"
  fi
  ln -sfn "$name-$version" "$deps/$name"
}

need_posix_suites() {
  need_crate pjdfstest "$pjdfstest_version"
  need_crate fsx "$fsx_version"
}
