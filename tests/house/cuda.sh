#!/bin/bash
# The headers of the fake CUDA device against an installed toolkit: declarations do not conflict, numbers and structures
# are the same.
cd "$BT_SOURCE_DIR" || exit 1

toolkit=
for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
    if [ -e "$folder/cublasLt.h" ] && [ -e "$folder/cuda_runtime_api.h" ]; then toolkit=$folder; break; fi
done
if [ -z "$toolkit" ]; then
    echo "skipped: no CUDA toolkit"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

compile() { "${CC:-cc}" -std=c11 -Wall -Wextra -Werror "$@"; }

# The numbers in our headers: enumerators, macros, sizes of types, and offsets of a result's fields.
values() {
    sed -n 's/^#define \([A-Za-z0-9_]*\) *[(0-9].*/\1/p' "$1"
    grep -o '\b[A-Za-z0-9_]* = [0-9]' "$1" | sed 's/ = .*//'
    sed -n 's/^}\{0,1\}.* \**\([A-Za-z]*_t\);.*/sizeof(\1)/p' "$1"
    if [ "${1##*/}" = cublasLt.h ]; then
        printf 'offsetof(cublasLtMatmulHeuristicResult_t, %s)\n' algo workspaceSize state
    fi
}

bad=0
for header in cuda_runtime_api.h cublasLt.h cudnn_graph.h nccl.h; do
    [ -e "$toolkit/$header" ] || continue # cuDNN and NCCL are separate packages
    ours=tests/fake_cuda/$header
    values "$ours" >"$work/values"
    { # a program that prints the values of our header as assertions
        printf '#include "%s"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n' "$header"
        sed 's/.*/printf("_Static_assert((long long)(&) == %lldLL, \\"&\\");\\n", (long long)(&));/' "$work/values"
        echo 'return 0; }'
    } >"$work/print.c"
    compile -Itests/fake_cuda "$work/print.c" -o "$work/print" || exit 1
    { # the assertions, compiled with the toolkit's header
        printf '#include <stddef.h>\n#include <cuda_runtime_api.h>\n#include <%s>\n' "$header"
        printf '#define FAKE_CUDA_FUNCTIONS_ONLY\n#include "%s"\n' "$PWD/$ours"
        "$work/print"
    } >"$work/check.c"
    compile -isystem "$toolkit" -fsyntax-only "$work/check.c" || bad=1
    echo "$ours: $(wc -l <"$work/values") numbers"
done
exit $bad
