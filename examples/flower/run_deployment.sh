#!/usr/bin/env bash
# Run the app on a real SuperLink and SuperNodes on this machine. By default there are three, and
# one of them is slow and alone in holding one class:
#   ./run_deployment.sh                    TLS, and nodes that prove who they are by registered keys
#   ./run_deployment.sh --plain            neither, for a quick look
#   ./run_deployment.sh --run-config 'num-rounds=40'          any setting of pyproject.toml
#   SLOW_SECONDS=60 FOLDER=runs/site ./run_deployment.sh      a slower node, another run folder
#   NODES=5 SLOW_SECONDS=0 ./run_deployment.sh --run-config 'late-rounds=10 slow-nodes=2'
#                                                             more nodes, and emulated lateness
set -euo pipefail
folder=$(realpath -m "${FOLDER:-runs/flower-deployment}")
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
nodes=${NODES:-3}

plain=
if [ "${1:-}" = --plain ]; then
    plain=1
    shift
fi
port=$(free_port)
mkdir -p "$FLWR_HOME"
printf '[superlink]\ndefault = "site"\n[superlink.site]\naddress = "127.0.0.1:%s"\n' "$port" > "$FLWR_HOME/config.toml"
if [ "$plain" ]; then
    echo "insecure = true" >> "$FLWR_HOME/config.toml"
    server_options=(--insecure)
    node_options=(--insecure)
else
    keys=$work/certificates
    python "$here/make_certificates.py" "$keys" --nodes "$nodes" >/dev/null
    echo "root-certificates = \"$keys/ca.crt\"" >> "$FLWR_HOME/config.toml"
    server_options=(--ssl-ca-certfile "$keys/ca.crt" --ssl-certfile "$keys/server.pem"
        --ssl-keyfile "$keys/server.key" --enable-supernode-auth)
    node_options=(--root-certificates "$keys/ca.crt")
fi

in_background "$work/superlink.log" flower-superlink "${server_options[@]}" \
    --host 127.0.0.1 --port "$port" --database "$work/state.db"
wait_for "$work/superlink.log" "Application startup complete"

for node in $(seq 0 $((nodes - 1))); do
    own=()
    if [ -z "$plain" ]; then
        flwr supernode register "$keys/node$node.pub" site >/dev/null
        own=(--auth-supernode-private-key "$keys/node$node.key")
    fi
    slow=0
    [ "$node" = $((nodes - 1)) ] && slow=${SLOW_SECONDS:-30}
    in_background "$work/node$node.log" flower-supernode \
        "${node_options[@]}" ${own[@]+"${own[@]}"} \
        --superlink "127.0.0.1:$port" --port "$(free_port)" \
        --node-config "partition-id=$node num-partitions=$nodes slow-seconds=$slow"
done
for node in $(seq 0 $((nodes - 1))); do
    wait_for "$work/node$node.log" "SuperNode ID"
done
echo "SuperLink and $nodes SuperNodes are up; the last one is ${SLOW_SECONDS:-30} s slow."

run_app --run-config "folder=\"$folder\" late-rounds=0 slow-nodes=1 min-nodes=$nodes" \
    --run-config "num-rounds=20 close-fraction=0.6" "$@"
echo "Run folder: $folder. Its page: unstale report $folder"
