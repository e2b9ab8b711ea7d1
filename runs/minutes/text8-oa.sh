#!/bin/sh
# A run of `ardm report paper --scale minutes`: sh runs/minutes/text8-oa.sh DATA RUNS
# It makes, by table and figure:
#   text8: OA-ARDM (250), Parallelized OA-ARDM (20)
#   text8-limit: as an absorbing D3PM (20, 256, 1000, 4000, 16000), as an ARDM, planned schedule (20), as an ARDM (250)
#   text8-calls: OA-ARDM (250), OA-ARDM, planned (50, 20, 10)
#   loss-text8-oa
#   plan-text8-oa
#   chain-text8-oa
# Written by runs/make_scripts.py.
set -eu
data=$1
runs=$2

ardm train text8 --data "$data" --out "$runs"/text8-oa --resume --steps 2860
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --passes 16 --profile "$runs"/text8-oa/profile.json --json -o "$runs"/text8-oa/bits.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --calls 50 --json -o "$runs"/text8-oa/calls-50.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --calls 20 --json -o "$runs"/text8-oa/calls-20.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --calls 10 --json -o "$runs"/text8-oa/calls-10.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --diffusion-steps 20 --passes 16 --json -o "$runs"/text8-oa/d3pm-20.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --diffusion-steps 256 --passes 16 --json -o "$runs"/text8-oa/d3pm-256.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --diffusion-steps 1000 --passes 16 --json -o "$runs"/text8-oa/d3pm-1000.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --diffusion-steps 4000 --passes 16 --json -o "$runs"/text8-oa/d3pm-4000.json
ardm eval "$runs"/text8-oa "$data" --items 4000 --batch-size 512 --diffusion-steps 16000 --passes 16 --json -o "$runs"/text8-oa/d3pm-16000.json
ardm sample "$runs"/text8-oa -n 2 --calls 250 --chain --json -o "$runs"/text8-oa/chain.json
