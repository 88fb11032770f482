#!/usr/bin/env bash
# Run the app in Flower's simulation, offline, with everything ended afterwards:
#   ./run_simulation.sh                                       5 nodes, 2 of them 8 and 12 rounds late
#   ./run_simulation.sh --run-config 'method="unweighted"'    any setting of pyproject.toml
#   NODES=100 FOLDER=runs/hundred ./run_simulation.sh         more nodes, another run folder
set -euo pipefail
folder=$(realpath -m "${FOLDER:-runs/flower-simulation}")
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

port=$(free_port)
in_background "$work/superlink.log" \
    flower-superlink --simulation --insecure --host 127.0.0.1 --port "$port"
wait_for "$work/superlink.log" "Application startup complete"
mkdir -p "$FLWR_HOME"
cat > "$FLWR_HOME/config.toml" <<CONFIG
[superlink]
default = "site"
[superlink.site]
address = "127.0.0.1:$port"
insecure = true
CONFIG

run_app --federation-config "num-supernodes=${NODES:-5} client-resources-num-cpus=1" \
    --run-config "folder=\"$folder\" min-nodes=${NODES:-5}" "$@"
echo "Run folder: $folder. Its page: unstale report $folder"
