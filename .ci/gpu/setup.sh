# Sourced from the root of the tree: folders, packages from wheels, the revision, caches of kernels.
# WHEELS names folders of wheels (build/wheels); without one those of .venv or of python3 serve.
WORK=${WORK:-${TMPDIR:-/tmp}/lt2-gpu}
OUT=${OUT:-build/gpu}

[ -f lt2theory/__init__.py ] || { echo "run this from the root of the tree, not $PWD" >&2; exit 2; }
mkdir -p "$WORK" "$OUT" || exit 2
WORK=$(realpath "$WORK") OUT=$(realpath "$OUT")
[ ! -f .venv/bin/activate ] || . .venv/bin/activate

install_wheels() {
  local folder site=$WORK/site wheels=() list
  [ -n "${WHEELS:-}" ] || [ -d build/wheels ] || return 0
  for folder in ${WHEELS:-build/wheels}; do wheels+=("$folder"/*.whl); done
  list=$(cksum "${wheels[@]}") || { echo "WHEELS names a folder without wheels" >&2; return 1; }
  if [ "$list" != "$(cat "$site.list" 2> /dev/null)" ]; then
    python3 -m pip install -qq --no-index --no-deps --no-compile --no-cache-dir --upgrade \
      --target "$site" "${wheels[@]}" || { echo "the wheels could not be installed" >&2; return 1; }
    echo "$list" > "$site.list"
  fi
  export PYTHONPATH=$site:$PWD
}

# One script at a time, as tests and a study may begin beside one another.
exec 9> "$WORK/setup.lock"
flock 9
install_wheels || exit 2
if [ ! -e .git ]; then
  if [ -s build/revision ]; then
    printf '{"source": "%s"}\n' "$(tr -d '[:space:]' < build/revision)" > lt2theory/build.json
  else
    echo "neither git nor build/revision: what is measured will not name its revision"
  fi
fi
exec 9>&-

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONUNBUFFERED=1 MPLBACKEND=Agg
export TRITON_CACHE_DIR=$WORK/triton TORCHINDUCTOR_CACHE_DIR=$WORK/inductor
