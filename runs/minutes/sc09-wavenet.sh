#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/sc09-wavenet.sh DATA RUNS
# It makes, by table and figure:
#   sc09-depth: WaveNet, causal (D)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train sc09-wavenet --data "$data" --out "$runs"/sc09-wavenet --resume --steps 1590 --method causal
ardm eval "$runs"/sc09-wavenet "$data" --items 1000 --batch-size 100 --json -o "$runs"/sc09-wavenet/bits.json
