#!/bin/bash
# Ranks as processes: if one is killed, crashes or fails, there is one message and an exit code, and no process is left.
. "$(dirname "$0")/common.sh" || exit 1
. "$(dirname "$0")/processes_common.sh" || exit 1

# any rank is killed at any moment
for rank in 0 1 2; do
    overlap=$([ $rank -eq 1 ] && echo true || echo false)
    begin --output "killed-$rank" --set "engine.overlap=$overlap" --set engine.bucket=0
    kill -KILL "${ranks[$rank]}"
    ends "rank $rank killed" 1 "of 3 was ended by signal 9"
    sleep 0.0$rank
done

# or the process that waits for them: the system ends the ranks
begin --output alone
kill -KILL "$run"
wait "$run" 2>/dev/null
none_left "their parent killed"

# a crash in a problem's code is reported once, for one rank or for all, which make the same batches
for key in crashes one_crashes; do
    "$BETTY_RUN" "$folder/run.ini" --set model.$key=7 --output $key >out 2>err
    code=$?
    [ $code -eq 1 ] || fail "$key: exit code $code"
    [ "$(grep -c 'model.c: model, get_batch crashed: SIGSEGV' err)" -eq 1 ] || fail "$key: not one message with its place"
    [ "$(wc -l <err)" -eq 1 ] || fail "$key: more than one message"
    none_left "$key"
done

# if a rank exits without a message, no other keeps waiting
"$BETTY_RUN" "$folder/run.ini" --set model.leaves=7 --output gone >out 2>err
[ $? -eq 1 ] || fail "a rank has left, and nobody has noticed"
grep -q 'of 3 has ended before the run' err || fail "a rank has left: the message lacks that"
none_left "a rank has left"

# differences between the processes are detected before the first step
"$BETTY_RUN" "$folder/run.ini" --set model.differs=1 --output differs >out 2>err
[ $? -eq 2 ] || fail "other parameters: another exit code"
grep -q 'model has other parameters, or another learning rate, on rank' err || fail "other parameters: another message"
[ ! -e "$folder/differs/metrics.jsonl" ] || fail "other parameters: a folder is left"

# if its output is closed, it ends without a message, like any command
"$BETTY_RUN" "$folder/run.ini" --output unread 2>err | head -n 3 >out
[ "${PIPESTATUS[0]}" -eq 141 ] || fail "unread: another exit code: ${PIPESTATUS[*]}"
[ ! -s err ] || fail "unread: something is said"
none_left "unread"

# Ctrl-Z stops all of them
begin --output held
kill -TSTP "$run"
sleep 0.5
for pid in "$run" "${ranks[@]}"; do
    grep -q '^State:.T' "/proc/$pid/status" || fail "Ctrl-Z: a process goes on"
done
kill -CONT "$run"
sleep 0.5
for pid in "${ranks[@]}"; do
    grep -q '^State:.T' "/proc/$pid/status" && fail "Ctrl-Z: a process does not go on"
done
kill -TERM "$run"
wait "$run"
[ $? -eq 130 ] || fail "Ctrl-Z, and an end: another exit code"
none_left "Ctrl-Z"

# an error that all ranks find is reported once, with the exit code of a single rank
"$BETTY_RUN" "$folder/run.ini" --set model.fails=7 --output failed >out 2>err
code=$?
[ $code -eq 1 ] || fail "a failure: exit code $code"
[ "$(grep -c 'batch 7 has no labels' err)" -eq 1 ] || fail "a failure is not said once"
none_left "a failure"
"$BETTY_RUN" "$folder/run.ini" --set model.wrong=7 --output wrong >out 2>err
code=$?
[ $code -eq 2 ] || fail "a wrong setting: exit code $code"
[ "$(wc -l <err)" -eq 1 ] || fail "a wrong setting is not said once"
[ ! -e wrong ] || fail "a wrong setting: a folder is left"

# only rank 0 prints
"$BETTY_RUN" "$folder/run.ini" --set engine.train_iters=4 --output whole >out 2>err || fail "a short run"
of_one=$("$BETTY_RUN" "$folder/run.ini" --ranks 1 --set engine.train_iters=4 --output one | grep -c 'a problem prints')
[ "$(grep -c 'a problem prints' out)" -eq "$of_one" ] || fail "other ranks print, too"
grep -q '3 ranks, each a process of its own' out || fail "nothing is said of the ranks"

# the bits of ranks in lockstep, with any joining of messages, and with overlapping communication
run turns reweight engine.train_iters=4 engine.valid_step=4 engine.ranks=3 engine.executor=lockstep
for bucket in 0 1KiB 25MiB; do
    for overlap in true false; do
        run together reweight engine.train_iters=4 engine.valid_step=4 engine.ranks=3 engine.bucket=$bucket engine.overlap=$overlap
        cmp -s together/checkpoints/*.safetensors turns/checkpoints/*.safetensors || fail "bucket = $bucket, overlap = $overlap: other bits"
        cmp -s <(numbers together) <(numbers turns) || fail "bucket = $bucket, overlap = $overlap: other numbers"
        rm -r together
    done
done

# a checkpoint does not depend on the number of ranks that wrote it, nor on where they ran
for how in "--ranks 3" "--ranks 3 --set engine.executor=lockstep" "--ranks 1"; do
    # shellcheck disable=SC2086 # words
    "$BETTY_RUN" "$examples/reweight.ini" $how --set engine.train_iters=4 --output from >out 2>err || fail "$how"
    "$BETTY_RUN" --resume from --ranks 2 --set engine.train_iters=6 >out 2>err || fail "two ranks do not go on from $how"
    "$BETTY_RUN" --resume from --ranks 1 --set engine.train_iters=8 >out 2>err || fail "one does not go on from two"
    rm -r from
done

# asked to stop twice, it stops at once
begin --output twice
kill -STOP "${ranks[2]}"
kill -TERM "$run"
sleep 0.5
kill -TERM "$run"
sleep 0.5
kill -CONT "${ranks[2]}"
wait "$run"
[ $? -eq 130 ] || fail "asked twice: another exit code"
none_left "asked twice"
