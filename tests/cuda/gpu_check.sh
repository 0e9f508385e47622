#!/bin/bash
# tools/gpu-check on the fake CUDA device: the report has its documented contents, distinguishes a correct program from
# a broken one, and does not claim to have used a GPU.
. "$BT_SOURCE_DIR/tests/e2e/common.sh" || exit 1
tool=$BT_SOURCE_DIR/tools/gpu-check

# A build with the command, and with test programs of which one passes, one fails and one is skipped.
mkdir -p build/tests/bin
ln -s "$BETTY_RUN" build/betty-run
ln -s "$(type -P false)" build/tests/bin/backend.broken
ln -s "$BT_BUILD_DIR/tests/bin/backend.ranks" build/tests/bin/backend.ranks
printf '#!/bin/sh\necho not here\nexit 77\n' >build/tests/bin/ops.elsewhere
printf '#!/bin/sh\n[ "$BETTY_TEST_BACKEND" = cuda ] && exec "$BETTY_RUN" --version\n' >build/tests/bin/backend.right
chmod +x build/tests/bin/backend.right build/tests/bin/ops.elsewhere
printf '%s\n' backend.right backend.broken backend.ranks ops.elsewhere >build/tests/on-device.txt

"$tool" run all --build build --output report --jobs 2 --minutes 2 \
    --only '^(backend|ops)|^example logistic_hpo|^kernels of logistic_hpo|NCCL|compute-sanitizer' >out 2>err
code=$?
[ $code -eq 1 ] || fail "a failed check, and exit $code"
python3 - <<'END' || fail "report.json is not as it should be"
import json

report = json.load(open("report/report.json"))
assert report["device"] == {"kind": "fake"} and report["profile"] is None and report["libraries"] == {}
assert [part["name"] for part in report["parts"]] == ["values", "sanitizer", "speed"]
assert all(0 < part["seconds"] < part["limit"] + 5 for part in report["parts"]), report["parts"]
checks = {(check["part"], check["name"]): check for check in report["checks"]}
assert len(checks) == len(report["checks"])
for check in checks.values():
    assert set(check) == {"part", "name", "status", "times", "same_bits", "seconds", "note", "command", "figures"}
    assert check["status"] in ("ok", "failed", "absent", "skipped") and len(check["seconds"]) == check["times"] <= 2
assert report["counts"] == {s: sum(c["status"] == s for c in checks.values()) for s in report["counts"]}

of = lambda name, part="values": checks[part, name]
for check in checks.values():
    print(check["part"], check["name"], check["status"], check["seconds"], check["note"])
assert of("a device answers")["status"] == "ok"
assert of("backend.right")["status"] == "ok" and of("backend.right")["times"] == 2
assert of("backend.right")["command"].endswith("backend.right")
assert of("backend.broken")["status"] == "failed" and of("backend.broken")["note"] == "exit 1"
assert of("ops.elsewhere")["status"] == "skipped" and of("ops.elsewhere")["note"] == "not here"
example = of("example logistic_hpo")
assert example["status"] == "ok" and example["same_bits"] is True, example
assert example["figures"]["planned_bytes"] == example["figures"]["allocated_bytes"] > 0
nccl = of("NCCL, one rank only")
assert nccl["status"] == "ok" and nccl["times"] == 2 and nccl["note"].endswith("this says nothing about several"), nccl
assert ("values", "backend.ranks") not in checks
assert all(of(f"compute-sanitizer {tool}", "sanitizer")["status"] in ("absent", "skipped")
           for tool in ("memcheck", "racecheck", "synccheck"))
speed = of("example logistic_hpo", "speed")
assert speed["status"] == "ok" and speed["figures"]["cuda_ms"] > 0 and speed["figures"]["cpu_ms"] > 0
assert of("kernels of logistic_hpo", "speed")["figures"]["timed_by"] == "device"
kernels = of("kernels of logistic_hpo", "speed")["figures"]["kernels"]
assert kernels and abs(sum(kernel["share"] for kernel in kernels) - 1) < 0.2
END
grep -q 'simulated on the processor. No GPU was used' report/report.md || fail "report.md does not say what the device is"
! grep -qiE 'nvidia|driver' report/report.md || fail "report.md speaks of a GPU"
grep -q '^| backend.broken | failed |' report/report.md || fail "report.md does not say what has failed"

# Without a device nothing is tried, and nothing passes.
rm build/betty-run
printf '#!/bin/sh\necho no CUDA device can be used >&2\nexit 1\n' >build/betty-run
chmod +x build/betty-run
CUDA_VISIBLE_DEVICES='' "$tool" run values --build build --output none >out 2>err && fail "no device, and exit 0"
python3 - <<'END' || fail "a report without a device"
import json

(check,) = json.load(open("none/report.json"))["checks"]
assert check["status"] == "failed" and "no CUDA device can be used" in check["note"]
END
"$tool" run --build nowhere --output none >out 2>err
[ $? -eq 2 ] || fail "no build, and not exit 2"
grep -q 'there is no .*nowhere/betty-run' out || fail "no word of the build that is not there"

# A result that is not repeatable is a failure; a check with time for only one run passes, and says so.
PYTHONPATH=$BT_SOURCE_DIR/tools/gpu_check python3 -B - <<'END' || fail "checks"
import random

import checks
import places

def part(seconds=60):
    return checks.Part("values", places.Places("build", "work"), seconds, jobs=2)

def entry(work, limit=60, **more):
    one = part(**more)
    one.do([checks.Check("one", work, limit)])
    return one.entries[0]

other = entry(lambda folder, end: checks.Outcome("ok", bits=str(random.random())))
assert (other["status"], other["same_bits"]) == ("failed", False) and "different bits" in other["note"]
same = entry(lambda folder, end: checks.Outcome("ok", bits="1"))
assert (other["times"], same["status"], same["same_bits"]) == (2, "ok", True)
slow = checks.program("one", ["sleep", "1.5"], None)
once = entry(slow.work, seconds=2)
assert (once["status"], once["times"], once["note"]) == ("ok", 1, "done once"), once
late = entry(slow.work, seconds=0.5)
assert (late["status"], late["times"]) == ("skipped", 0), late
long = entry(checks.program("one", ["sleep", "9"], None).work, limit=0.2)
assert long["status"] == "failed" and "took longer" in long["note"], long
END

# Libraries: of a toolkit, and of the `nvidia` packages for Python.
mkdir -p toolkit/lib64 site/nvidia/cudnn/lib site/nvidia/nccl/lib
touch toolkit/lib64/libcublasLt.so.13 site/nvidia/cudnn/lib/libcudnn.so.9 site/nvidia/nccl/lib/libnccl.so.2
CUDA_HOME=$PWD/toolkit PYTHONPATH=$PWD/site "$tool" libraries >out 2>err || fail "libraries"
grep -qxF "cuBLASLt: $PWD/toolkit/lib64/libcublasLt.so.13, version unknown" out || fail "cuBLASLt of the toolkit"
PYTHONPATH=$BT_SOURCE_DIR/tools/gpu_check python3 -B - <<'END' || fail "libraries of packages"
import os

import machine

places = [os.path.join(os.getcwd(), "site", "nvidia", name, "lib") for name in ("cudnn", "nccl")]
assert [place for place in machine.folders([os.path.join(os.getcwd(), "site")]) if place in places] == places
assert machine.find(["libnccl.so.2"], places) == os.path.join(places[1], "libnccl.so.2")
found = {"cuDNN": {"file": places[0] + "/libcudnn.so.9"}, "NCCL": {"file": places[1] + "/libnccl.so.2"}, "other": None}
assert machine.library_folders(found) == ":".join(places)
END
