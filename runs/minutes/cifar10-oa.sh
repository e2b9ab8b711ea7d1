#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/cifar10-oa.sh DATA RUNS
# It makes, by table and figure:
#   cifar10: ARDM-OA (3072), Parallel ARDM-OA (50), D3PM Absorbing (1000)
#   cifar10-depth: OA-ARDM (D)
#   cifar10-calls: ARDM-OA (3072), ARDM-OA, planned (500, 100, 50)
#   cifar10-literature: ARDM-OA (discrete diffusion and ARM)
#   loss-cifar10-oa
#   chain-cifar10-oa
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train cifar10 --data "$data" --out "$runs"/cifar10-oa --resume --train-on-all --steps 3940
ardm eval "$runs"/cifar10-oa "$data" --items 10000 --batch-size 500 --passes 4 --profile "$runs"/cifar10-oa/profile.json --json -o "$runs"/cifar10-oa/bits.json
ardm eval "$runs"/cifar10-oa "$data" --items 100 --batch-size 500 --passes 100 --json -o "$runs"/cifar10-oa/few.json
ardm eval "$runs"/cifar10-oa "$data" --items 100 --batch-size 500 --calls 500 --json -o "$runs"/cifar10-oa/calls-500.json
ardm eval "$runs"/cifar10-oa "$data" --items 100 --batch-size 500 --calls 100 --json -o "$runs"/cifar10-oa/calls-100.json
ardm eval "$runs"/cifar10-oa "$data" --items 100 --batch-size 500 --calls 50 --json -o "$runs"/cifar10-oa/calls-50.json
ardm eval "$runs"/cifar10-oa "$data" --items 10000 --batch-size 500 --diffusion-steps 1000 --passes 4 --json -o "$runs"/cifar10-oa/d3pm-1000.json
ardm sample "$runs"/cifar10-oa -n 2 --calls 200 --chain --json -o "$runs"/cifar10-oa/chain.json
