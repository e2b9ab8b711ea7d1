#!/bin/sh
# The demo: the bundled models compress, restore, fill gaps and draw samples, and a report shows it; no GPU is needed.
set -eu
out=runs/out/demo
rm -rf "$out"
ardm demo -o "$out"
