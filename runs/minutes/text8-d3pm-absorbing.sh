#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/text8-d3pm-absorbing.sh DATA RUNS
# It makes, by table and figure:
#   text8: D3PM-absorbing (1000, 256, 20)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8 --data "$data" --out "$runs"/text8-d3pm-absorbing --resume --steps 2860 --method d3pm-absorbing --diffusion-steps 1000
ardm eval "$runs"/text8-d3pm-absorbing "$data" --items 4000 --batch-size 512 --diffusion-steps 1000 --passes 16 --json -o "$runs"/text8-d3pm-absorbing/d3pm-1000.json
ardm eval "$runs"/text8-d3pm-absorbing "$data" --items 4000 --batch-size 512 --diffusion-steps 256 --passes 16 --json -o "$runs"/text8-d3pm-absorbing/d3pm-256.json
ardm eval "$runs"/text8-d3pm-absorbing "$data" --items 4000 --batch-size 512 --diffusion-steps 20 --passes 16 --json -o "$runs"/text8-d3pm-absorbing/d3pm-20.json
