# pandas reads the metrics of a run.
# PyPI: pandas==2.3.3
import json
import os
import subprocess

import pandas

subprocess.run([os.environ["BETTY_RUN"], os.environ["BT_SOURCE_DIR"] + "/examples/logistic_hpo.ini", "--output", "run",
                "--set", "engine.train_iters=400", "--set", "engine.valid_step=100", "--set", "engine.log_step=50"],
               check=True)
with open("run/summary.json") as file:
    summary = json.load(file)
table = pandas.read_json("run/metrics.jsonl", lines=True)
assert sorted(set(table.step)) == list(range(50, 401, 50)), list(table.step)
assert table.time.is_monotonic_increasing
for name, value in summary["metrics"].items():
    assert abs(table[name].dropna().iloc[-1] - value) < 1e-12, name
print(f"{len(table)} lines, columns {', '.join(table.columns)}")
