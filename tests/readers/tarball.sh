# The source archive of ./dev package matches git and builds outside any checkout; the resulting command trains an
# example.
# Debian: cmake=cmake ninja=ninja-build
set -eu
"$BT_SOURCE_DIR/dev" package >log || { cat log; exit 1; }
archive=$(ls "$BT_BUILD_DIR"/package/libbetty-*.tar.gz)
place=$(mktemp -d) # outside the checkout
trap 'rm -rf "$place"' EXIT
tar -xzf "$archive" -C "$place"
source=$(echo "$place"/libbetty-*)
if git -C "$BT_SOURCE_DIR" rev-parse 2>/dev/null; then
    diff <(git -C "$BT_SOURCE_DIR" ls-files --cached --others --exclude-standard | LC_ALL=C sort) \
        <(cd "$source" && find . -type f -o -type l | sed 's|^\./||' | LC_ALL=C sort)
fi
cmake -S "$source" -B "$place/build" -G Ninja -DBUILD_TESTING=OFF >log
cmake --build "$place/build" --target betty betty_static betty-run betty-manual >log || { cat log; exit 1; }
cmake --install "$place/build" --prefix "$place/prefix" >log
rm -rf "$source"
"$place/prefix/bin/betty-run" "$place/prefix/share/betty/examples/tutorial.ini" --set engine.train_iters=50 --output run
[ -s run/summary.json ]
