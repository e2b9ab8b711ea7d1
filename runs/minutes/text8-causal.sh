#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/text8-causal.sh DATA RUNS
# It makes, by table and figure:
#   text8: Transformer, causal (250)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8 --data "$data" --out "$runs"/text8-causal --resume --steps 2890 --method causal
ardm eval "$runs"/text8-causal "$data" --items 4000 --batch-size 512 --json -o "$runs"/text8-causal/bits.json
