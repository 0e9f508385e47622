# TensorBoard's own readers, in Python and (in its server) in Rust, open the event files of an interrupted run and find
# the contents of metrics.csv.
# PyPI: tensorboard==2.21.0
import csv
import glob
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

SETTINGS = {"engine.valid_step": 100, "engine.log_step": 50, "engine.checkpoint_step": 100,
            "engine.logger_type": "tensorboard, csv"}


def betty_run(*options, **settings):
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([os.environ["BETTY_RUN"], *options, *sets], check=True, stderr=subprocess.DEVNULL)


def read(folder):
    found = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    found.Reload()
    return found


# To step 400, again from the checkpoint of step 200 (all files are still there), and on to 600.
betty_run(f"{os.environ['BT_SOURCE_DIR']}/examples/logistic_hpo.ini", "--output", "run",
          **SETTINGS, **{"engine.train_iters": 400, "engine.checkpoint_keep": 9})
first = {tag: len(read("run").Scalars(tag)) for tag in read("run").Tags()["scalars"]}
assert first["model/loss"] == 8 and first["model/valid/loss"] == 4, first
live = read("run")  # like a TensorBoard that is open while the run resumes
betty_run("--resume", "run/checkpoints/step-200", **{"engine.train_iters": 600})
live.Reload()

due = {}
with open("run/metrics.csv") as file:
    for row in csv.DictReader(file):
        due.setdefault(row["metric"].replace(".", "/"), []).append((int(row["step"]), float(row["value"])))
assert [step for step, _ in due["model/loss"]] == list(range(50, 601, 50))
found = read("run")
assert set(found.Tags()["scalars"]) == set(due), found.Tags()
for events in (found, live):
    for tag, values in due.items():
        scalars = [(event.step, event.value) for event in events.Scalars(tag)]
        assert [step for step, _ in scalars] == [step for step, _ in values], (tag, scalars)
        for (_, value), (_, wanted) in zip(scalars, values):
            assert abs(value - wanted) <= 1e-6 * abs(wanted), (tag, value, wanted)

# Readers that do not know about START find no duplicates either.
paths = sorted(glob.glob("run/events.out.tfevents.*"))
assert len(paths) == 2, paths
seen = [(value.tag, event.step) for path in paths for event in EventFileLoader(path).Load()
        for value in event.summary.value]
assert len(seen) == len(set(seen)) == sum(map(len, due.values())) + 1  # plus the configuration

# Histograms: of a weight for each example, between two lines of metrics; and of the norms of hypergradients.
betty_run(f"{os.environ['BT_SOURCE_DIR']}/examples/reweight.ini", "--output", "weights",
          **{**SETTINGS, "engine.train_iters": 100, "engine.log_histograms": "true", "engine.valid_step": 0})
weights = read("weights")
assert set(weights.Tags()["histograms"]) == {"classifier/weight", "reweight/hypergradient_norm"}, weights.Tags()
for event in weights.Histograms("classifier/weight"):
    histogram = event.histogram_value
    assert histogram.num == sum(histogram.bucket) == 5000, histogram  # 50 steps of 100 examples
    assert 0 < histogram.min < histogram.sum / histogram.num < histogram.max < 1, histogram
    assert histogram.bucket_limit[-1] > histogram.max > histogram.bucket_limit[-2], histogram
assert [event.step for event in weights.Histograms("reweight/hypergradient_norm")] == [50, 100]

text = found.Tensors("config/text_summary")
with open("run/config.ini") as file:
    config = file.read()
assert [event.step for event in text] == [0]
assert text[0].tensor_proto.string_val[0].decode() == f"```\n{config}```\n"
assert re.search(r"^train_iters = 400$", config, re.M)
# The data shown by the server: its own reader goes by files, and may still be reading.
server = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), "tensorboard"), "--logdir", ".", "--port", "0"],
                          stderr=subprocess.PIPE, text=True)


def shown(plugin, what, **query):
    url = f"{address}data/plugin/{plugin}/{what}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


try:
    address = next(found for found in (re.search(r"http://localhost:\d+/", line) for line in server.stderr) if found)[0]
    end = time.monotonic() + 120
    while time.monotonic() < end and "weights" not in shown("histograms", "tags"):
        time.sleep(0.5)
    assert set(shown("scalars", "tags")["run"]) == set(due)
    for tag, values in due.items():
        scalars = shown("scalars", "scalars", run="run", tag=tag)
        assert [step for _, step, _ in scalars] == [step for step, _ in values], (tag, scalars)
    assert len(shown("histograms", "histograms", run="weights", tag="classifier/weight")) == 2
    assert "train_iters = 400" in shown("text", "text", run="run", tag="config/text_summary")[0]["text"]
finally:
    server.terminate()
    server.wait()
print(f"{len(due)} tags, {sum(map(len, due.values()))} scalars in {len(paths)} files")
