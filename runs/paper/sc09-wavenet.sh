#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/sc09-wavenet.sh DATA RUNS
# It makes, by table and figure:
#   sc09-depth: WaveNet, causal (D)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train sc09-paper --data "$data" --out "$runs"/sc09-wavenet --resume --width 128 --batch-size 64 --weight-decay 0.01 --method causal
ardm eval "$runs"/sc09-wavenet "$data" --items None --batch-size 100 --json -o "$runs"/sc09-wavenet/bits.json
