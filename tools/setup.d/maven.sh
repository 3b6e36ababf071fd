# SPDX-License-Identifier: Apache-2.0
# Programs that are jars. Maven fetches exactly what the recipe's jars.sha256 lists, from where this
# machine's Maven is told to fetch (its settings.xml; else Maven Central), into a repository of its
# own that is removed again.

maven_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
java_min=17 # Hadoop's minimum

java_version() { "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'; }

# A java that is new enough: the machine's, else Debian's beside it. Maven needs one too.
find_java() {
  local candidate
  for candidate in "$(command -v java)" \
    "/usr/lib/jvm/java-17-openjdk-$(dpkg --print-architecture)/bin/java"; do
    if [[ -x $candidate ]] && version_at_least "$(java_version "$candidate")" "$java_min"; then
      realpath "$candidate"
      return 0
    fi
  done
  return 1
}

# java_path NAME: assigns the path of such a java, installing Debian's if need be.
java_path() {
  local -n found=$1
  found=$(find_java) || { install_packages openjdk-17-jre-headless && found=$(find_java); } ||
    fail "no Java $java_min although Debian's openjdk-17-jre-headless is installed"
}

# fetch_jars WHAT WORK RECIPE JAVA [ARTIFACT,…]: WORK/lib of RECIPE, without the artifacts named.
fetch_jars() {
  local what=$1 work=$2 recipe=$3 java=$4 without=${5:-} listed
  command -v mvn >/dev/null || install_packages maven
  quietly "fetching $what's jars" env JAVA_HOME="${java%/bin/java}" \
    mvn -B -ntp -f "$recipe/pom.xml" -Dmaven.repo.local="$work/repository" "$maven_plugin:copy-dependencies" \
    -DincludeScope=runtime -DexcludeArtifactIds="$without" -DoutputDirectory="$work/lib"
  listed=$(wc -l <"$recipe/jars.sha256")
  [[ $(find "$work/lib" -name '*.jar' | wc -l) == "$listed" ]] ||
    fail "Maven fetched other jars than the $listed of $recipe/jars.sha256"
  (cd "$work/lib" &&
    quietly "checking $what's jars" sha256sum --check --strict "$recipe/jars.sha256")
  rm -rf "$work/repository"
}

# jar_program NAME RECIPE SAID WITHOUT [FINISH]: $deps/NAME -> NAME-<version>-<hash of the list>/{java,
# lib/*.jar}, and what FINISH, called with that folder, makes beside them. SAID follows the version in
# the line that tells of the fetching; WITHOUT are artifacts that are left out, with commas.
jar_program() {
  local name=$1 recipe=$2 said=$3 without=$4 finish=${5:-true} version prefix work java
  version=$(sed -n 's/.*<[a-z]*\.version>\(.*\)<.*/\1/p' "$recipe/pom.xml")
  prefix=$deps/$name-$version-$(sha256sum "$recipe/jars.sha256" | cut -c1-12)
  if [[ ! -f $prefix/.complete || ! -x $prefix/java ]]; then
    java_path java
    say "fetching $name $version, $said"
    work=$(mktemp -d "$deps/.$name.XXXXXX")
    fetch_jars "$name" "$work" "$recipe" "$java" "$without"
    ln -s "$java" "$work/java"
    "$finish" "$work"
    touch "$work/.complete"
    rm -rf "$prefix"
    chmod 755 "$work"
    mv "$work" "$prefix"
  fi
  ln -sfn "$(basename "$prefix")" "$deps/$name"
}
