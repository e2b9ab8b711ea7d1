"""Compressed files: single ones and archives, their bytes, checks and recovery. Knows no networks."""
