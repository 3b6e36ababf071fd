# SPDX-License-Identifier: Apache-2.0
# HDFS's name node and data node, and a Java that runs them. Maven fetches exactly what
# hadoop/jars.sha256 lists, from where this machine's Maven is told to fetch (its settings.xml; else
# Maven Central), into a repository of its own that is removed again.
# Result: $deps/hdfs -> hdfs-<version>-<hash of the list>/{java, lib/*.jar, webapps, name}

hdfs_maven_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
hdfs_java_min=17 # Hadoop's minimum

java_version() { "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'; }

# A java that is new enough: the machine's, else Debian's beside it. Maven needs one too.
find_java() {
  local candidate
  for candidate in "$(command -v java)" \
    "/usr/lib/jvm/java-17-openjdk-$(dpkg --print-architecture)/bin/java"; do
    if [[ -x $candidate ]] && version_at_least "$(java_version "$candidate")" "$hdfs_java_min"; then
      realpath "$candidate"
      return 0
    fi
  done
  return 1
}

fetch_hdfs_jars() {
  local work=$1 recipe=$2 java=$3 listed
  quietly "fetching Hadoop's jars" env JAVA_HOME="${java%/bin/java}" mvn -B -ntp -f "$recipe/pom.xml" \
    -Dmaven.repo.local="$work/repository" "$hdfs_maven_plugin:copy-dependencies" \
    -DincludeScope=runtime -DoutputDirectory="$work/lib"
  listed=$(wc -l <"$recipe/jars.sha256")
  [[ $(find "$work/lib" -name '*.jar' | wc -l) == "$listed" ]] ||
    fail "Maven fetched other jars than the $listed of $recipe/jars.sha256"
  (cd "$work/lib" && quietly "checking Hadoop's jars" sha256sum --check --strict "$recipe/jars.sha256")
}

need_hdfs() {
  local recipe=$here/setup.d/hadoop version prefix work java web
  version=$(sed -n 's/.*<hadoop.version>\(.*\)<.*/\1/p' "$recipe/pom.xml")
  prefix=$deps/hdfs-$version-$(sha256sum "$recipe/jars.sha256" | cut -c1-12)
  if [[ ! -f $prefix/.complete || ! -x $prefix/java ]]; then
    java=$(find_java) || { install_packages openjdk-17-jre-headless && java=$(find_java); } ||
      fail "no Java $hdfs_java_min although Debian's openjdk-17-jre-headless is installed"
    command -v mvn >/dev/null || install_packages maven
    say "fetching HDFS $version, 70 MB of jars (about half a minute)"
    work=$(mktemp -d "$deps/.hdfs.XXXXXX")
    fetch_hdfs_jars "$work" "$recipe" "$java"
    rm -rf "$work/repository"
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
