#!/usr/bin/env bash
# A session of the study `language`: bash .ci/gpu/language.sh [CELLS...], patterns of names of
# cells; by default one seed of ratio and placement, about 12 minutes.
# Environment: LIMIT (590 s), BEFORE (a folder of packed files to go on from), TEXT (an archive).
set -fuo pipefail
LIMIT=${LIMIT:-590}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
[ $# -gt 0 ] || set -- 'ratio-*-s0' 'placement-*-s0'
STUDY=$WORK/language
TABLE=$STUDY/language-study.parquet

corpus
"${LT2[@]}" data show "$CORPUS" | tail -n 12
if [ -n "${BEFORE:-}" ] && [ ! -d "$STUDY" ]; then
  "${LT2[@]}" curriculum unpack --source "$BEFORE" --out "$STUDY" > "$OUT/unpack.log" 2>&1
  told unpacked $? "$OUT/unpack.log"
fi
prices() { "${LT2[@]}" train study language --dry-run --cells "$@" --out "$STUDY" | tail -n 30; }
prices "$@"
if [ -z "$TRY" ]; then  # no cell is small enough to be tried on a CPU
  SIGNAL=INT within 25 "${LT2[@]}" train study language --data "$CORPUS" --cells "$@" \
    --minutes "$(minutes 60)" --out "$STUDY" > "$OUT/language.log" 2>&1
  told study $? "$OUT/language.log"
  tail -n 40 "$OUT/language.log" | cut -c1-220
  "${LT2[@]}" curriculum pack --study "$STUDY" --out "$OUT/packed" --mebibytes 14 \
    > "$OUT/pack.log" 2>&1
  told packed $? "$OUT/pack.log"
  prices "$@"
fi
[ ! -f "$TABLE" ] || { cp "$TABLE" "$OUT"; python3 .ci/gpu/study_tables.py language "$TABLE"; }
finish
