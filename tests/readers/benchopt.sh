# benchopt runs bench/benchopt with libbetty as a solver, next to the same method in JAX: both reach the same values,
# and a problem that libbetty does not know is skipped.
# Debian: pkg-config=pkg-config dataset-fashion-mnist
# PyPI: benchopt==1.10.0 jax==0.10.2
set -eu
cmake --install "$BT_BUILD_DIR" --prefix "$PWD/prefix" >log
PKG_CONFIG_PATH=$(dirname "$(find "$PWD/prefix" -name libbetty.pc)")
export PKG_CONFIG_PATH XDG_CACHE_HOME=$PWD/cache JAX_PLATFORMS=cpu BETTY_DATA=$BT_SOURCE_DIR/data
cp -r "$BT_SOURCE_DIR/bench/benchopt" bench # benchopt writes its results there
sed 's/name = "a9a"/name = "other"/; s/(jnp.exp(u) \* w \* w)/(jnp.cosh(u) * w * w)/' bench/datasets/a9a.py \
    >bench/datasets/other.py
benchopt run bench --max-runs 6 --n-repetitions 1 --timeout 600 --no-plot --no-display --no-cache \
    -d 'a9a[rows=1000]' -d 'mnist[rows=300]' -d 'other[rows=100]' --output both >log 2>&1 || { tail -n 40 log; exit 1; }
grep -q 'this is neither of the problems' log || { echo "another problem is not skipped"; tail -n 40 log; exit 1; }
python - <<'END'
import pandas

table = pandas.read_parquet("bench/outputs/both.parquet")
table["solver"] = table.solver_name.str.partition("[")[0]
for name, runs in table.groupby("dataset_name"):
    values = runs.pivot_table(index="stop_val", columns="solver", values="objective_value")
    if name.startswith("other"):
        assert list(values.columns) == ["implicit"], values
        continue
    assert list(values.columns) == ["implicit", "libbetty"] and len(values) >= 6, values
    assert not values.isna().any().any(), values
    assert ((values.libbetty - values.implicit).abs() < 1e-4 * values.implicit).all(), values
    assert values.libbetty.iloc[-1] < 0.8 * values.libbetty.iloc[0], values
    print(f"{name}: {values.libbetty.iloc[0]:.4f} to {values.libbetty.iloc[-1]:.4f}")
END
