# SPDX-License-Identifier: Apache-2.0
# Rust, for the store client's shim, and Go, for the S3 server of the tests. The machine's own are
# used if they are new enough; otherwise Debian's newest for Debian 12 are installed.

rust_version_min=1.91 # OpenDAL's minimum
go_version_min=1.21   # from here on Go fetches the newer toolchain that a module asks for

rust_version() { cargo --version 2>/dev/null | awk '{ print $2 }'; }
go_version() { go env GOVERSION 2>/dev/null | sed 's/^go//'; }

need_rust() {
  local have
  have=$(rust_version || true)
  if [[ -z $have ]]; then
    install_packages cargo-web rustc-web
    hash -r
    have=$(rust_version || true)
  fi
  version_at_least "${have:-0}" "$rust_version_min" ||
    fail "cargo ${have:-(none)} is too old, $rust_version_min or newer is needed: update the Rust in" \
      "$(command -v cargo || echo PATH), or remove it so that Debian's cargo-web is installed"
}

need_rustfmt() {
  cargo fmt --version >/dev/null 2>&1 && return 0
  if [[ $(command -v cargo) == /usr/bin/cargo ]]; then
    install_packages rustfmt-web
  else
    command -v rustup >/dev/null || fail "the cargo at $(command -v cargo) has no rustfmt; install it there"
    quietly "installing rustfmt" rustup component add rustfmt
  fi
}

# Go for Debian 12 comes from bookworm-backports. The machine's list of sources stays as it is: this
# one installation reads a list of its own.
install_go_from_backports() {
  local apt=$deps/.apt-backports mirror
  refresh_apt_lists
  mirror=$(debian_mirror)
  [[ -n $mirror ]] || fail "apt knows no mirror of Debian bookworm main; check /etc/apt"
  say "installing from Debian's backports: golang-go"
  mkdir -p "$apt/lists/partial"
  local signed='deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
  printf "$signed %s %s main\n" "$mirror" bookworm "$mirror" bookworm-backports >"$apt/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o APT::Sandbox::User=root)
  quietly "reading the lists of Debian's backports" as_root apt-get "${options[@]}" update -q
  quietly "installing Go" as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get "${options[@]}" install -y -q --no-install-recommends -t bookworm-backports golang-go
  as_root rm -rf "$apt"
}

need_go() {
  local have
  have=$(go_version || true)
  version_at_least "${have:-0}" "$go_version_min" && return 0
  if [[ -n $have ]] && ! package_installed golang-go; then
    fail "Go $have at $(command -v go) is too old, $go_version_min or newer is needed: update or remove it"
  fi
  install_go_from_backports
  hash -r
  have=$(go_version || true)
  version_at_least "${have:-0}" "$go_version_min" ||
    fail "Go ${have:-(none)} is still older than $go_version_min"
}
