"""How commands run: devices, processes, signals, files, compiled and captured code. No mathematics."""
