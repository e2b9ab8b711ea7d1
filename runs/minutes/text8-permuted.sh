#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/text8-permuted.sh DATA RUNS
# It makes, by table and figure:
#   text8: OA-Transformer (250)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8 --data "$data" --out "$runs"/text8-permuted --resume --steps 2880 --method permuted
ardm eval "$runs"/text8-permuted "$data" --items 4000 --batch-size 512 --passes 16 --json -o "$runs"/text8-permuted/bits.json
