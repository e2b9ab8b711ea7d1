#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/sc09-upscale256.sh DATA RUNS
# It makes, by table and figure:
#   sc09-depth: ARDM Upscale 256 (2 x D)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train sc09-paper --data "$data" --out "$runs"/sc09-upscale256 --resume --shards 4 --base 256
ardm eval "$runs"/sc09-upscale256 "$data" --items None --batch-size 100 --passes 8 --json -o "$runs"/sc09-upscale256/bits.json
