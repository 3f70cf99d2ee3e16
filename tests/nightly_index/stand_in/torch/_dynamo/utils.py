"""Counters and phase events."""

from collections import Counter, defaultdict

counters = defaultdict(Counter)


class ChromiumEventLogger:
    """Has the two methods through which every phase passes."""

    def log_event_start(self, event_name, time_ns, metadata):
        """A phase begins."""

    def log_event_end(self, event_name, time_ns, metadata, start_time_ns, log_pt2_compile_event):
        """A phase ends."""
