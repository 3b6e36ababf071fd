# SPDX-License-Identifier: Apache-2.0
# Alluxio's master, worker and FUSE program, which the benchmarks run beside Leat, and a Java that
# runs them; alluxio/jars.sha256 lists the jars. Two sinks for its log would be one too many.
# Result: $deps/alluxio -> alluxio-<version>-<hash of the list>/{java, lib/*.jar}

need_alluxio() {
  jar_program alluxio "$here/setup.d/alluxio" "180 MB of jars (about a minute)" slf4j-reload4j
}
