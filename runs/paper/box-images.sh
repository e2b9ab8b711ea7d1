#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/box-images.sh DATA RUNS
# It makes, by table and figure:
#   cifar10-compression: ARDM-Upscale 4 (500, 100, 40), FLIF, JPEG XL, WebP, PNG
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm bench codec --model images --data "$data" --items 64 --calls 500 100 40 --json -o "$runs"/box-images/codec.json
