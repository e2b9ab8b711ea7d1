"""Integer networks that give the same outputs on every machine."""
