# Sourced by the scripts beside it: setup, the clock, guards in time, how each part ended.
# LIMIT, set before, is the most seconds that a script may take; TRY=1 tries it on a CPU, small.
BEGAN=$(date +%s)
TRY=${TRY:-}
. .ci/gpu/setup.sh
FAILURES=$(mktemp)
LT2=(python3 -m lt2theory)

seconds() { echo $(($(date +%s) - BEGAN)); }
left() { echo $((LIMIT - $(seconds))); }
note() { echo "[$(seconds) s] $*"; }

# within RESERVE COMMAND...: stopped by SIGNAL (TERM) when RESERVE seconds of the limit are left.
within() {
  local most=$(($(left) - $1))
  shift
  [ $most -ge 1 ] || { note "no time left for: $*"; return 124; }
  timeout -k 5 -s "${SIGNAL:-TERM}" $most "$@"
}

# told NAME STATUS [LOG]: how a part ended; the end of its log where it failed.
told() {
  note "$1: $([ "$2" = 0 ] && echo done || echo "failed ($2)")"
  [ "$2" = 0 ] && return
  echo "$1" >> "$FAILURES"
  [ -z "${3:-}" ] || tail -n 8 "$3" | cut -c1-200
}

# minutes RESERVE: those that a session may have, at least a second.
minutes() { python3 -c "print(max(1, $(left) - $1) / 60)"; }

# go_on_with FILE: begin with the rows that are committed.
go_on_with() {
  [ -f "$1" ] || return 0
  cp "$1" "$OUT" && note "goes on with $1"
}

# Where text.sh and language.sh read: Python's documentation, or a few pieces of public text.
corpus() {
  local text=text/python-docs archive=${TEXT:-build/text/python-docs.tar.xz} log=$WORK/corpus.log
  CORPUS=corpora/python-docs
  [ -z "$TRY" ] || { CORPUS=$WORK/corpus; text=excerpt; }
  [ ! -f "$CORPUS/manifest.json" ] || return 0
  if [ -z "$TRY" ] && [ ! -d $text ]; then
    mkdir -p $text
    tar xJf "$archive" -C $text || { rmdir $text; told "text from $archive" 1; finish; }
  fi
  "${LT2[@]}" data prepare --sources $text ${TRY:+--piece-bytes 800} --out "$CORPUS" > "$log" 2>&1
  told corpus $? "$log"
}

# What the kernels' tuning found goes into the results, and comes from build/tuned.tgz.
keep_tuned() {
  [ -d "$TRITON_CACHE_DIR" ] || return 0
  (cd "$TRITON_CACHE_DIR" && find . -name '*autotune*.json' | tar czf "$WORK/tuned.tgz" -T -) &&
    mv "$WORK/tuned.tgz" "$OUT/tuned.tgz" && note "tuned.tgz: $(stat -c %s "$OUT/tuned.tgz") bytes"
}

# The last line of a script.
finish() {
  keep_tuned
  local status=0
  [ ! -s "$FAILURES" ] || { status=1; note "failed: $(paste -sd, "$FAILURES")"; }
  rm -f "$FAILURES"
  note end
  exit $status
}

GPUS=$(nvidia-smi -L 2> /dev/null | wc -l)
DEVICE=cuda
[ -z "$TRY" ] || { DEVICE=cpu; GPUS=0; }
[ $DEVICE = cpu ] || [ "$GPUS" -gt 0 ] || { echo "no GPU here; TRY=1 tries on a CPU" >&2; exit 2; }
if [ -f build/tuned.tgz ]; then
  mkdir -p "$TRITON_CACHE_DIR" && tar xzf build/tuned.tgz -C "$TRITON_CACHE_DIR"
  told "tuning of earlier calls" $?
fi
note "ready on $DEVICE"
