"""Outcomes to text: screen, JSON, Markdown. Pure; everything foreign passes `redact` once."""
