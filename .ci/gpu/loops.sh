#!/usr/bin/env bash
# A session of the study `loops`: bash .ci/gpu/loops.sh CELLS..., patterns of names of cells.
# Environment: LIMIT (590 s), SEATS (cells at once, 6), BEFORE (a folder of packed files to go on
# from), MEBIBYTES (most that is packed, 14).
set -fuo pipefail
LIMIT=${LIMIT:-590}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
[ $# -gt 0 ] || { echo "which cells? lt2 curriculum study loops --dry-run lists them" >&2; exit 2; }
STUDY=$WORK/loops

if [ -n "${BEFORE:-}" ]; then
  "${LT2[@]}" curriculum unpack --source "$BEFORE" --out "$STUDY" > "$OUT/unpack.log" 2>&1
  told unpacked $? "$OUT/unpack.log"
fi
DRY=(); [ -z "$TRY" ] || DRY=(--dry-run)
SIGNAL=INT within 12 "${LT2[@]}" curriculum study loops --device $DEVICE --cells "$@" \
  --minutes "$(minutes 22)" --at-once "${SEATS:-6}" --out "$STUDY" "${DRY[@]}" \
  > "$OUT/loops.log" 2>&1
told study $? "$OUT/loops.log"
if [ -d "$STUDY" ]; then
  "${LT2[@]}" curriculum pack --study "$STUDY" --out "$OUT/packed" --mebibytes "${MEBIBYTES:-14}" \
    > "$OUT/pack.log" 2>&1
  told packed $? "$OUT/pack.log"
fi
tail -n 40 "$OUT/loops.log" | cut -c1-170
python3 .ci/gpu/study_tables.py loops "$STUDY"
finish
