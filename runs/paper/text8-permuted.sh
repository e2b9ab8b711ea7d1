#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/text8-permuted.sh DATA RUNS
# It makes, by table and figure:
#   text8: OA-Transformer (250)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8-paper --data "$data" --out "$runs"/text8-permuted --resume --method permuted
ardm eval "$runs"/text8-permuted "$data" --items None --batch-size 512 --passes 16 --json -o "$runs"/text8-permuted/bits.json
