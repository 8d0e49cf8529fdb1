#!/usr/bin/env bash
# Every 1.3B preset: reading a prompt, a token-step, a training step. It goes on with results/.
# Environment: LIMIT (245 s), WARM (seconds of compiling beforehand, 95), WARMERS (processes of
# that, 7), ROW (most seconds of a measurement, 60). Further words are options of the command.
set -uo pipefail
LIMIT=${LIMIT:-245}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
FILE=$OUT/presets-h200.json
SIZES=()
if [ -n "$TRY" ]; then
  rm -f "$FILE"
  SIZES=(--presets toy-full-gdn toy-nsa --prefill 1 32 --decode 2 32 --train 2 16 --steps 2
    --backend auto)
  python3 .ci/gpu/warm_presets.py 0 1 "$FILE" --preset toy-full-gdn --device cpu
  told "warm-up" $?
else
  go_on_with results/presets-h200.json
  # Kernels are compiled and tuned by several processes at once, on models of few layers.
  N=${WARMERS:-7}
  for ((i = 0; i < N; i++)); do
    timeout -k 2 "${WARM:-95}" python3 .ci/gpu/warm_presets.py $i "$N" "$FILE" \
      > "$WORK/warm-$i.log" 2>&1 &
  done
  wait
  note "warm"; tail -qn 1 "$WORK"/warm-*.log | cut -c1-150
fi
SIGNAL=INT within 9 "${LT2[@]}" bench presets "$FILE" --device $DEVICE --minutes "$(minutes 18)" \
  --limit "${ROW:-60}" "${SIZES[@]}" "$@" 2> "$OUT/presets.log" > "$OUT/presets.txt"
told presets $? "$OUT/presets.log"
cat "$OUT/presets.txt"
finish
