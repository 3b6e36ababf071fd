# SPDX-License-Identifier: Apache-2.0
# HDFS's name node and data node, and a Java that runs them; hadoop/jars.sha256 lists the jars.
# Result: $deps/hdfs -> hdfs-<version>-<hash of the list>/{java, lib/*.jar, webapps, name}

need_hdfs() {
  jar_program hdfs "$here/setup.d/hadoop" "70 MB of jars (about half a minute)" "" make_name_space
}

make_name_space() {
  local work=$1 web
  # The web applications that its servers insist on, empty: nobody looks at their pages.
  for web in hdfs datanode static; do
    mkdir -p "$work/webapps/$web/WEB-INF"
    echo '<web-app/>' >"$work/webapps/$web/WEB-INF/web.xml"
  done
  # An empty name space, of which each test takes a copy; making it takes a Java of its own.
  mkdir "$work/conf"
  printf '<configuration><property><name>%s</name><value>%s</value></property>%s' \
    dfs.namenode.name.dir "$work/name" \
    '<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1</value></property></configuration>' \
    >"$work/conf/hdfs-site.xml"
  cp "$work/conf/hdfs-site.xml" "$work/conf/core-site.xml"
  quietly "formatting an empty name space" "$work/java" -cp "$work/conf:$work:$work/lib/*" \
    org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive
  rm -rf "$work/conf"
}
