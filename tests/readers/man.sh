# man and mandoc find no errors in the manual pages, and man finds each page, also by the name of each function.
# Debian: man=man-db mandoc groff
set -eu
export LC_ALL=C.UTF-8
cmake --install "$BT_BUILD_DIR" --prefix "$PWD/prefix" >log
pages=("$PWD"/prefix/share/man/man[15]/*.[15] "$PWD"/prefix/share/man/man3/betty*.3)
for page in "${pages[@]}"; do
    man --warnings -l -E UTF-8 -Tutf8 -Z "$page" >/dev/null 2>warnings
    [ ! -s warnings ] || { echo "$page:"; cat warnings; exit 1; }
    mandoc -T lint -W warning "$page" || exit 1
    # Declarations are wrapped to terminal width; only tables in comments are as wide as in the headers.
    MANWIDTH=80 man -l "$page" 2>/dev/null |
        awk -v page="$page" 'length > 130 { print page ": " $0; bad = 1 } END { exit bad }'
done
export MANPATH=$PWD/prefix/share/man
mandb --quiet --user-db "$MANPATH" 2>/dev/null || true
found=0
for name in 'betty-run' '5 betty-run' 'betty' 'betty_nn' 'bt_matmul' 'bt_engine_run'; do
    # shellcheck disable=SC2086 # a section and a name
    man -w $name >/dev/null
    found=$((found + 1))
done
man bt_engine_run_to 2>/dev/null | grep -q 'bt_status bt_engine_run_to(bt_engine \*engine, int64_t step);'
man 5 betty-run 2>/dev/null | grep -q 'unroll_steps = a whole number, at least 1'
man betty-run 2>/dev/null | grep -q -- '--set SECTION.KEY=VALUE'
echo "${#pages[@]} pages"
