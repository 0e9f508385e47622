#!/bin/bash
# Compiles the kernels with the real compiler for three architectures: no warnings, no spilled registers, and no more
# shared memory than a block has by default (48 KiB).
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "skipped: there is no nvcc"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$BT_SOURCE_DIR" || exit 1
bad=0
compile() { # FILE
    "$nvcc" -std=c++20 -O3 -fmad=false -Xptxas -v -I libbetty/include -I libbetty \
        -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100 \
        -c "$1" -o "$folder/out.o" >"$folder/log" 2>&1 || { echo "$1: it does not compile"; cat "$folder/log"; return 1; }
    awk -v file="$1" '
        /warning/ { print file ": " $0; bad = 1 }
        /Compiling entry function/ { name = $0 }
        /spill stores/ && !/ 0 bytes spill stores, 0 bytes spill loads/ { print file ": " name ": " $0; bad = 1 }
        match($0, /[0-9]+ bytes smem/) {
            if (substr($0, RSTART) + 0 > 49152) { print file ": " name ": " $0; bad = 1 }
        }
        /Compiling entry function/ { kernels++ }
        END { printf "%s: %d kernels\n", file, kernels; exit bad || !kernels }' "$folder/log"
}
for file in libbetty/backend/cuda/*.cu examples/*.cu; do compile "$file" || bad=1; done
exit $bad
