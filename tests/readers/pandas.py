# pandas reads the metrics of a run, as lines of JSON and as CSV, as docs/quickstart.md says.
# PyPI: pandas==2.3.3
import json
import os
import subprocess

import pandas

subprocess.run([os.environ["BETTY_RUN"], os.environ["BT_SOURCE_DIR"] + "/examples/logistic_hpo.ini", "--output", "run",
                "--set", "engine.train_iters=400", "--set", "engine.valid_step=100", "--set", "engine.log_step=50",
                "--set", "engine.logger_type=csv"],
               check=True)
with open("run/summary.json") as file:
    summary = json.load(file)
table = pandas.read_json("run/metrics.jsonl", lines=True)
assert sorted(set(table.step)) == list(range(50, 401, 50)), list(table.step)
assert table.time.is_monotonic_increasing
for name, value in summary["metrics"].items():
    assert abs(table[name].dropna().iloc[-1] - value) < 1e-12, name
by_step = pandas.read_csv("run/metrics.csv").pivot_table(index="step", columns="metric", values="value")
assert list(by_step.index) == sorted(set(table.step))
for name in by_step.columns:
    pandas.testing.assert_series_equal(by_step[name].dropna(), table.set_index("step")[name].dropna(), rtol=1e-14)
assert set(by_step.columns) == set(table.columns) - {"step", "time"}
print(f"{len(table)} lines, columns {', '.join(table.columns)}")
