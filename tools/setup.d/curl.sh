# SPDX-License-Identifier: Apache-2.0
# libcurl >= 8, which the store client is measured against; Debian 12 has 7.88. Built from the source
# package of Debian 13.
# Result: $deps/curl-<version>/{include, lib/libcurl.a}, reached by the link $deps/curl.

curl_suite=trixie

need_curl() {
  local work version prefix
  [[ -f $deps/curl/lib/libcurl.a ]] && return 0
  work=$(mktemp -d "$deps/.curl.XXXXXX")
  say "building libcurl from the source package of Debian $curl_suite (about two minutes)"
  unpack_debian_source "$curl_suite" curl "$work"
  version=$(upstream_version "$work" curl)
  version_at_least "$version" 8.0 || fail "Debian $curl_suite has libcurl $version, 8 is needed"
  prefix=$deps/curl-$version
  rm -rf "$prefix"
  quietly "configuring libcurl" cmake -S "$work/source" -B "$work/build" -G Ninja \
    -DCMAKE_C_COMPILER=clang-19 -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DBUILD_STATIC_LIBS=ON \
    -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DBUILD_LIBCURL_DOCS=OFF -DBUILD_MISC_DOCS=OFF \
    -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF \
    -DUSE_NGHTTP2=OFF -DUSE_LIBIDN2=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF
  quietly "building libcurl" ninja -C "$work/build" install
  ln -sfn "curl-$version" "$deps/curl"
  rm -rf "$work"
  say "libcurl $version is in $prefix"
}
