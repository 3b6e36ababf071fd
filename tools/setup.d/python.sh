# SPDX-License-Identifier: Apache-2.0
# The Python packages of the end-to-end tests and the benchmarks, in a virtual environment that is
# named after what it holds. Result: $deps/venv -> venv-<hash of tests/requirements.txt>

need_python() {
  local requirements=$here/../tests/requirements.txt hash venv
  hash=$(sha256sum "$requirements" | cut -c1-12)
  venv=$deps/venv-$hash
  if [[ ! -f $venv/.complete ]]; then
    say "installing Python packages into $venv: $(grep -v '^#' "$requirements" | tr '\n' ' ')"
    rm -rf "$venv"
    quietly "making a virtual environment" /usr/bin/python3 -m venv "$venv"
    quietly "installing Python packages" "$venv/bin/pip" install -q --no-deps -r "$requirements"
    touch "$venv/.complete"
  fi
  ln -sfn "venv-$hash" "$deps/venv"
}
