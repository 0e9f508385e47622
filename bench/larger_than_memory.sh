#!/bin/bash
# A data set of 2 GiB, trained on in a memory cgroup of 512 MiB (version 1 or 2; as root): how fast, beside reading the
# same files in the same cgroup and doing nothing with them, and what the process and the cgroup held at most.
#
#     bench/larger_than_memory.sh [FOLDER]      where the set is made, and left; default: a new one in /tmp
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -d /tmp/betty-large-XXXXXX)}
count=14336 side=224 # 14,336 images of 150,528 bytes
name=betty-large-$$
limit=$((512 << 20))

header() { # SHAPE TYPE: that of a .npy file
    local text="{'descr': '$2', 'fortran_order': False, 'shape': ($1), }"
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$text"
}

if [ ! -f "$folder/train/label.npy" ]; then
    mkdir -p "$folder/train"
    { header "$count, $side, $side, 3" '|u1'; head -c $((count * side * side * 3)) /dev/urandom; } \
        >"$folder/train/image.npy"
    { header "$count, " '|u1'; yes | head -c $count | tr 'y\n' '\000\001' || true; } >"$folder/train/label.npy"
fi

cat >"$folder/problem.c" <<'C'
/* What costs nothing: the mean colour of an image, and two classes. */
#include <betty/betty.h>
static bt_dataset *photos(bt_problem *self) { return bt_dataset_open(bt_option_text(self, "data", "."), "train"); }
static bt_module *net(bt_problem *self) { return (void)self, bt_nn_linear(3, 2); }
static bt_tensor *step(bt_problem *self, const bt_batch *batch)
{
    bt_tensor *colour = bt_mean(bt_mean(bt_field(batch, "image"), 1), 1);
    return bt_mean(bt_cross_entropy(bt_forward(self, colour), bt_field(batch, "label")));
}
static const bt_problem_def model = {
    .name = "model", .configure_train_data = photos, .configure_module = net, .training_step = step};
BT_EXPORT(.problems = {&model});
C
cat >"$folder/run.ini" <<INI
[engine]
problems    = problem.c
train_iters = $((count / 64))
log_step    = 0
output      = $folder/run
[model]
optimizer  = sgd
lr         = 0.01
batch_size = 64
data       = $folder
INI

if [ -d /sys/fs/cgroup/memory ]; then # version 1
    group=/sys/fs/cgroup/memory/$name
    mkdir "$group"
    echo $limit >"$group/memory.limit_in_bytes"
    peak=memory.max_usage_in_bytes
else
    group=/sys/fs/cgroup/$name
    mkdir "$group"
    echo $limit >"$group/memory.max"
    peak=memory.peak
fi
trap 'rmdir "$group" 2>/dev/null || true' EXIT

forget() { dd if="$folder/train/image.npy" iflag=nocache count=0 status=none; } # by the kernel's cache

inside() { ( echo $BASHPID >"$group/cgroup.procs" && exec "$@" ); }

seconds() { # COMMAND...
    local begin
    begin=$(date +%s.%N)
    inside "$@" >"$folder/out" 2>&1 || { cat "$folder/out"; exit 1; }
    awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'
}

bytes=$(stat -c %s "$folder/train/image.npy")
speed() { awk -v n="$bytes" -v s="$1" 'BEGIN { printf "%.1f s, %.0f MB/s", s, n / s / 1e6 }'; }
sync "$folder/train/image.npy"
forget
read_whole=$(seconds dd if="$folder/train/image.npy" of=/dev/null bs=1M)
forget
trained=$(seconds "$root/build/betty-run" "$folder/run.ini")
echo "set: $bytes bytes; limit: $limit bytes"
echo "only read, from its beginning to its end: $(speed "$read_whole")"
echo "trained on, one epoch, rows in random order: $(speed "$trained")"
echo "most in the cgroup: $(cat "$group/$peak" 2>/dev/null || echo '?') bytes, with the kernel's cache"
grep -o '"outside_bytes[^,]*' "$folder"/run/summary.json || true
