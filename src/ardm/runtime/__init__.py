"""How commands run: devices, processes, signals, files, compiled and recorded code. No mathematics."""
