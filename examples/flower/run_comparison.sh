#!/usr/bin/env bash
# Run the app with two methods in turn, and make one page of both, side by side:
#   ./run_comparison.sh                                       convert beside unweighted, simulated
#   METHODS="convert memory unweighted" ./run_comparison.sh   others, or more of them
#   ON=deployment ./run_comparison.sh --plain                 on a real SuperLink and SuperNodes
#   ./run_comparison.sh --run-config 'num-rounds=60 seed=1'   any setting of pyproject.toml
# All runs have the same nodes, data, first weights and settings. What is done already is kept: run
# it again to go on, or with another method to add it to the page.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath -m "${FOLDER:-runs/flower-comparison}")
read -ra methods <<< "${METHODS:-convert unweighted}"

runs=()
for method in "${methods[@]}"; do
    echo "== $method, on Flower =="
    # The script's own options come first, so that --plain stays where it has to be.
    FOLDER="$folder/$method" "$here/run_${ON:-simulation}.sh" "$@" \
        --run-config "method=\"$method\""
    runs+=("$folder/$method")
done
if [ "${#runs[@]}" = 1 ]; then  # nothing to compare with
    unstale report "${runs[0]}"
else
    unstale report "${runs[@]}" --out "$folder/comparison.html"
fi
