#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/sc09-upscale4.sh DATA RUNS
# It makes, by table and figure:
#   sc09-depth: ARDM Upscale 4 (8 x D)
#   sc09-calls: ARDM Upscale 4 (8 x 16000), ARDM Upscale 4, planned (8 x 1000, 8 x 500, 8 x 100, 8 x 50)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train sc09 --data "$data" --out "$runs"/sc09-upscale4 --resume --steps 1900 --base 4
ardm eval "$runs"/sc09-upscale4 "$data" --items 1000 --batch-size 100 --passes 8 --json -o "$runs"/sc09-upscale4/bits.json
ardm eval "$runs"/sc09-upscale4 "$data" --items 12 --batch-size 100 --passes 2000 --json -o "$runs"/sc09-upscale4/few.json
ardm eval "$runs"/sc09-upscale4 "$data" --items 12 --batch-size 100 --calls 8000 --json -o "$runs"/sc09-upscale4/calls-1000.json
ardm eval "$runs"/sc09-upscale4 "$data" --items 12 --batch-size 100 --calls 4000 --json -o "$runs"/sc09-upscale4/calls-500.json
ardm eval "$runs"/sc09-upscale4 "$data" --items 12 --batch-size 100 --calls 800 --json -o "$runs"/sc09-upscale4/calls-100.json
ardm eval "$runs"/sc09-upscale4 "$data" --items 12 --batch-size 100 --calls 400 --json -o "$runs"/sc09-upscale4/calls-50.json
