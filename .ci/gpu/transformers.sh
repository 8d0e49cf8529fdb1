#!/usr/bin/env bash
# A saved model under transformers, in processes of its own: generate() beside recomputation.
# Environment: LIMIT (118 s); WHEELS has to name those of transformers 5.24 too.
set -uo pipefail
LIMIT=${LIMIT:-118}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
RUN=$WORK/saved-run SAVED=$WORK/saved
HOW=(--recipe byte-10m-8min --steps 120)
[ -z "$TRY" ] || HOW=(--preset byte-1m-full-gdn --steps 3 --batch-size 2 --sequence-length 64
  --model.num-loops 2)

rm -rf "$RUN" "$SAVED"
[ -f "$WORK/excerpt/manifest.json" ] ||
  "${LT2[@]}" data prepare --sources excerpt --piece-bytes 2000 --out "$WORK/excerpt" \
    > "$WORK/excerpt.log" 2>&1
told excerpt $? "$WORK/excerpt.log"
within 45 "${LT2[@]}" train --data "$WORK/excerpt" "${HOW[@]}" --evaluate-every 0 \
  --device $DEVICE --out "$RUN" > "$WORK/saved-run.log" 2>&1
told training $? "$WORK/saved-run.log"
STEPS=$(python3 .ci/gpu/text.py steps "$RUN" 480)
told "STEPS of text.sh, for eight minutes: ${STEPS:-unknown}" $?
within 25 python3 .ci/gpu/transformers_check.py save "$RUN" "$SAVED"
told saved $?
within 5 python3 .ci/gpu/transformers_check.py load "$SAVED" $DEVICE "$OUT/hf.json"
told loaded $?
finish
