#!/bin/bash
# betty-run --ablate: the rows of examples/reweight.ini and of a ConvNet have the plan that --plan prints for the same
# settings; the measured bytes are the planned ones; an interrupted table keeps its rows.
. "$(dirname "$0")/common.sh" || exit 1
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }

ablate() { # FOLDER INI OPTIONS...
    local folder=$1 ini=$2
    shift 2
    "$BETTY_RUN" "$examples/$ini.ini" --threads 1 --ablate --output "$folder" "$@" >out 2>err || fail "$ini ($*) failed"
}
value() { # FOLDER PYTHON: an expression on `rows` of ablation.json, by name
    python3 -c 'import json, sys
rows = {row["row"]: row for row in json.load(open(sys.argv[1] + "/ablation.json"))["rows"]}
total = lambda row, key="planned_bytes": sum(rows[row][key].values())
print(eval(sys.argv[2]))' "$1" "$2" || fail "no such value: $2"
}
planned() { # INI SETTING...: the bytes printed by --plan
    local ini=$1 setting settings=()
    shift
    for setting in "$@"; do settings+=(--set "$setting"); done
    "$BETTY_RUN" "$examples/$ini.ini" --threads 1 "${settings[@]}" --plan --json >plan.json 2>err || fail "--plan failed"
    python3 -c 'import json; print(sum(json.load(open("plan.json"))["planned_bytes"].values()))'
}
same() { # FOLDER INI ROW SETTING...
    local folder=$1 ini=$2 row=$3
    shift 3
    [ "$(value "$folder" "total('$row')")" = "$(planned "$ini" "$@")" ] || fail "$ini: other bytes in the row $row"
}
picture() { # FOLDER: it is XML, with each row's name, and bars that match the rows' bytes, to a pixel
    python3 - "$1" <<'PYTHON' || fail "$1/ablation.svg is not right"
import json, sys, xml.etree.ElementTree as xml
svg = "{http://www.w3.org/2000/svg}"
root = xml.parse(sys.argv[1] + "/ablation.svg").getroot()
rows = json.load(open(sys.argv[1] + "/ablation.json"))["rows"]
texts = [text.text for text in root.iter(svg + "text")]
missing = [row["row"] for row in rows if row["row"] not in texts]
bars = {}
for rect in root.iter(svg + "rect"):
    if rect.get("height") == "16":
        bars[rect.get("y")] = bars.get(rect.get("y"), 0) + float(rect.get("width"))
sizes = [sum(row["planned_bytes"].values()) for row in rows if "planned_bytes" in row]
lengths = list(bars.values())
wrong = [(a, b) for a, b in zip(sizes, lengths) if abs(a / max(sizes) - b / max(lengths)) > 1e-2]
sys.exit(str((missing, wrong)) if missing or wrong or len(sizes) != len(lengths) else 0)
PYTHON
}

# the plans of all rows
ablate plan reweight --plan
same plan reweight 'as configured'
same plan reweight 'classifier: gradient_accumulation = 4' classifier.gradient_accumulation=4 classifier.batch_size=25
same plan reweight 'all levels: prefetch = false' reweight.prefetch=false classifier.prefetch=false
same plan reweight 'classifier: optimizer = adam8bit' classifier.optimizer=adam8bit classifier.momentum=
same plan reweight 'everything' reweight.gradient_accumulation=4 reweight.batch_size=25 reweight.prefetch=false reweight.precision=bf16 \
    reweight.optimizer=sgd classifier.optimizer=adam8bit classifier.momentum= classifier.gradient_accumulation=4 classifier.batch_size=25 classifier.prefetch=false \
    classifier.precision=bf16 classifier.product=vjp reweight.checkpointing=sqrt classifier.checkpointing=sqrt
[ "$(value plan 'len(rows)')" = 33 ] || fail "not the rows that there should be: $(cat out)"
picture plan
ablate convnet maml_omniglot --plan
same convnet maml_omniglot 'as configured'
same convnet maml_omniglot 'learner: product = finite' learner.product=finite
same convnet maml_omniglot 'meta: optimizer = sgd' meta.optimizer=sgd
[ "$(value convnet "any('accumulation' in row for row in rows)")" = False ] ||
    fail "levels that work on one batch cannot be split: $(cat out)"
[ ! -e runs ] || fail "--plan leaves a folder that nobody asked for"

# batches of all examples are divided, too: 16,280 for the penalty, not the model's 16,281
ablate whole logistic_hpo --plan
same whole logistic_hpo 'penalty: gradient_accumulation = 4' penalty.gradient_accumulation=4 penalty.batch_size=4070
[ "$(value whole "any('model: gradient_accumulation' in row for row in rows)")" = False ] || fail "an odd number was halved"
[ "$(value whole "any('failed' in row for row in rows.values())")" = False ] || fail "rows have failed: $(cat out)"

# measured, on one level; the same table on the terminal and in Markdown
ablate measured reweight --level classifier --steps 3
[ "$(value measured "all(row['planned_bytes'] == row['measured_bytes'] for row in rows.values())")" = True ] ||
    fail "other bytes than planned: $(cat out)"
for row in 'prefetch = false' 'checkpointing = cheap' 'checkpointing = sqrt'; do
    [ "$(value measured "rows['classifier: $row']['gradient']['same_bits']")" = True ] || fail "$row: not the same bits"
done
[ "$(value measured "rows['classifier: product = vjp']['gradient']['cosine'] > 0.999999")" = True ] || fail "no hypergradient"
picture measured
for row in 'as configured' 'classifier: gradient_accumulation = 2' everything; do
    grep -qE "^$row +[0-9]+ .* [0-9]+ .* ± .*" out || fail "no row $row: $(cat out)"
    grep -qE "^\| $row +\|" measured/ablation.md || fail "no row $row in Markdown"
done
ablate json reweight --plan --level reweight --json
python3 -c 'import json; assert json.load(open("out")) == json.load(open("json/ablation.json"))' || fail "other JSON is printed"

# batches of get_batch are planned, too; if a callback's request makes the arena grow, the new one is measured
ablate made game --steps 3
ablate grown curriculum --level pace --steps 3

# interrupted in its second row: the first one is kept
rm -f err # it already has such a line
"$BETTY_RUN" "$examples/reweight.ini" --threads 1 --ablate --steps 3 --output stopped >out 2>err &
run=$!
for _ in $(seq 300); do
    grep -qs 'as configured: ' err && break
    sleep 0.1
done
kill -INT $run
wait $run
[ $? -eq 130 ] || fail "not 130 after Ctrl-C"
[ "$(value stopped "rows['as configured']['matches'], 'ms_per_step' in rows['everything']")" = "(True, False)" ] ||
    fail "not what there was: $(cat out)"
picture stopped
grep -q 'a second signal stops at once' err || fail "nothing said"

# wrong usage
wrong() { # TEXT OPTIONS...
    local text=$1
    shift
    "$BETTY_RUN" "$examples/reweight.ini" "$@" >out 2>err
    [ $? -eq 2 ] || fail "not 2: $*"
    grep -qF -- "$text" err || fail "not said: $text"
}
wrong '--level nobody: this run has no such level' --ablate --plan --level nobody
wrong '--steps needs --ablate' --steps 3
wrong 'with no other report' --ablate --info
wrong 'no.ini' --set engine.problems=no.ini --ablate --plan
