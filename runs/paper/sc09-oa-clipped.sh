#!/bin/sh
# A run of `ardm report paper --scale paper`: sh runs/paper/sc09-oa-clipped.sh DATA RUNS
# It makes, by table and figure:
#   sc09-depth: OA-ARDM, scales clipped (D)
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train sc09-paper --data "$data" --out "$runs"/sc09-oa-clipped --resume --shards 4 --parametrization logistic --min-log-scale -7
ardm eval "$runs"/sc09-oa-clipped "$data" --items None --batch-size 100 --passes 8 --json -o "$runs"/sc09-oa-clipped/bits.json
