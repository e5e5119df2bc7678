#!/bin/sh
# Stands for Python. Called by a link whose folder has a file `program` with the path of the real one.
# What is started with -u keeps its state in that folder and starts again when it ends, unless the
# folder has a file `down`.
folder=$(dirname "$0")
read -r python <"$folder/program" || [ -n "$python" ]
export PERSIST_STATE=1 STATE_DIR="$folder/state"
if [ "$1" != -u ]; then exec "$python" "$@"; fi
while "$python" "$@"; do
    while [ -e "$folder/down" ]; do sleep 0.1; done
done
