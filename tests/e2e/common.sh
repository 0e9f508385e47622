# What tests of the command begin with: an empty folder of their own, gone at the end, with a cache in it.
# shellcheck shell=bash
[ -x "${BETTY_RUN:-}" ] || { echo "skipped: there is no betty-run"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export XDG_CACHE_HOME=$folder/cache

fail() {
    echo "$*"
    [ -s err ] && cat err
    exit 1
}
