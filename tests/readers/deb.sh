# The Debian packages of ./dev package install and run in a clean Debian: first the command without a compiler, then
# problems that it compiles, programs that use the library, and the manual; removal leaves nothing behind.
# Debian: mmdebstrap lintian
set -eu
"$BT_SOURCE_DIR/dev" package >log || { cat log; exit 1; }
cp "$BT_BUILD_DIR"/package/*.deb .
cp "$BT_SOURCE_DIR/tests/e2e/installed.c" .
lintian --fail-on error -- *.deb

cat >inside.sh <<'END'
set -eux
cd /tmp/packages
export HOME=/tmp DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends ./libbetty[0-9]*.deb ./betty-run_*.deb ./betty-data_*.deb
! command -v cc || exit 1
betty-run --version
betty-run /usr/share/betty/examples/logistic_hpo.ini --set engine.train_iters=200 --output run
test -s run/summary.json
! betty-run /usr/share/betty/examples/tutorial.ini 2>error || exit 1
cat error
grep -q 'the headers of betty are no longer' error

apt-get install -y -q --no-install-recommends gcc libc6-dev pkgconf man-db ./libbetty-dev_*.deb
betty-run /usr/share/betty/examples/tutorial.ini --set engine.train_iters=20 --output tutorial
cc installed.c -o installed $(pkg-config --cflags --libs libbetty)
./installed
dpkg --verify betty-run betty-data libbetty-dev
! grep -c "$CHECKOUT" /usr/bin/betty-run /usr/lib/*/libbetty.so /usr/lib/*/libbetty.a || exit 1
mandb -q
for page in betty-run betty bt_matmul 'betty-run.5'; do man -w $page; done
test "$(MANWIDTH=80 man 5 betty-run | grep -c train_iters)" -ge 1

apt-get purge -y -q betty-run betty-data libbetty-dev 'libbetty[0-9]*'
! find /usr /etc -path '*betty*' | grep . || exit 1
END
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# The hooks run in a shell of mmdebstrap, whose $1 is the new root.
# shellcheck disable=SC2016
mmdebstrap --variant=apt --format=null --skip=cleanup/apt --dpkgopt=force-unsafe-io "$suite" /dev/null \
    --customize-hook='mkdir "$1/tmp/packages"' \
    --customize-hook="copy-in $(printf '%s ' "$PWD"/*.deb) $PWD/installed.c $PWD/inside.sh /tmp/packages" \
    --customize-hook="chroot \"\$1\" env CHECKOUT='$BT_SOURCE_DIR' sh /tmp/packages/inside.sh" \
    >log 2>&1 || { tail -n 40 log; exit 1; }
grep -A 1 '^+ betty-run --version' log
