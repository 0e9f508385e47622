#!/bin/bash
# betty-run --plan --curve: the files and the JSON agree, and the picture has a line for each phase that can use less
# memory, as many points as the curve, and axis labels.
. "$(dirname "$0")/common.sh" || exit 1
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }

ini=$examples/maml_omniglot.ini
"$BETTY_RUN" "$ini" --threads 1 --plan --curve --json --output out >plan.json 2>err || fail "--plan --curve failed"
"$BETTY_RUN" "$ini" --threads 1 --plan --curve >text 2>err || fail "--plan --curve failed"
python3 - <<'PYTHON' || fail "the curve is not right"
import json, xml.etree.ElementTree as xml
curve = json.load(open("plan.json"))["curve"]
assert curve == json.load(open("out/curve.json"))
assert curve["name"] == "maml_omniglot" and len(curve["run"]) > 1, curve
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse("out/curve.svg").getroot()
texts = [text.text for text in root.iter(svg + "text")]
lines = {f'{p["level"]}, {p["phase"]}': p["points"] for p in curve["phases"] if len(p["points"]) > 1}
lines["whole run"] = curve["run"]
drawn = [len(line.get("points").split()) for line in root.iter(svg + "polyline")]
assert drawn == [len(points) for points in lines.values()], (drawn, lines)
assert all(name in texts for name in lines), (lines, texts)
assert any("bytes" in text for text in texts) and any("work" in text for text in texts), texts
assert len(list(root.iter(svg + "circle"))) == sum(drawn)
said = open("text").read()
for points in lines.values():
    for point in points[1:]:
        assert f' {point["bytes"]} ' in said and f' {point["memory_budget"]}\n' in said, point
PYTHON
"$BETTY_RUN" "$ini" --curve >text 2>err && fail "--curve alone was taken"
grep -q "betty-run FILE --plan --curve" err || fail "it does not say how"
