#!/bin/bash
# betty-run --report RUN [RUN ...]: a page with runs of an example, a check and an ablation, and error messages.
. "$(dirname "$0")/common.sh" || exit 1

few=(--threads 1 --set engine.train_iters=20 --set engine.valid_step=10 --set engine.log_step=5)
"$BETTY_RUN" "$examples/logistic_hpo.ini" --seeds 1..2 --set 'model.lr=0.1|0.05' "${few[@]}" --output rates >out 2>err ||
    fail "several runs"
[ -s "rates/model.lr=0.1,seed=1/plan.json" ] || fail "no plan"
grep -q '^penalty: d/d(penalty)' "rates/model.lr=0.1,seed=1/equation.txt" || fail "no equation"
"$BETTY_RUN" "$examples/logistic_hpo.ini" --check-hypergradient --samples 2 --threads 1 \
    --output "rates/model.lr=0.1,seed=1" >out 2>err || fail "a check in a run's folder"
"$BETTY_RUN" "$examples/logistic_hpo.ini" --ablate --plan --threads 1 --output ablation >out 2>err || fail "an ablation"

"$BETTY_RUN" --report rates ablation >out 2>err || fail "a report"
[ "$(cat out)" = rates/report.html ] || fail "it does not say where it is"
python3 - <<'END' || fail "the page"
import json
import pathlib
from html.parser import HTMLParser

page = pathlib.Path("rates/report.html").read_text()


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.tags = [], [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        assert not any(name in ("src", "onload", "onclick") for name, _ in attributes)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


reader = Reader()
reader.feed(page)
assert not reader.open and "script" not in reader.tags and "img" not in reader.tags
assert reader.ids == ["runs", "curves", "memory", "ablation", "equation", "check", "differences", "configuration"], reader.ids
for letter, rate in (("A", "0.1"), ("B", "0.05")):
    runs = []
    for seed in (1, 2):
        last = {}
        for line in open(f"rates/model.lr={rate},seed={seed}/metrics.jsonl"):
            last.update(json.loads(line))
        runs.append(last)
    for name in runs[0]:
        if name not in ("step", "time"):
            mean = sum(run[name] for run in runs) / 2
            assert f">{letter} {mean:.4g}<" in page, (letter, name, mean)
plan = json.loads(pathlib.Path("rates/model.lr=0.1,seed=1/plan.json").read_text())
for level in plan["levels"]:
    for phase in level["phases"]:
        assert phase["phase"] in page
END

"$BETTY_RUN" --report "rates/model.lr=0.1,seed=1" --output one --quiet >out 2>err || fail "one run"
[ -s out ] && fail "it is not quiet"
grep -qE 'agrees, in direction and in length|the parts that must be exact agree' one/report.html || fail "no check"
cp -r "rates/model.lr=0.1,seed=1" broken
echo '{' >broken/profile.json

mistake 'needs at least one run' --report
mistake 'cannot open the folder none' --report rates none
mistake 'holds nothing to report' --report "$examples"
mistake 'broken/profile.json: line' --report broken
mistake '--report RUN [RUN ...] can be combined only with --output' --report rates --plan
mistake '--report RUN [RUN ...] can be combined only with --output' --report rates --seed 3
exit 0
