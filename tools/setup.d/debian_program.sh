# SPDX-License-Identifier: Apache-2.0
# Servers out of Debian's packages without installing them: an installed nginx-common, openssh-server,
# prometheus or etcd-server starts a service, now or at the next boot, which nobody who runs tests asked for.
# Result: $deps/nginx/usr/sbin/nginx, $deps/sshd/usr/sbin/sshd, $deps/prometheus/usr/bin/prometheus
# (and promtool), $deps/etcd/usr/bin/etcd, each below a link to <name>-<version>

# unpack_debian_program NAME PACKAGE PROGRAM: the package as Debian has it today; kept from then on.
unpack_debian_program() {
  local name=$1 package=$2 program=$3 work version prefix missing
  [[ -x $deps/$name/$program ]] && return 0
  refresh_apt_lists
  say "unpacking Debian's $package for the tests (some seconds); it is not installed"
  work=$(mktemp -d "$deps/.$name.XXXXXX")
  (cd "$work" && quietly "downloading $package" apt-get -q -o APT::Sandbox::User=root download "$package")
  version=$(dpkg-deb -f "$work/$package"_*.deb Version | tr -c 'A-Za-z0-9.+\n' '-')
  quietly "unpacking $package" dpkg -x "$work/$package"_*.deb "$work/tree"
  [[ -x $work/tree/$program ]] || fail "Debian's $package $version does not hold $program as expected"
  # Of what the package depends on, the libraries alone, and none of web pages.
  mapfile -t missing < <(dpkg-deb -f "$work/$package"_*.deb Depends | tr ',' '\n' |
    sed -n -e '/^ *libjs-/d' -e 's/^ *\(lib[^ |(]*\).*/\1/p')
  mapfile -t missing < <(missing_packages "${missing[@]}")
  if ((${#missing[@]})); then
    install_packages "${missing[@]}"
  fi
  prefix=$deps/$name-$version
  rm -rf "$prefix"
  mv "$work/tree" "$prefix"
  rm -rf "$work"
  ln -sfn "$name-$version" "$deps/$name"
}

need_nginx() { unpack_debian_program nginx nginx usr/sbin/nginx; }

need_sshd() { unpack_debian_program sshd openssh-server usr/sbin/sshd; }

need_prometheus() { unpack_debian_program prometheus prometheus usr/bin/prometheus; }

need_etcd() { unpack_debian_program etcd etcd-server usr/bin/etcd; }
