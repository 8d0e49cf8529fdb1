#!/usr/bin/env bash
# Cells of the efficiency benchmark, the figure's first. It goes on with the rows in results/.
# Environment: LIMIT (395 s). Further words are options of `lt2 bench efficiency`.
set -uo pipefail
LIMIT=${LIMIT:-395}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
FILE=$OUT/efficiency-h200.json
if [ -n "$TRY" ]; then
  rm -f "$FILE"
  within 5 python3 .ci/gpu/efficiency.py try "$FILE"
  told "rows of small models" $?
else
  go_on_with results/efficiency-h200.json
  # A fault that the device does not survive ends a session with its row; the next process goes on.
  for turn in 1 2 3 4; do
    [ "$(left)" -ge 50 ] || break
    LOG=$OUT/efficiency-$turn.log
    SIGNAL=INT within 15 "${LT2[@]}" bench efficiency "$FILE" --minutes "$(minutes 30)" "$@" \
      > "$LOG" 2>&1
    told "turn $turn" $? "$LOG"
    python3 .ci/gpu/efficiency.py clean "$FILE"
    tail -n 1 "$LOG" | cut -c1-200
    ! tail -n 1 "$LOG" | grep -qE ': ([0-9]+) of \1 cells' || break
  done
  grep -hE 'tokens/s|out of memory|left out' "$OUT"/efficiency-*.log | cut -c1-150
fi
python3 .ci/gpu/efficiency.py table "$FILE"
finish
