#!/bin/bash
# Installs into an empty prefix; a program then needs only what pkg-config prints, and the installed command runs.
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
build "$BT_SOURCE_DIR/examples/environment.c" environment "${libs[@]}" -lm
(cd "$work" && LD_LIBRARY_PATH=$libdir ./embed | tail -n 6)
(cd "$work" && LD_LIBRARY_PATH=$libdir ./step_by_step) # fails if ten calls differ from one
(cd "$work" && LD_LIBRARY_PATH=$libdir ./environment) # fails if it does not find the best arm

# The headers' macros work in C++, too; embed.cpp learns the same as embed.c.
if command -v "${CXX:-c++}" >/dev/null; then
    cpp=("${CXX:-c++}" -Wall -Wextra -Wconversion -pedantic -Werror "${cflags[@]}")
    for standard in 11 17; do
        "${cpp[@]}" "-std=c++$standard" "$BT_SOURCE_DIR/tests/e2e/installed.cpp" -o "$work/cpp" "${libs[@]}"
        LD_LIBRARY_PATH=$libdir "$work/cpp"
    done
    "${cpp[@]}" -std=c++20 -Wno-missing-field-initializers "$BT_SOURCE_DIR/examples/embed.cpp" -o "$work/embed_cpp" \
        "${libs[@]}"
    (cd "$work" && LD_LIBRARY_PATH=$libdir ./embed_cpp >cpp.out)
    (cd "$work" && LD_LIBRARY_PATH=$libdir ./embed | grep -oE 'held-out loss [^,]*' | diff - cpp.out)
else
    echo "there is no C++ compiler: not tried"
fi

# CMake finds the package, and the location of the library is stored in the program.
mkdir "$work/package"
cat >"$work/package/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(package LANGUAGES C)
find_package(betty 0.1 REQUIRED)
add_executable(package installed.c)
target_link_libraries(package PRIVATE betty::betty)
add_executable(package_static installed.c)
target_link_libraries(package_static PRIVATE betty::betty_static)
TEXT
cp "$source" "$work/package"
cmake -S "$work/package" -B "$work/package/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$CC" >/dev/null
cmake --build "$work/package/build" >/dev/null
"$work/package/build/package"
"$work/package/build/package_static"
objdump -p "$work/package/build/package_static" | grep -q libbetty && { echo "betty_static is not static"; exit 1; }
# Before 1.0 a different minor version is incompatible.
sed -i 's/betty 0.1/betty 0.2/' "$work/package/CMakeLists.txt"
! cmake -S "$work/package" -B "$work/package/build2" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || exit 1
grep -q 'requested version' "$work/log"

read -ra libs <<<"$(pkg-config --static --libs libbetty | sed 's/-lbetty/-l:libbetty.a/')"
build "$source" static "${libs[@]}"
"$work/static"


names() { nm -D --defined-only "$1" | awk '$2 ~ /[TDRBV]/ { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u; } # BINARY

# The ABI number is in the name of the library and in the version of each of its symbols.
abi=$(sed -n 's/^#define BT_ABI \([0-9]*\).*/\1/p' "$prefix/include/betty/problem.h")
objdump -p "$libdir/libbetty.so" | grep -qE "SONAME +libbetty\.so\.$abi\$" || { echo "no soname of $abi"; exit 1; }
other=$(nm -D --defined-only "$libdir/libbetty.so" | awk '$2 != "A" { print $3 }' | grep -v "@@BETTY_$abi\$" || true)
[ -z "$other" ] || { echo "without the version BETTY_$abi: $other"; exit 1; }

# Only symbols declared in the public headers are visible outside.
hidden=$(LC_ALL=C comm -23 <(names "$libdir/libbetty.so") \
    <(grep -rhoE '[A-Za-z_][A-Za-z0-9_]*' "$prefix/include/betty" | LC_ALL=C sort -u))
[ -z "$hidden" ] || { echo "exported, but in no public header: $hidden"; exit 1; }

declared() { # the functions of the public headers
    echo '#include <betty/betty.h>' | "$CC" -std=c11 "${cflags[@]}" -E -P -x c - | tr '\n' ' ' | sed 's/[;{}]/\n/g' |
        grep -v typedef | grep -oP '\bbt_[a-z0-9_]+\)? ?\((?!\*)' | tr -d '() ' | LC_ALL=C sort -u
}

# And all of those exist, in the library and in the command, which exports them to the problems it loads.
for binary in "$libdir/libbetty.so" "$prefix/bin/betty-run"; do
    missing=$(LC_ALL=C comm -23 <(declared) <(names "$binary"))
    [ -z "$missing" ] || { echo "declared, but not in $(basename "$binary"):"; echo "$missing"; exit 1; }
done

# The manual describes the command and each function; shell completion is installed.
share=$prefix/share
diff "$share/man/man1/betty-run.1" <("$prefix/bin/betty-run" --help=man)
diff "$share/man/man5/betty-run.5" <("$prefix/bin/betty-run" --help-keys=man)
while read -r function; do
    page=$(sed -n 's/^\.so //p' "$share/man/man3/$function.3" 2>/dev/null || true)
    grep -q "\b$function(" "$share/man/${page:-none}" 2>/dev/null || { echo "no page of the manual has $function"; exit 1; }
done < <(declared | grep -v '_$')
[ -f "$share/bash-completion/completions/betty-run" ] && [ -f "$share/zsh/site-functions/_betty-run" ]
[ -f "$share/fish/vendor_completions.d/betty-run.fish" ]

[ "$("$prefix/bin/betty-run" --version)" = "betty-run $(pkg-config --modversion libbetty)" ]
"$prefix/bin/betty-run" "$prefix/share/betty/examples/tutorial.ini" --set engine.train_iters=20 --output "$work/out"
[ -f "$work/out/summary.json" ]

# An installation may be moved: the command finds its headers and its data, and so does a program through the library.
mv "$prefix" "$work/moved"
cd "$work"
printf 'x,y\n1,2\n2,4\n3,6\n' >moved/share/betty/data/only_here.csv
cat >moved.c <<'TEXT'
#include <betty/betty.h>
static bt_dataset *data(bt_problem *self) { return (void)self, bt_dataset_open("only_here", "train"); }
static bt_module *net(bt_problem *self) { return (void)self, bt_nn_linear(1, 1); }
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    return bt_mean(bt_mse(bt_squeeze(bt_forward(self, bt_field(batch, "x")), 1), bt_field(batch, "y")));
}
static const bt_problem_def model = {
    .name = "model", .configure_train_data = data, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
int main(void)
{
    bt_dataset *found = bt_dataset_open("only_here", "train");
    bt_dataset_free(found);
    return found ? 0 : 1;
}
TEXT
printf '[engine]\nproblems = moved.c\ntrain_iters = 2\n' >moved.ini
XDG_CACHE_HOME=$work/cache moved/bin/betty-run moved.ini --output moved.out
"$CC" -std=c11 "-I$work/moved/include" moved.c -o moved.program "-L${libdir/#"$prefix"/"$work/moved"}" -lbetty
LD_LIBRARY_PATH=${libdir/#"$prefix"/"$work/moved"} ./moved.program
