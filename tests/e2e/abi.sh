#!/bin/bash
# Programs linked against the library of abi/ run with this one: no function has disappeared, and no structure of a
# public header has changed. New functions are allowed. For intended changes see CONTRIBUTING.md, "The interface".
#   tests/e2e/abi.sh --accept    rewrites abi/
set -eu
stored=$BT_SOURCE_DIR/abi/libbetty.abi
skip() { echo "skipped: $*"; exit 77; }

command -v abidiff >/dev/null || skip "abidiff is not installed (Debian: abigail-tools)"
[ -z "${BT_SANITIZE:-}" ] || skip "sanitizers change the library"
library=$(realpath "$BT_BUILD_DIR/libbetty.so")
soname() { sed -n "s/.*soname='\([^']*\)'.*/\1/p" "$1" | head -n 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The visible interface: exported functions, and types of the public headers.
abidw --headers-dir "$BT_SOURCE_DIR/libbetty/include" --drop-private-types --no-show-locs --no-comp-dir-path \
    --no-corpus-path --no-elf-needed --drop-undefined-syms --exported-interfaces-only --type-id-style hash "$library" |
    sed "s|path='$BT_SOURCE_DIR/|path='|; s|path='$BT_BUILD_DIR/|path='|" >"$work/libbetty.abi"
grep -q 'bt_problem_def' "$work/libbetty.abi" || skip "the library has no debugging information"

if [ "${1:-}" = --accept ] && [ ! -f "$stored" ]; then
    cp "$work/libbetty.abi" "$stored"
fi
machine() { sed -n "s/.*architecture='\([^']*\)'.*/\1/p" "$1" | head -n 1; }
[ "$(machine "$work/libbetty.abi")" = "$(machine "$stored")" ] || skip "abi/ is of $(machine "$stored")"

# Types that the headers only name may change: users only have pointers to them.
opaque=$(cat "$BT_SOURCE_DIR"/libbetty/include/betty/*.h | sed -n 's/^typedef struct \(bt_[a-z0-9_]*\) bt_.*;.*/\1/p' | paste -sd '|')
printf '[suppress_type]\nname_regexp = ^(%s)$\n' "$opaque" >"$work/opaque"
compare() { # STORED: the changes since, in $work/changes and $status
    status=0
    abidiff --no-added-syms --suppressions "$work/opaque" "$1" "$work/libbetty.abi" >"$work/changes" || status=$?
    [ $((status & 3)) = 0 ] || { cat "$work/changes"; exit 1; } # abidiff itself failed
}
compare "$stored"
if [ "${1:-}" = --accept ]; then
    if [ $status != 0 ] && [ "$(soname "$stored")" = "$(soname "$work/libbetty.abi")" ]; then
        cat "$work/changes"
        echo "programs that are linked to $(soname "$stored") would break: raise BT_ABI (betty/problem.h) first"
        exit 1
    fi
    cp "$work/libbetty.abi" "$stored"
    echo "abi/libbetty.abi is now that of $(soname "$stored")"
    exit 0
fi
if [ $status != 0 ]; then
    cat "$work/changes"
    echo "the interface is not that of abi/libbetty.abi; if that is intended: CONTRIBUTING.md, \"The interface\""
    exit 1
fi
added=$(abidiff "$stored" "$work/libbetty.abi" | sed -n 's/.*, \([0-9]*\) Added functions\{0,1\}.*/\1/p' | head -n 1)
echo "$(soname "$stored"): no change, ${added:-0} functions added"

# These changes must be detected: a removed function, a structure that has grown; but not a change behind a pointer.
other() { # PATTERN REPLACEMENT
    sed "s/$1/$2/" "$work/libbetty.abi" >"$work/other.abi"
    ! cmp -s "$work/libbetty.abi" "$work/other.abi" || { echo "nothing to change: $1"; exit 1; }
    compare "$work/other.abi"
}
other "'bt_abs\(['@]\)" "'bt_abz\1"
[ $status != 0 ] || { echo "a function that is gone is not noticed"; exit 1; }
other "\(class-decl name='bt_problem_def' size-in-bits='\)[0-9]*" '\164'
[ $status != 0 ] || { echo "a record that has another size is not noticed"; exit 1; }
other "\(class-decl name='bt_optimizer' size-in-bits='\)[0-9]*" '\164'
[ $status = 0 ] || { cat "$work/changes"; echo "what only pointers lead to is taken for the interface"; exit 1; }
