# SPDX-License-Identifier: Apache-2.0
# Azurite, the Azure Blob server of the tests. The last version that Debian 12's node 18 runs; what it
# depends on is taken as it was on a day, so that every machine has the same.
# Result: $deps/azurite -> azurite-<version>, run as node azurite/node_modules/azurite/dist/src/blob/main.js

azurite_version=3.35.0
azurite_day=2026-01-01

need_azurite() {
  local prefix=$deps/azurite-$azurite_version
  if [[ ! -f $prefix/.complete ]]; then
    command -v npm >/dev/null || install_packages nodejs npm
    say "installing the Azure Blob server azurite $azurite_version (about half a minute)"
    rm -rf "$prefix"
    mkdir -p "$prefix"
    quietly "installing azurite" npm install --no-save --ignore-scripts --omit=optional --no-audit \
      --no-fund --before "$azurite_day" --prefix "$prefix" "azurite@$azurite_version"
    [[ -f $prefix/node_modules/azurite/dist/src/blob/main.js ]] ||
      fail "the npm package azurite $azurite_version does not hold dist/src/blob/main.js as expected"
    touch "$prefix/.complete"
  fi
  ln -sfn "azurite-$azurite_version" "$deps/azurite"
}
