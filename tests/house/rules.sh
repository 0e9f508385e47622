#!/bin/bash
# Rules that a compiler does not check.
cd "$BT_SOURCE_DIR" || exit 1
bad=0
code=(libbetty engine problems examples bench)
folders=()
for folder in "${code[@]}"; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
done

forbid() { # WHY GREP-ARGUMENTS...
    local why=$1 found
    shift
    found=$(LC_ALL=C.UTF-8 grep -rsnE --include='*.[ch]' --include='*.cu' "$@") || true
    [ -n "$found" ] || return 0
    printf '%s\n  %s:\n' "$found" "$why"
    bad=1
}

forbid "finish it, or leave it out" -iw 'todo|fixme|xxx|hack|stub|placeholder|not (yet )?implemented' "${folders[@]}"
forbid "an op is known by the address of its record: no switch over ops" \
    'switch \(.*(->|\.)op(->|\)|\.)|strcmp\(.*op->name' libbetty engine
forbid "the library never ends the process" -w '(exit|abort|_exit|quick_exit) ?\(' libbetty
forbid "the library never prints; bt_print is an op" -w '(printf|puts|putchar|perror) ?\(|stderr|stdout' \
    --exclude-dir=include libbetty
forbid "memory comes from base/memory.c" -w '(malloc|calloc|realloc|strdup|aligned_alloc|posix_memalign) ?\(' \
    --exclude=memory.c libbetty engine

forbid "the bytes of a variable are reached by runtime/store.h" '(var|flat|applied|skipped|record|loop|sum|weight|store|index|made|at|next|source|copy|windows\[[^]]*\])->data\b' \
    --exclude-dir=runtime --exclude-dir=backend --exclude-dir=fuzz libbetty engine

forbid "where a variable lies is known to runtime/ and the backends: runtime/store.h" \
    'bt_var_data ?\(|include "runtime/(settle|queue|device)\.h' \
    --exclude-dir=runtime --exclude-dir=backend libbetty engine problems

forbid "a line has at most 120 columns" '^.{121,}$' libbetty engine problems examples tests bench

if grep -rnE '^(<<<<<<<|>>>>>>>) ' "${folders[@]}" tests docs ./*.md dev; then
    echo "  a merge left its marks"
    bad=1
fi

# One subject per file, and a function fits on a screen.
while IFS= read -r file; do
    lines=$(wc -l <"$file")
    if [ "$lines" -gt 650 ]; then
        echo "$file: $lines lines; one subject, at most about 600"
        bad=1
    fi
done < <(find "${folders[@]}" -name '*.[ch]' -o -name '*.cu')
find "${folders[@]}" '(' -name '*.c' -o -name '*.cu' ')' -exec awk '
    FNR == 1 { start = 0 }
    /^\{/ { start = FNR; name = before }
    /^\}/ {
        if (start && FNR - start > 71) { print FILENAME ": " name ": " FNR - start - 1 " lines; at most 70"; bad = 1 }
        start = 0
    }
    { before = $0 }
    END { exit bad }' {} + || bad=1
exit $bad
