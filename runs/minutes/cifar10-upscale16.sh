#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/cifar10-upscale16.sh DATA RUNS
# It makes, by table and figure:
#   cifar10-depth: ARDM Upscale 16 (2 x D)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train cifar10 --data "$data" --out "$runs"/cifar10-upscale16 --resume --train-on-all --steps 3780 --base 16
ardm eval "$runs"/cifar10-upscale16 "$data" --items 10000 --batch-size 500 --passes 4 --json -o "$runs"/cifar10-upscale16/bits.json
