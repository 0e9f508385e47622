# libabigail compares the interface of the shared library with that of abi/libbetty.abi.
# Debian: abidiff=abigail-tools
exec bash "$BT_SOURCE_DIR/tests/e2e/abi.sh"
