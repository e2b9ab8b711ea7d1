#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/text8-causal.sh DATA RUNS
# It makes, by table and figure:
#   text8: Transformer, causal (250)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8-paper --data "$data" --out "$runs"/text8-causal --resume --batch-size 128 --method causal
ardm eval "$runs"/text8-causal "$data" --items None --batch-size 512 --json -o "$runs"/text8-causal/bits.json
