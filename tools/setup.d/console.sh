# SPDX-License-Identifier: Apache-2.0
# What bundles the console's page: node, and the packages of web/package-lock.json, whose checksums
# are in it.
# Result: $deps/console -> console-<hash of package-lock.json>, with node_modules

need_console() {
  local web=$here/../web hash prefix
  hash=$(sha256sum "$web/package-lock.json" | cut -c1-12)
  prefix=$deps/console-$hash
  if [[ ! -f $prefix/.complete ]]; then
    command -v npm >/dev/null || install_packages nodejs npm
    say "installing the packages of the console (seconds)"
    rm -rf "$prefix"
    mkdir -p "$prefix"
    cp "$web/package.json" "$web/package-lock.json" "$prefix"
    quietly "installing the console's packages" npm ci --ignore-scripts --no-audit --no-fund \
      --prefix "$prefix"
    [[ -f $prefix/node_modules/esbuild/bin/esbuild ]] ||
      fail "the npm package esbuild does not hold bin/esbuild as expected"
    touch "$prefix/.complete"
  fi
  command -v node >/dev/null || install_packages nodejs
  ln -sfn "console-$hash" "$deps/console"
}
