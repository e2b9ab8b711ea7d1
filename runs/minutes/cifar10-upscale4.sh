#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/cifar10-upscale4.sh DATA RUNS
# It makes, by table and figure:
#   cifar10: ARDM-Upscale 4 (4 x 3072), Parallel ARDM-Upscale 4 (4 x 50)
#   cifar10-depth: ARDM Upscale 4 (4 x D)
#   cifar10-calls: ARDM-Upscale 4 (4 x 3072), ARDM-Upscale 4, planned (4 x 500, 4 x 100, 4 x 50)
#   cifar10-literature: ARDM-Upscale 4 (discrete diffusion and ARM)
#   loss-cifar10-upscale4
#   plan-cifar10-upscale4
#   chain-cifar10-upscale4
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train cifar10 --data "$data" --out "$runs"/cifar10-upscale4 --resume --train-on-all --steps 4010 --base 4
ardm eval "$runs"/cifar10-upscale4 "$data" --items 10000 --batch-size 500 --passes 4 --profile "$runs"/cifar10-upscale4/profile.json --json -o "$runs"/cifar10-upscale4/bits.json
ardm eval "$runs"/cifar10-upscale4 "$data" --items 100 --batch-size 500 --passes 100 --json -o "$runs"/cifar10-upscale4/few.json
ardm eval "$runs"/cifar10-upscale4 "$data" --items 100 --batch-size 500 --calls 2000 --json -o "$runs"/cifar10-upscale4/calls-500.json
ardm eval "$runs"/cifar10-upscale4 "$data" --items 100 --batch-size 500 --calls 400 --json -o "$runs"/cifar10-upscale4/calls-100.json
ardm eval "$runs"/cifar10-upscale4 "$data" --items 100 --batch-size 500 --calls 200 --json -o "$runs"/cifar10-upscale4/calls-50.json
ardm sample "$runs"/cifar10-upscale4 -n 2 --calls 400 --chain --json -o "$runs"/cifar10-upscale4/chain.json
