# The library, built for aarch64 by Debian's cross compiler, runs under qemu: tests of the kernels and the layers below,
# and an example whose numbers match this machine's, bit for bit.
# Debian: aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu qemu-aarch64=qemu-user mmdebstrap ninja=ninja-build cmake=cmake
set -eu
place=$BT_BUILD_DIR/readers/aarch64 # kept, so that later runs need not download and compile again
root=$place/root
mkdir -p "$place"
if [ ! -e "$place/root.done" ]; then
    rm -rf "$root"
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    mmdebstrap --quiet --variant=extract --architectures=arm64 "$suite" "$root" \
        --include=libc6-dev,libiniparser-dev,libjansson-dev,libjpeg62-turbo-dev,libpng-dev,libutf8proc-dev,zlib1g-dev,check
    touch "$place/root.done"
fi

export PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
cmake -S "$BT_SOURCE_DIR" -B "$place/build" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_SYSROOT="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
    -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON \
    -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-L;$root" >log 2>&1 || { tail -n 40 log; exit 1; }
tests=()
for test in "$BT_SOURCE_DIR"/tests/base/test_*.c "$BT_SOURCE_DIR"/tests/backend/test_*.c; do
    test=${test#"$BT_SOURCE_DIR/tests/"}
    test=${test%.c}
    tests+=("${test/\/test_/.}")
done
cmake --build "$place/build" --target betty-run betty-manual "${tests[@]}" >log 2>&1 || { tail -n 40 log; exit 1; }
diff "$place/build/man/man1/betty-run.1" <("$BETTY_RUN" --help=man)

export CK_TIMEOUT_MULTIPLIER=30 # an emulator takes its time
passes() { # TEST; 77: skipped, with the reason
    local status=0
    qemu-aarch64 -L "$root" "$place/build/tests/bin/$1" >log 2>&1 || status=$?
    [ $status -ne 0 ] && [ $status -ne 77 ] || return 0
    # qemu-user has a bug: threads fail in the forked child of a program with threads.
    grep -q ':team:after_a_fork:' log && ! grep -E ':[EF]:' log | grep -qv ':team:after_a_fork:'
}
for test in "${tests[@]}"; do
    passes "$test" || { echo "$test FAILED"; tail -n 20 log; exit 1; }
    echo "$test: $(tail -n 1 log)"
done

train() { # FOLDER COMMAND...
    "${@:2}" "$BT_SOURCE_DIR/examples/logistic_hpo.ini" --threads 1 --set engine.train_iters=40 \
        --set engine.valid_step=20 --set engine.log_step=10 --set model.unroll_steps=5 --quiet --output "$1"
    sed 's/"time": *[0-9.e-]*,//' "$1/metrics.jsonl" >"$1.numbers"
}
train there qemu-aarch64 -L "$root" "$place/build/betty-run"
BETTY_ISA=generic train here "$BETTY_RUN"
diff here.numbers there.numbers
[ "$(wc -l <there.numbers)" -gt 5 ]
echo "$(wc -l <there.numbers) lines of metrics, as here"
