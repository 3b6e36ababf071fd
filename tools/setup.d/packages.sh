# SPDX-License-Identifier: Apache-2.0
# Debian packages by group. Only those missing are installed, and their names are printed first.
# Versions are pinned by name where it matters (clang 19, Boost 1.81); the rest is what Debian 12
# ships, whose versions docs/dependencies.md lists.

build_packages=(
  ca-certificates make cmake ninja-build ccache pkg-config dpkg-dev meson git python3
  clang-19 lld-19 llvm-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev
  libboost1.81-dev libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev
  liburing-dev libncurses-dev libnuma-dev libre2-dev libssl-dev zlib1g-dev libisal-dev libsqlite3-dev nasm
  libgtest-dev libgmock-dev
)
test_packages=(
  fuse3 attr curl openssh-client python3-venv e2fsprogs procps zsh fish shellcheck lintian systemd
  python3-clang-19 man-db chromium chromium-driver fonts-dejavu-core libfaketime bindfs iproute2
  ffmpeg rsync sqlite3 zip unzip vim xz-utils bzip2
)
package_packages=(debhelper go-md2man fuse3)
docs_packages=(python3-torch python3-torchvision python3-pil s3fs jq xxd)
demo_packages=(fuse3 procps python3-torch python3-torchvision python3-pil s3fs rclone)
bench_packages=(fuse3 iproute2 s3fs rclone nginx-light libfuse2)

package_installed() { [[ -z $(missing_packages "$1") ]]; }

# One question for all: each start of dpkg-query takes longer than its answer.
missing_packages() {
  comm -23 <(printf '%s\n' "$@" | sort -u) <(
    dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
      sed -n 's/ installed$//p' | sort -u
  )
}

# The package lists are fetched at most once in a run, and only if something has to be installed.
apt_lists_fresh=no
refresh_apt_lists() {
  [[ $apt_lists_fresh == no ]] || return 0
  say "reading Debian's package lists"
  # A third party's broken source must not stop us: what we need is Debian's own.
  as_root apt-get update -q >>"$log_file" 2>&1 </dev/null ||
    say "warning: apt-get update reported errors, see $log_file; going on with the lists there are"
  apt_lists_fresh=yes
}

install_packages() {
  refresh_apt_lists
  say "installing from Debian: $*"
  quietly "installing Debian packages" as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@"
}

need_packages() {
  local -n list=${1}_packages
  local missing
  mapfile -t missing < <(missing_packages "${list[@]}")
  if ((${#missing[@]})); then
    install_packages "${missing[@]}"
  fi
}
