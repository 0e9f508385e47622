#!/bin/bash
# ./dev called from another folder, and its error messages.
set -eu
dev=$BT_SOURCE_DIR/dev
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

"$dev" help | grep -q 'dev run FILE'
! "$dev" nonsense 2>error || exit 1
grep -q 'no such command: nonsense' error
! "$dev" test everything 2>error || exit 1
grep -q 'takes --all, --cuda, --far, --ranks or nothing, found: everything' error
! "$dev" run 2>error || exit 1
grep -q 'run which file?' error
! "$dev" mutants nonsense 2>error || exit 1
grep -q 'no such mutant: nonsense' error
! "$dev" readers nonsense 2>error || exit 1
grep -q 'there is no reader nonsense: ' error
! "$dev" abi nonsense 2>error || exit 1
grep -q 'abi takes --accept or nothing, found: nonsense' error

[ "$BT_BUILD_DIR" = "$BT_SOURCE_DIR/build" ] || { echo "skipped: ./dev run builds into build/ only"; exit 77; }
"$dev" run "$BT_SOURCE_DIR/examples/logistic_hpo.ini" --set engine.train_iters=20 --output out
[ -f out/summary.json ]
! "$dev" run missing.ini 2>error || exit 1
grep -q 'missing.ini' error
