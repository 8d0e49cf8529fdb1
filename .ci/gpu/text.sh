#!/usr/bin/env bash
# The byte model of 10M parameters, trained on text for eight minutes, and what it is held against.
# Environment: LIMIT (585 s), STEPS (found by a probe if unset), TAIL (seconds kept for what follows
# the training, 75), THREADS (of each of two processes on the CPU, 6), TEXT (an archive of it).
# A run that is there is continued.
set -uo pipefail
LIMIT=${LIMIT:-585}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
RUN=runs/byte-10m-8min TWO=$WORK/two
PROBE=40 TAKE=40 NEW=128  # steps of the probe, steps that two processes repeat, tokens of a text
HOW=(--recipe byte-10m-8min)
# Two processes on the CPU take few steps, which are compared one by one.
[ "$GPUS" -ge 2 ] || HOW+=(--log-every 1)
if [ -n "$TRY" ]; then
  RUN=$WORK/run STEPS=${STEPS:-11} EVERY=5 NEW=24
  HOW=(--preset byte-1m-full-gdn --batch-size 4 --sequence-length 64 --evaluate-every 4
    --model.num-loops 2 --log-every 1)
fi

text() { python3 .ci/gpu/text.py "$@"; }
checkpoints() { find "$RUN/checkpoints" -maxdepth 1 -name '*-step-*[0-9]' 2> /dev/null | sort; }

choose_steps() {
  local log=$WORK/probe.log
  [ ! -f $RUN/config.json ] || STEPS=$(text steps-of $RUN)
  [ -z "${STEPS:-}" ] || return 0
  rm -rf "$WORK/probe"
  timeout 150 "${TRAIN[@]}" --device $DEVICE --steps $PROBE --evaluate-every 0 \
    --out "$WORK/probe" > "$log" 2>&1
  told probe $? "$log"
  STEPS=$(text steps "$WORK/probe" $(($(left) - ${TAIL:-75}))) || STEPS=3000  # the recipe's
}

# copy_run CHECKPOINT: the run as it was there, for two processes.
copy_run() {
  local name
  rm -rf "$TWO"
  mkdir -p "$TWO/checkpoints"
  for name in config environment corpus; do cp "$RUN/$name.json" "$TWO"; done
  cp "$RUN"/{metrics,timing}.jsonl "$TWO" && cp -r "$1" "$TWO/checkpoints"
  told "copy of $(basename "$1")" $?
}

two_on_cpu() {
  local first=
  while [ -z "$first" ] && [ "$(left)" -gt 75 ]; do sleep 1; first=$(checkpoints | head -n 1); done
  [ -n "$first" ] || { note "two processes: no checkpoint in time"; return; }
  copy_run "$first"
  OMP_NUM_THREADS=${THREADS:-6} two 75 --device cpu --micro-batch-size 2
}

two_on_gpus() {
  local last_but_one
  last_but_one=$(checkpoints | tail -n 2 | head -n 1)
  copy_run "$last_but_one"
  two 25 --device cuda
}

# two RESERVE HOW...: the same command in two processes; stopped by the clock is as good as ended.
two() {
  local reserve=$1
  shift
  within "$reserve" python3 -m torch.distributed.run --nproc-per-node 2 -m "${TRAIN[@]:2}" \
    --steps "$STEPS" "$@" --out "$TWO" > "$WORK/two.log" 2>&1
  note "two processes ended: $?"
}

pack() {
  local parts=("$(basename $RUN)" -C "$WORK" command.txt) name
  for name in "$WORK"/*.log "$TWO"/{metrics.jsonl,environment.json,summary.json}; do
    [ ! -f "$name" ] || parts+=("${name#"$WORK"/}")
  done
  tar czf "$OUT/run.tgz" --exclude checkpoints --exclude report.html --exclude lock \
    -C "$(dirname $RUN)" "${parts[@]}"
}

corpus
TRAIN=("${LT2[@]}" train --data "$CORPUS" "${HOW[@]}")
choose_steps
EVERY=${EVERY:-$(((STEPS - TAKE) / 4))}
note "$STEPS steps, a checkpoint every $EVERY"
echo "lt2 ${TRAIN[*]:3} --steps $STEPS" > "$WORK/command.txt"

(timeout 200 python3 .ci/gpu/text.py xz $RUN > "$WORK/xz.log" 2>&1; told xz $? "$WORK/xz.log") &
BESIDE=
[ "$GPUS" -ge 2 ] || { two_on_cpu & BESIDE=$!; }
within 60 "${TRAIN[@]}" --device $DEVICE --steps "$STEPS" --checkpoint-every "$EVERY" --out $RUN \
  > "$WORK/run.log" 2>&1
told training $? "$WORK/run.log"
[ -n "$BESIDE" ] || { two_on_gpus & BESIDE=$!; }

text weights $RUN "$OUT"
told weights $?
within 15 timeout 40 "${LT2[@]}" generate $RUN --prompt "class Queue" --max-new-tokens 400 \
  --temperature 0.7 --device $DEVICE > "$OUT/generated.txt" 2>&1
told "lt2 generate" $? "$OUT/generated.txt"
within 15 python3 -m lt2theory.experiments.text_checks $RUN --device $DEVICE --new-tokens $NEW \
  --json "$OUT/checks.json" > "$WORK/checks.log" 2>&1
told checks $? "$WORK/checks.log"
while kill -0 $BESIDE 2> /dev/null && [ "$(left)" -gt 12 ]; do sleep 1; done
text compare $RUN "$TWO" "$OUT/checks.json"
told compared $?
timeout 20 "${LT2[@]}" report $RUN --out "$OUT/report.html" --overwrite > "$WORK/report.log" 2>&1
told report $? "$WORK/report.log"
pack
told packed $?
head -c 500 "$OUT/generated.txt"; echo
text table $RUN "$OUT/checks.json"
finish
