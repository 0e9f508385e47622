#!/bin/bash
# Installs into an empty prefix; a program then needs nothing but what pkg-config says, and the installed command runs.
set -eu
[ -z "${BT_SANITIZE:-}" ] || { echo "skipped: the program would have to be built with the same sanitizers"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$BT_BUILD_DIR" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }

pc=$(find "$prefix" -name libbetty.pc)
[ -n "$pc" ] || { echo "libbetty.pc is not installed"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir libbetty)
[ "$(cd "$libdir" && pwd)" = "$(dirname "$(dirname "$pc")")" ] || { echo "libbetty.pc says $libdir"; exit 1; }

build() { # SOURCE PROGRAM LIBRARIES
    "$CC" -std=c11 -Wall -Wextra -Wconversion -pedantic -Werror "${cflags[@]}" "$1" -o "$work/$2" "${@:3}"
}
source=$BT_SOURCE_DIR/tests/e2e/installed.c
read -ra cflags <<<"$(pkg-config --cflags libbetty)"
read -ra libs <<<"$(pkg-config --libs libbetty)"
build "$source" shared "${libs[@]}"
LD_LIBRARY_PATH=$libdir "$work/shared"
build "$BT_SOURCE_DIR/examples/plain.c" plain "${libs[@]}"
build "$BT_SOURCE_DIR/examples/embed.c" embed "${libs[@]}"
build "$BT_SOURCE_DIR/examples/step_by_step.c" step_by_step "${libs[@]}"
(cd "$work" && LD_LIBRARY_PATH=$libdir ./embed | tail -n 6)
(cd "$work" && LD_LIBRARY_PATH=$libdir ./step_by_step) # fails where ten calls are not one

read -ra libs <<<"$(pkg-config --static --libs libbetty | sed 's/-lbetty/-l:libbetty.a/')"
build "$source" static "${libs[@]}"
"$work/static"


# Outside, nothing is visible but what the public headers declare.
hidden=$(nm -D --defined-only "$libdir/libbetty.so" | awk '$2 ~ /[TDRBV]/ { print $3 }' | while read -r name; do
    grep -rqw "$name" "$prefix/include/betty" || echo "$name"
done)
[ -z "$hidden" ] || { echo "exported, but in no public header: $hidden"; exit 1; }

declared() { # the functions of the public headers
    echo '#include <betty/betty.h>' | "$CC" -std=c11 "${cflags[@]}" -E -P -x c - | tr '\n' ' ' | sed 's/[;{}]/\n/g' |
        grep -v typedef | grep -oP '\bbt_[a-z0-9_]+\)? ?\((?!\*)' | tr -d '() ' | sort -u
}

# And everything they declare is there, in the library and in the command, which lends it to the problems it loads.
for binary in "$libdir/libbetty.so" "$prefix/bin/betty-run"; do
    missing=$(declared | while read -r name; do
        nm -D --defined-only "$binary" | grep -qw "$name" || echo "$name"
    done)
    [ -z "$missing" ] || { echo "declared, but not in $(basename "$binary"):"; echo "$missing"; exit 1; }
done

[ "$("$prefix/bin/betty-run" --version)" = "betty-run $(pkg-config --modversion libbetty)" ]
"$prefix/bin/betty-run" "$prefix/share/betty/examples/tutorial.ini" --set engine.train_iters=20 --output "$work/out"
[ -f "$work/out/summary.json" ]
