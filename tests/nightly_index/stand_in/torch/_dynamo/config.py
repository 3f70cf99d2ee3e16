"""Settings, which change nothing here."""

suppress_errors = False
