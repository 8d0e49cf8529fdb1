#!/usr/bin/env bash
# Tests that need a GPU: bash .ci/gpu/tests.sh [FILES...]
# Environment: LIMIT (590 s), WORKERS (8 processes).
set -uo pipefail
LIMIT=${LIMIT:-590}
. .ci/gpu/lib.sh || exit 2  # from the root of the tree
PYTEST=(python3 -m pytest -q -m gpu -p no:cacheprovider -p no:benchmark --tb=short -ra)
CELLS=tests/experiments/test_every_cell.py

has_transformers() {
  python3 -c 'from importlib.metadata import version as v
from packaging.version import Version as V
raise SystemExit(V(v("transformers")) < V("5.24"))' 2> /dev/null
}

FILES=("$@")
[ $# -gt 0 ] || mapfile -t FILES < <(grep -rl 'mark\.gpu' tests --include='test_*.py' | sort)
if [ $# = 0 ] && ! has_transformers; then
  note "tests/hf is left out: transformers 5.24 is not here"
  mapfile -t FILES < <(printf '%s\n' "${FILES[@]}" | grep -v '^tests/hf/')
fi

rm -f "$OUT/kda.log" "$OUT/gpu.log"
# KDA's kernels are tuned for longer than all the others take together.
if [[ " ${FILES[*]} " == *" $CELLS "* ]]; then
  (
    within 20 "${PYTEST[@]}" -n 0 $CELLS -k kda > "$OUT/kda.log" 2>&1
    told "KDA's arm" $? "$OUT/kda.log"
  ) &
fi
within 20 "${PYTEST[@]}" -n "${WORKERS:-8}" --dist worksteal --junitxml="$OUT/gpu.xml" \
  "${FILES[@]}" -k "not (every_arm and kda)" > "$OUT/gpu.log" 2>&1
told "all others" $? "$OUT/gpu.log"
wait
grep -hE '^(FAILED|ERROR)' "$OUT/kda.log" "$OUT/gpu.log" 2> /dev/null | cut -c1-180 | head -20
tail -qn 1 "$OUT/kda.log" "$OUT/gpu.log" 2> /dev/null
finish
