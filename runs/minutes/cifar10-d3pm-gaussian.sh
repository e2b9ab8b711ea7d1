#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/cifar10-d3pm-gaussian.sh DATA RUNS
# It makes, by table and figure:
#   cifar10: D3PM Gaussian (1000)
#   cifar10-literature: D3PM Gaussian (discrete diffusion)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train cifar10 --data "$data" --out "$runs"/cifar10-d3pm-gaussian --resume --train-on-all --steps 950 --method d3pm-gaussian --diffusion-steps 1000
ardm eval "$runs"/cifar10-d3pm-gaussian "$data" --items 10000 --batch-size 100 --json -o "$runs"/cifar10-d3pm-gaussian/bits.json
