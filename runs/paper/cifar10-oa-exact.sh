#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/cifar10-oa-exact.sh DATA RUNS
# It makes, by table and figure:
#   cifar10-compression: OA-ARDM (500, 100)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train cifar10 --data "$data" --out "$runs"/cifar10-oa-exact --resume --train-on-all --steps 585000
ardm export "$runs"/cifar10-oa-exact --data "$data" -o "$runs"/cifar10-oa-exact/exact.model --order halton --calls 500 --valid-items 2
ardm bench codec --model "$runs"/cifar10-oa-exact/exact.model --data "$data" --items 32 --calls 500 100 --ours-only --json -o "$runs"/cifar10-oa-exact/codec.json
