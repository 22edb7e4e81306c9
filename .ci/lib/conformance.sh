# What both conformance scripts share; sourced from the project's root. Fetches Node 22 and the
# suite into .cache/conformance. Leaves with 77 where they cannot be installed.

python=${PYTHON:-.venv/bin/python}
cache=${CONFORMANCE_CACHE:-.cache/conformance}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d)
servers=()

stop_servers() {
  if [ "${#servers[@]}" -gt 0 ]; then
    kill "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop_servers EXIT

install() { # FOLDER PACKAGE
  [ -d "$cache/$1/node_modules" ] && return
  rm -rf "$cache/$1.partial"
  npm install --prefix "$cache/$1.partial" --no-fund --no-audit --silent "$2" >&2 || return
  mv "$cache/$1.partial" "$cache/$1"
}

if ! command -v npm >/dev/null; then
  echo "conformance: npm is not installed; skipped" >&2
  exit 77
fi
if ! { install node22 node@22 &&
  install v0.1.16 @modelcontextprotocol/conformance@0.1.16 &&
  install v0.2.0-alpha.12 @modelcontextprotocol/conformance@0.2.0-alpha.12; }; then
  echo "conformance: npm could not install Node 22 and the suite; skipped" >&2
  exit 77
fi
node="$cache/node22/node_modules/node/bin/node"

start() { # NAME COMMAND…: sets url to what the server announces
  : >"$work/$1.stderr" # there before the first look: the job below opens it only once it runs
  "${@:2}" 2>"$work/$1.stderr" &
  servers+=("$!")
  for _ in $(seq 300); do
    url=$(sed -n 's|.*serving MCP at \(http://[^ ]*\).*|\1|p' "$work/$1.stderr")
    [ -n "$url" ] && return
    kill -0 "$!" 2>/dev/null || break
    sleep 0.1
  done
  echo "conformance: $1 did not start:" >&2
  cat "$work/$1.stderr" >&2
  exit 1
}

suite_of() { echo "$cache/v$1/node_modules/@modelcontextprotocol/conformance/dist/index.js"; }
