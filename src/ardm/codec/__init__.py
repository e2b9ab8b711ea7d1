"""The lossless codec: integer weights, entropy coder, items, files."""
