#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/text8-d3pm-uniform.sh DATA RUNS
# It makes, by table and figure:
#   text8: D3PM-uniform (1000)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8 --data "$data" --out "$runs"/text8-d3pm-uniform --resume --steps 2770 --method d3pm-uniform --diffusion-steps 1000
ardm eval "$runs"/text8-d3pm-uniform "$data" --items 4000 --batch-size 512 --passes 16 --json -o "$runs"/text8-d3pm-uniform/bits.json
