#!/bin/sh
# One machine: a process for each GPU. Without GPUs, two processes: sh train.sh --nproc-per-node=2
exec torchrun --standalone --max-restarts=3 "${@:---nproc-per-node=gpu}" \
    -m firth train "${RECIPE:-recipe.toml}" --out "${OUT:-runs/machine}" --resume --training.checkpoint_every=1000
