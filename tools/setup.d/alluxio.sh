# SPDX-License-Identifier: Apache-2.0
# Alluxio's master, worker and FUSE program, which the benchmarks run beside Leat, and a Java that
# runs them; alluxio/jars.sha256 lists the jars. Two sinks for its log would be one too many.
# Result: $deps/alluxio -> alluxio-<version>-<hash of the list>/{java, lib/*.jar}

need_alluxio() {
  local recipe=$here/setup.d/alluxio version prefix work java
  version=$(sed -n 's/.*<alluxio.version>\(.*\)<.*/\1/p' "$recipe/pom.xml")
  prefix=$deps/alluxio-$version-$(sha256sum "$recipe/jars.sha256" | cut -c1-12)
  if [[ ! -f $prefix/.complete || ! -x $prefix/java ]]; then
    java_path java
    say "fetching Alluxio $version, 180 MB of jars (about a minute)"
    work=$(mktemp -d "$deps/.alluxio.XXXXXX")
    fetch_jars Alluxio "$work" "$recipe" "$java" slf4j-reload4j
    ln -s "$java" "$work/java"
    touch "$work/.complete"
    rm -rf "$prefix"
    chmod 755 "$work"
    mv "$work" "$prefix"
  fi
  ln -sfn "$(basename "$prefix")" "$deps/alluxio"
}
