# SPDX-License-Identifier: Apache-2.0
# fmt, spdlog, toml++ and ISA-L as static libraries: Debian 12 has their headers and shared libraries
# alone, and the program is to need glibc and nothing else. Built from Debian 12's own source packages,
# so that they are what the installed headers say.
# Result: $deps/static-<hash>/{libfmt,libspdlog,libtomlplusplus,libisal}.a, reached by the link
# $deps/static. The hash is of the packages' versions, so an update of one builds them again.

# Raised when the build below changes.
static_recipe=1

static_headers=(libfmt-dev libspdlog-dev libtomlplusplus-dev libisal-dev)

static_name() {
  local versions
  versions=$(dpkg-query -W -f '${Package} ${Version}\n' "${static_headers[@]}" | sort)
  printf 'static-%s' "$(printf '%s\n%s\n' "$static_recipe" "$versions" | sha256sum | cut -c -12)"
}

static_flags=(-O2 -g1 -fPIC -fno-omit-frame-pointer -std=c++23 -w)
# archive_sources LIBRARY WORK SOURCE… The headers are the installed ones.
archive_sources() {
  local library=$1 work=$2
  shift 2
  mkdir "$work/objects"
  local source
  for source in "$@"; do
    quietly "compiling $source" clang++-19 "${static_flags[@]}" "-ffile-prefix-map=$work=." -c "$source" \
      -o "$work/objects/$(basename "$source").o"
  done
  quietly "packing $library" llvm-ar-19 rcsD "$library" "$work"/objects/*.o
}

build_fmt() {
  archive_sources "$2" "$1" "$1/source/src/format.cc" "$1/source/src/os.cc"
}

build_spdlog() {
  local static_flags=("${static_flags[@]}" -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL)
  local sources
  # What it would do with a copy of fmt of its own.
  mapfile -t sources < <(find "$1/source/src" -name '*.cpp' ! -name 'fmt.cpp' | sort)
  archive_sources "$2" "$1" "${sources[@]}"
}

# All of it is in the installed header.
build_tomlplusplus() {
  local static_flags=("${static_flags[@]}" -DTOML_HEADER_ONLY=0 -DTOML_IMPLEMENTATION)
  printf '#include <toml++/toml.h>\n' >"$1/toml.cc"
  archive_sources "$2" "$1" "$1/toml.cc"
}

# Its checksums alone: the other half is erasure coding.
build_isal() {
  (cd "$1/source" && quietly "building ISA-L" make -f Makefile.unx units=crc AS=nasm \
    CC=clang-19 AR=llvm-ar-19 lib)
  quietly "packing $2" cp "$1/source/bin/isa-l.a" "$2"
}

# build_static NAME FOLDER [SOURCE_PACKAGE]
build_static() {
  local name=$1 folder=$2 package=${3:-} work
  work=$(mktemp -d "$deps/.static.XXXXXX")
  if [[ -n $package ]]; then unpack_debian_source bookworm "$package" "$work"; fi
  "build_$name" "$work" "$folder/lib$name.a"
  rm -rf "$work"
}

need_static_libraries() {
  local name folder
  name=$(static_name)
  if [[ ! -d $deps/$name ]]; then
    say "building fmt, spdlog, toml++ and ISA-L from Debian's source packages (about two minutes)"
    folder=$(mktemp -d "$deps/.static-result.XXXXXX")
    build_static fmt "$folder" fmtlib
    build_static spdlog "$folder" spdlog
    build_static tomlplusplus "$folder"
    build_static isal "$folder" libisal
    chmod 755 "$folder"
    mv "$folder" "$deps/$name"
  fi
  ln -sfn "$name" "$deps/static"
}
