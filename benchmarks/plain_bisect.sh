#!/usr/bin/env bash
# The loop that one writes without a tool: make the environment, run the case, look at the exit
# code, halve. The two ends are looked at first: who has not seen both does not know what to search.
#
#     plain_bisect.sh INDEX CASE PYTHON FOLDER < versions, oldest first
#
# Prints how long it took until the ends were known, and the two versions between which it changes.
set -euo pipefail
index=$1 case=$2 python=$3 folder=$4
mapfile -t versions

run() {
  uv venv --quiet --python "$python" "$folder/$1"
  uv pip install --quiet --python "$folder/$1/bin/python" --index "$index" \
    --index-strategy unsafe-best-match "torch==$1" setuptools numpy
  "$folder/$1/bin/python" "$case" >"$folder/$1.log" 2>&1 && echo 0 || echo $?
}

low=0 high=$((${#versions[@]} - 1))
first=$(run "${versions[low]}") last=$(run "${versions[high]}")
echo "ends $SECONDS"
[ "$first" != "$last" ] || { echo "both ends end with $first" >&2; exit 1; }
while ((high - low > 1)); do
  middle=$(((low + high) / 2))
  if [ "$(run "${versions[middle]}")" = "$first" ]; then low=$middle; else high=$middle; fi
done
echo "${versions[low]} ${versions[high]}"
