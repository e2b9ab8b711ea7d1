"""The demonstration: the bundled models compress, fill and draw, and a report shows it."""

REPORT, COMPRESSED, RESTORED = "report.html", "compressed", "restored"
"""The file and the folders that the demo writes."""
