# Sourced by the two scripts: Flower and Ray stay offline and write nowhere but here.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
mkdir "$work/home"

# Ray asks a cloud's metadata address whether it runs there, unless its home holds this file.
echo "{}" > "$work/home/ray_bootstrap_config.yaml"
# Data sets outside UNSTALE_DATA lie in the user's cache, which is looked for under HOME.
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}
export HOME=$work/home FLWR_HOME=$work/flwr
# Use the packages that are installed; `flwr run` would fetch the app's dependencies anew.
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
# RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 keeps Ray on loopback: else it looks up the route to 8.8.8.8.
export RAY_USAGE_STATS_ENABLED=0 HF_HUB_OFFLINE=1 RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 RAY_TMPDIR=$work TMPDIR=$work
# The models are small: more threads only get in each other's way.
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1

# in_background LOG COMMAND...: start a command in a process group of its own, so that it can be
# ended together with what it has started.
groups=()
in_background() {
    local log=$1
    shift
    set -m
    "$@" > "$log" 2>&1 &
    set +m
    groups+=($!)
    disown
}

clean_up() {
    trap - EXIT INT TERM
    local group signal
    for signal in TERM KILL; do
        for group in ${groups[@]+"${groups[@]}"}; do
            kill -s "$signal" -- "-$group" 2>/dev/null || true
        done
        for _ in $(seq 100); do
            for group in ${groups[@]+"${groups[@]}"}; do
                kill -0 -- "-$group" 2>/dev/null && sleep 0.1 && continue 2
            done
            break 2
        done
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_port() {
    python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# wait_for LOG TEXT: until a program has written TEXT; shows the log if it does not within 3 minutes.
wait_for() {
    for _ in $(seq 1800); do
        grep -qs "$2" "$1" && return
        sleep 0.1
    done
    echo "$1 should hold '$2'. Found:" >&2
    cat "$1" >&2
    exit 1
}

# run_app OPTIONS: run the app and follow its log. `flwr run` ends with 0 even when the run
# fails, so what `flwr ls` says decides.
run_app() {
    flwr run "$here" site --stream "$@"
    if ! flwr ls site --format json | grep -q '"status": "finished:completed"'; then
        flwr ls site
        exit 1
    fi
}
