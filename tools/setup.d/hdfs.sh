# SPDX-License-Identifier: Apache-2.0
# HDFS's name node and data node, and a Java that runs them; hadoop/jars.sha256 lists the jars.
# Result: $deps/hdfs -> hdfs-<version>-<hash of the list>/{java, lib/*.jar, webapps, name}

need_hdfs() {
  local recipe=$here/setup.d/hadoop version prefix work java web
  version=$(sed -n 's/.*<hadoop.version>\(.*\)<.*/\1/p' "$recipe/pom.xml")
  prefix=$deps/hdfs-$version-$(sha256sum "$recipe/jars.sha256" | cut -c1-12)
  if [[ ! -f $prefix/.complete || ! -x $prefix/java ]]; then
    java_path java
    say "fetching HDFS $version, 70 MB of jars (about half a minute)"
    work=$(mktemp -d "$deps/.hdfs.XXXXXX")
    fetch_jars Hadoop "$work" "$recipe" "$java"
    # The web applications that its servers insist on, empty: nobody looks at their pages.
    for web in hdfs datanode static; do
      mkdir -p "$work/webapps/$web/WEB-INF"
      echo '<web-app/>' >"$work/webapps/$web/WEB-INF/web.xml"
    done
    ln -s "$java" "$work/java"
    # An empty name space, of which each test takes a copy; making it takes a Java of its own.
    mkdir "$work/conf"
    printf '<configuration><property><name>%s</name><value>%s</value></property>%s' \
      dfs.namenode.name.dir "$work/name" \
      '<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1</value></property></configuration>' \
      >"$work/conf/hdfs-site.xml"
    cp "$work/conf/hdfs-site.xml" "$work/conf/core-site.xml"
    quietly "formatting an empty name space" "$java" -cp "$work/conf:$work:$work/lib/*" \
      org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive
    rm -rf "$work/conf" "$prefix"
    touch "$work/.complete"
    chmod 755 "$work"
    mv "$work" "$prefix"
  fi
  ln -sfn "$(basename "$prefix")" "$deps/hdfs"
}
