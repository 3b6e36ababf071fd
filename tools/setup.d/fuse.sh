# SPDX-License-Identifier: Apache-2.0
# libfuse >= 3.17 (passthrough) as a static library. Debian 12 has 3.14, so it is built from the
# source package of Debian's development suite, whatever version that carries the first time; the
# version found is recorded by the link $deps/fuse -> fuse-<version> and kept from then on.
# Result: $deps/fuse-<version>/{include/fuse3, lib/libfuse3.a, lib/pkgconfig/fuse3.pc}

fuse_version_min=3.17
fuse_suite=sid
# Raised when the build below changes, so that an older result is built again.
fuse_recipe=1

fuse_is_built() {
  [[ -f $deps/fuse/lib/pkgconfig/fuse3.pc && -f $deps/fuse/.recipe-$fuse_recipe ]] || return 1
  version_at_least "$(PKG_CONFIG_PATH=$deps/fuse/lib/pkgconfig pkg-config --modversion fuse3)" \
    "$fuse_version_min"
}

build_fuse() {
  local work=$1 prefix=$2 uring=$3
  quietly "configuring libfuse" env CC=clang-19 meson setup "$work/build" "$work/source" \
    --prefix "$prefix" --libdir lib --buildtype release --default-library static \
    -Db_lto=false -Dexamples=false -Dutils=false -Dtests=false -Duseroot=false \
    -Dinitscriptdir= -Denable-io-uring="$uring"
  quietly "building libfuse" ninja -C "$work/build"
  quietly "installing libfuse into $prefix" ninja -C "$work/build" install
}

need_fuse() {
  local work version prefix
  fuse_is_built && return 0
  work=$(mktemp -d "$deps/.fuse.XXXXXX")
  say "building libfuse from the source package of Debian $fuse_suite (about a minute)"
  unpack_debian_source "$fuse_suite" fuse3 "$work"
  version=$(sed -n "s/^project('libfuse3',.*version: '\([0-9.]*\).*/\1/p" "$work/source/meson.build" |
    head -n 1)
  [[ -n $version ]] || version=$(upstream_version "$work" fuse3)
  version_at_least "$version" "$fuse_version_min" ||
    fail "Debian $fuse_suite has libfuse $version, but $fuse_version_min or newer is needed"
  prefix=$deps/fuse-$version
  rm -rf "$prefix"
  # Debian 12's liburing 2.3 lacks what some libfuse versions ask for: then do without.
  if (build_fuse "$work" "$prefix" true) 2>/dev/null; then
    say "libfuse $version has FUSE over io_uring"
  else
    rm -rf "$work/build" "$prefix"
    build_fuse "$work" "$prefix" false
    say "libfuse $version built without io_uring: this machine's liburing is too old for it"
  fi
  touch "$prefix/.recipe-$fuse_recipe"
  ln -sfn "fuse-$version" "$deps/fuse"
  rm -rf "$work"
  say "libfuse $version is in $prefix"
}
