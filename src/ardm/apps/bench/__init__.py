"""Benchmarks: each module returns rows of numbers, the command line prints them."""
