# Shared by the scripts of this folder: a temporary folder, the service, and Python packages.
#
# The sourcing script sets `program`. Set here: `here`, `folder`, `packages`, and BASE by `serve`.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
packages=${CLIENTS_CACHE:-$folder/packages}
mkdir -p "$packages"
service=
trap 'test -z "$service" || kill "$service" 2>/dev/null || true; rm -rf "$folder"' EXIT

skip() { echo "skipped: $1"; }

# Starts the service on a new repository, with additional flags.
serve() {
  "$program" init "$folder/settings" >"$folder/init.log" 2>&1
  mkfifo "$folder/ready"
  "$program" serve --auth allow-all --repo "$folder/settings" --listen 127.0.0.1:0 "$@" \
    >"$folder/ready" 2>"$folder/service.log" &
  service=$!
  exec 3<"$folder/ready"
  read -r line <&3 || { cat "$folder/service.log" >&2; exit 1; }
  BASE=${line#listening on }
  BASE=${BASE%/}
  export BASE
}

python_packages() {
  test -d "$packages/python" || python3 -m venv "$packages/python"
  "$packages/python/bin/pip" install --quiet --disable-pip-version-check "$@"
}
