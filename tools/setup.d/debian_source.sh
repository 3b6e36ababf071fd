# SPDX-License-Identifier: Apache-2.0
# Source packages of another Debian suite, without touching this machine's apt.

# The mirror that this machine's own apt uses for Debian's main archive.
debian_mirror() {
  # shellcheck disable=SC2016 # names of apt's, not of variables
  apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 2>/dev/null |
    awk '$2 == "bookworm" && $3 == "main" { print $1; exit }'
}

# A private apt state with nothing but the source index of the suite.
write_private_apt() {
  local suite=$1 apt=$2 mirror=$3
  mkdir -p "$apt"/{etc/preferences.d,state/lists/partial,cache/archives/partial}
  printf 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
    "$mirror" "$suite" >"$apt/etc/sources.list"
  cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "$apt/etc/preferences.d";
Dir::State "$apt/state";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
APT::Sandbox::User "root";
CONF
}

upstream_archive() {
  local work=$1 package=$2
  find "$work" -maxdepth 1 -name "${package}_*.orig.tar.*" ! -name '*.asc' -print -quit
}

# The source of PACKAGE as SUITE has it today, in WORK/source. A mirror may lack Debian's part of it,
# whose name changes with each security update: then it is the upstream source, as Debian signs it.
unpack_debian_source() {
  local suite=$1 package=$2 work=$3 mirror
  mirror=$(debian_mirror)
  if [[ -z $mirror ]]; then
    refresh_apt_lists
    mirror=$(debian_mirror)
  fi
  [[ -n $mirror ]] ||
    fail "apt knows no mirror of Debian bookworm main; check /etc/apt and run apt-get update"
  write_private_apt "$suite" "$work/apt" "$mirror"
  export APT_CONFIG=$work/apt/apt.conf
  quietly "reading the source index of Debian $suite" apt-get update -q
  if (cd "$work" && apt-get source -q --download-only "$package" >>"$log_file" 2>&1); then
    quietly "unpacking the source of $package" dpkg-source -x "$work/$package"_*.dsc "$work/source"
  else
    say "$mirror lacks Debian's part of $package; taking the upstream source that Debian signs"
    (cd "$work" && quietly "downloading the upstream source of $package" \
      apt-get source -q --tar-only "$package")
    mkdir "$work/source"
    quietly "unpacking the upstream source of $package" \
      tar -xf "$(upstream_archive "$work" "$package")" -C "$work/source" --strip-components=1
  fi
  unset APT_CONFIG
}

# Of what unpack_debian_source left in WORK, without Debian's revision.
upstream_version() {
  local package=$2 archive
  archive=$(basename "$(upstream_archive "$@")")
  archive=${archive#"${package}"_}
  echo "${archive%.orig.tar.*}"
}
