#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/sc09-upscale16.sh DATA RUNS
# It makes, by table and figure:
#   sc09-depth: ARDM Upscale 16 (4 x D)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train sc09 --data "$data" --out "$runs"/sc09-upscale16 --resume --steps 1900 --base 16
ardm eval "$runs"/sc09-upscale16 "$data" --items 1000 --batch-size 100 --passes 8 --json -o "$runs"/sc09-upscale16/bits.json
